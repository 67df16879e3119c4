"""Marian's own files: imported, they write what the same weights write in transformers.

Marian itself is not at hand here; its positions, epsilon and start are set in transformers' class.
"""

import io
import random
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.marian_native.from_marian import import_marian, is_marian
from export.convert.marian_native.npz import read_npz
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import load_checkpoint
from model.tokenizer import TokenizerError
from server.engine.options import DecodingOptions
from tests.integration import marian_native
from tests.integration.hugging_face import Served, fp32_options
from tests.integration.marian import write_marian
from tests.support import factories

NAMES = ImportNames(sources=["en"], targets=["de"])
ALIASES: dict[str, object] = {"a0": "&a0 [x]"}
ALIASES |= {f"a{i}": f"&a{i} [{f'*a{i - 1}, ' * 10}]" for i in range(1, 12)} | {"transformer-no-bias": "*a11"}
"""Names of names: written out, 10**11 letters."""
MODEL = {"encoder_layers": 2, "decoder_layers": 3, "activation_function": "relu"}


@pytest.fixture(scope="module")
def original(pieces: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Marian has no token of padding: what transformers' class has instead must take no probability.
    alike = {"forced_eos_token_id": None, "renormalize_logits": True}
    return write_marian(
        tmp_path_factory.mktemp("theirs") / "opus-mt", *pieces, generation=alike, seed=3, **MODEL
    )


@pytest.fixture(scope="module")
def directory(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return marian_native.write(original, tmp_path_factory.mktemp("marian") / "opus-2026")


def read(directory: Path, out: Path) -> None:
    import_marian(directory, out, NAMES, lambda line: None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_200_of_200_outputs_are_those_of_the_same_weights(
    directory: Path, original: Path, text: Path, tmp_path: Path
) -> None:
    import_model(str(directory), tmp_path / "bundle", None, NAMES, fp32_options(text), lambda line: None)
    served, reference = Served(tmp_path / "bundle"), marian_native.reference(original)
    try:
        texts = factories.parallel_text(260, seed=9)[0][:200]
        assert served.ids(texts) == reference.ids(texts)
        assert served.manifest.generation.beam_size == 4
        for beams in (1, 4):
            stop = {"early_stopping": False} if beams > 1 else {}
            expected = reference.generate(texts, num_beams=beams, max_length=41, **stop)
            options = DecodingOptions(beam_size=beams, max_decoding_length=40, **stop)
            assert served.generate(texts, options) == expected
            assert len({tuple(row) for row in expected}) > 40, "targets differ"
    finally:
        served.close()


@pytest.mark.parametrize("tied", ["all", "none"])
def test_scores_are_those_of_the_same_weights(original: Path, tmp_path: Path, tied: str) -> None:
    read(marian_native.write(original, tmp_path / "model", tied=tied), tmp_path / "out")
    checkpoint, reference = load_checkpoint(tmp_path / "out"), marian_native.reference(original)
    config, pad = checkpoint.config, reference.model.config.pad_token_id
    assert config.special_tokens.decoder_start_id == config.model.target_vocab_size - 1 == pad
    assert config.model.tie_output == config.model.share_source_target_embeddings == (tied == "all")
    torch.manual_seed(0)
    source, target = torch.randint(2, pad, (8, 20)), torch.randint(2, pad, (8, 30))
    target[:, 0] = pad
    with torch.inference_mode():
        theirs = reference.model(input_ids=source, decoder_input_ids=target).logits
        ours = checkpoint.model(source, torch.full((8,), 20), target)
    assert float((theirs - ours)[..., :pad].abs().max()) <= 1e-4


def test_a_sentencepiece_vocabulary_gives_its_own_ids(original: Path, tmp_path: Path) -> None:
    directory = marian_native.write(original, tmp_path / "model")
    rows = len((directory / "opus.vocab.yml").read_text(encoding="utf-8").splitlines())
    for name in ("opus.vocab.yml", "source.spm", "target.spm"):
        (directory / name).unlink()
    with (directory / "vocab.spm").open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(factories.parallel_text(400)[0]),
            model_writer=stream,
            vocab_size=rows,
            hard_vocab_limit=False,
            eos_id=0,
            unk_id=1,
            bos_id=-1,
            pad_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    read(directory, tmp_path / "out")
    tokenizer = load_checkpoint(tmp_path / "out").tokenizer
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(directory / "vocab.spm"))
    lines = factories.parallel_text(50)[0]
    assert tokenizer.encode_batch(lines) == theirs.encode(lines)
    assert min(min(row) for row in tokenizer.encode_batch(["</s>", "<unk>", "a </s>"])) > 0


def test_what_it_is_told_from(directory: Path, original: Path, tmp_path: Path) -> None:
    assert is_marian(directory)
    assert not is_marian(original)
    (tmp_path / "model.deen.intgemm.alphas.bin.gz").write_bytes(b"\1\0\0\0")
    assert is_marian(tmp_path)
    with pytest.raises(HuggingFaceError, match=r"alphas.bin.gz: compressed; gunzip or unzstd it first"):
        read(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}, "decoder_l1_rnn_Wf is missing"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, r"its decoder is a recurrence \(gru\)"),
        ({"transformer-decoder-autoreg": "average-attention"}, r"a recurrence \(average-attention\)"),
        ({"type": "s2s"}, "type 's2s' is not computed here"),
        ({"transformer-ffn-depth": 3}, "transformer-ffn-depth '3' is not computed here"),
        ({"transformer-tied-layers": "[1, 1]"}, "transformer-tied-layers"),
        ({"transformer-ffn-activation": "gelu"}, "norms .* with 'gelu' are not computed here"),
        ({"transformer-postprocess": "da"}, "norms .* are not computed here"),
        ({"transformer-preprocess": "n", "transformer-postprocess": "da"}, "norms .* are not computed here"),
        ({"transformer-heads": "x"}, "its options are odd: invalid literal"),
        ({"transformer-heads": 7}, "its options are odd: Value error, d_model 32 is not a multiple"),
        ({"enc-depth": 10**9}, "its options are odd: Input should be less than or equal to 1024"),
        ({"enc-depth": 3}, "encoder_l3_self_Wq is missing"),
        ({"dec-depth": 2}, "'decoder_l3_context_Wk' is not part of a plain Transformer"),
        ({"dim-emb": 64}, "does not fit the configured model"),
        ({"transformer-dim-ffn": 2**20}, "does not fit the configured model"),
        ({"bad": "[1, {"}, "not YAML"),
        ({"transformer-preprocess": "[n]"}, "norms .* are not computed here"),
        ({"transformer-ffn-activation": "[swish]"}, "norms .* are not computed here"),
        ({"transformer-heads": "{a: b}"}, r"invalid literal for int\(\) with base 10: '\(nested\)'"),
        (ALIASES, r"transformer-no-bias '\(nested\)' is not computed here"),
        ({"a": f"&a {'x' * 10_000}", "transformer-pool": f"[{'*a,' * 10_000}]"}, r"-pool '\(nested\)'"),
    ],
)
def test_other_architectures_are_one_line(
    original: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    directory = marian_native.write(original, tmp_path / "model", **options)
    with pytest.raises(HuggingFaceError, match=message) as caught:
        read(directory, tmp_path / "out")
    assert "\n" not in str(caught.value)


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.npy",
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"),
            "states a shape",
        ),
        ("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", b"x" * 8), "damaged"),
        ("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x" * 8), "holds objects"),
        ("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}"), "holds objects"),
        ("a.npy", b"\x93NUMPY\7\7" + b"x" * 100, "damaged"),
        ("a.npy", b"", "damaged"),
        ("a.npy", np.zeros(10**6).tobytes(), "would be 8000000 bytes"),
        (
            "special:model.yml.npy",
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"abcd"),
            "no model of",
        ),
    ],
)
def test_a_hostile_archive_is_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    with pytest.raises(HuggingFaceError, match=message) as caught:
        read(tmp_path, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_arrays_are_those_of_numpy(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6).reshape(3, 2)),
        "c": np.array(1.5),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    found = read_npz(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_150_damaged_models_are_refused_or_read(directory: Path, tmp_path: Path) -> None:
    ends = {"refused": 0, "read": 0}
    for seed in range(150):
        draw, copy = random.Random(seed), tmp_path / f"copy{seed}"
        shutil.copytree(directory, copy)
        file = draw.choice(sorted(copy.iterdir()))
        content = bytearray(file.read_bytes())
        if file.suffix == ".npz" and draw.random() < 0.7:
            content = _with_one_array_changed(bytes(content), draw)
        elif draw.random() < 0.3:
            del content[draw.randrange(len(content)) :]
        else:
            for _ in range(draw.choice((1, 3, 20))):
                content[draw.randrange(len(content))] = draw.randrange(256)
        file.write_bytes(content)
        try:
            read(copy, tmp_path / "out")
            ends["read"] += 1
        except (HuggingFaceError, TokenizerError) as error:
            assert str(error).isprintable() and len(str(error)) < 1000, f"{seed} {file.name}"
            ends["refused"] += 1
        shutil.rmtree(copy)
    assert min(ends.values()) > 15, ends


def _with_one_array_changed(content: bytes, draw: random.Random) -> bytearray:
    """Damage an array, and write a sound archive around it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: bytearray(archive.read(name)) for name in archive.namelist()}
    name = draw.choice(sorted(members))
    if draw.random() < 0.1:
        del members[name]
    else:
        place = draw.randrange(min(len(members[name]), 128) if draw.random() < 0.7 else len(members[name]))
        members[name][place] = draw.randrange(256)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, changed in members.items():
            archive.writestr(member, bytes(changed))
    return bytearray(out.getvalue())


def test_a_task_and_a_prompt_are_heard(directory: Path, tmp_path: Path) -> None:
    names = ImportNames(sources=["en"], targets=["de"], task="pronunciation")
    assert import_marian(directory, tmp_path / "out", names, lambda line: None).task == "pronunciation"
    with pytest.raises(HuggingFaceError, match="--prompt is for T5"):
        import_marian(directory, tmp_path / "out", ImportNames(prompt="say: "), lambda line: None)
