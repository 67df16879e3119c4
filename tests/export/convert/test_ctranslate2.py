"""CTranslate2 directories and Argos packages: read as CTranslate2 reads them; nothing hostile gets far."""

from __future__ import annotations

import json
import random
import shutil
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from ctranslate2.converters import TransformersConverter

from export.convert.ctranslate2.argos import unpack
from export.convert.ctranslate2.binary import Binary, read_binary
from export.convert.ctranslate2.from_ctranslate2 import import_ctranslate2, is_ctranslate2
from export.convert.ctranslate2.tokens import read_tokens
from export.convert.ctranslate2.weights import convert
from export.convert.from_huggingface import import_checkpoint
from export.convert.head_padding import pad_heads
from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import load_checkpoint
from model.data.batching import pad_rows
from model.evaluation.evaluation import greedy_decode
from model.transformer import Transformer
from server.engine.options import DecodingOptions
from tests.integration.hugging_face import Served, fp32_options
from tests.integration.marian import learn_pieces, write_marian
from tests.support import factories

NAMES = ImportNames(sources=["en"], targets=["de"])
QUIET: Any = lambda line: None  # noqa: E731


def convert_with_ctranslate2(original: Path, out: Path, quantization: str | None = None) -> Path:
    TransformersConverter(str(original)).convert(str(out), quantization=quantization)
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(original / name, out / name)
    return out


@pytest.fixture(scope="module")
def directory(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert_with_ctranslate2(original, tmp_path_factory.mktemp("ct2") / "opus-mt-en-de")


@pytest.fixture(scope="module")
def content(directory: Path) -> Binary:
    return read_binary(directory / "model.bin")


def write(
    path: Path, version: int, variables: Mapping[str, np.ndarray], name: str = "TransformerSpec"
) -> Path:
    """Write a file of any version."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    parts = [struct.pack("<I", version)]
    parts += [text(name), struct.pack("<I", 7)] if version >= 2 else []
    parts.append(struct.pack("<I", len(variables)))
    types = ["float32", "int8", "int16", "int32", "float16"]
    for key, values in variables.items():
        parts += [text(key), struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)]
        if version >= 4:
            parts.append(struct.pack("<BI", types.index(values.dtype.name), values.nbytes))
        else:
            parts.append(struct.pack("<BI", values.itemsize, values.size))
        parts.append(values.tobytes())
    parts += [struct.pack("<I", 0)] if version >= 3 else []
    path.write_bytes(b"".join(parts))
    return path


def test_a_converted_marian_model_is_the_one_it_was(directory: Path, original: Path, tmp_path: Path) -> None:
    import_checkpoint(original, tmp_path / "first", ImportNames())
    config = import_ctranslate2(directory, tmp_path / "back", NAMES, QUIET)
    first, back = load_checkpoint(tmp_path / "first"), load_checkpoint(tmp_path / "back")
    lines = factories.parallel_text(40, seed=3)[0]
    rows = [[*ids, config.special_tokens.source_suffix_ids[0]] for ids in back.tokenizer.encode_batch(lines)]
    assert rows == [[*ids, 0] for ids in first.tokenizer.encode_batch(lines)]
    target = torch.randint(1, 100, (1, 9))
    for row in rows[:10]:
        source, lengths = torch.tensor([row]), torch.tensor([len(row)])
        ours, theirs = target.clone(), target.clone()
        ours[0, 0] = config.special_tokens.decoder_start_id
        theirs[0, 0] = first.config.special_tokens.decoder_start_id
        with torch.inference_mode():
            # The last token is padding, which the converter leaves out.
            expected = first.model(source, lengths, theirs)[:, :, :-1]
            scores = back.model(source, lengths, ours)[:, :, : expected.shape[-1]]
        torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)
    start = config.special_tokens.decoder_start_id
    assert config.special_tokens.suppressed_ids == [start]
    assert not back.model.target_embedding.tokens.weight[start].any()


@pytest.mark.parametrize("quantization", [None, "int8", "int16", "float16", "bfloat16"])
def test_writes_what_ctranslate2_writes(original: Path, tmp_path: Path, quantization: str | None) -> None:
    check_outputs(convert_with_ctranslate2(original, tmp_path / "ct2", quantization), tmp_path)


@pytest.mark.parametrize("quantization", [None, "int8", "int16"])
def test_a_file_of_version_1_writes_what_ctranslate2_writes(tmp_path: Path, quantization: str | None) -> None:
    """Files of that version state no heads: CTranslate2, which reads them still, takes eight."""
    texts = factories.parallel_text(300)
    pieces = [learn_pieces(lines, tmp_path / f"{i}.spm") for i, lines in enumerate(texts)]
    heads = {"d_model": 64, "encoder_attention_heads": 8, "decoder_attention_heads": 8}
    original = write_marian(tmp_path / "opus-mt-en-de", *pieces, **heads)
    directory = convert_with_ctranslate2(original, tmp_path / "ct2", quantization)
    variables = read_binary(directory / "model.bin").variables
    later = ("num_heads", "alignment_heads", "alignment_layer", "alibi", "alibi_use_positive_positions")
    variables = {name: values for name, values in variables.items() if name.rpartition("/")[2] not in later}
    write(directory / "model.bin", 1, variables)
    check_outputs(directory, tmp_path)


def check_outputs(directory: Path, tmp_path: Path) -> None:
    """Import a directory, and compare what it writes with what CTranslate2 writes by the same file."""
    config = import_ctranslate2(directory, tmp_path / "back", NAMES, QUIET)
    checkpoint, special = load_checkpoint(tmp_path / "back"), config.special_tokens
    lines = factories.parallel_text(60, seed=5)[0]
    rows = [[*ids, *special.source_suffix_ids] for ids in checkpoint.tokenizer.encode_batch(lines)]
    found = greedy_decode(
        checkpoint.model,
        pad_rows(rows, special.pad_id),
        torch.tensor([len(row) for row in rows]),
        bos=special.decoder_start_id,
        eos=special.eos_id,
        max_length=30,
        suppressed_ids=special.suppressed_ids,
    )
    translator = ctranslate2.Translator(str(directory), compute_type="float32", intra_threads=1)
    pieces = checkpoint.tokenizer.source_pieces()
    tokens = [[pieces[number] for number in row] for row in rows]
    results = translator.translate_batch(tokens, beam_size=1, max_decoding_length=30)
    names = checkpoint.tokenizer.target_pieces()
    written = [[names[number] for number in row] for row in found]
    same = sum(one == result.hypotheses[0] for one, result in zip(written, results, strict=True))
    # CTranslate2 writes at least one token.
    assert same >= len(lines) - sum(not row for row in found)
    assert len({tuple(row) for row in written}) > 20


@pytest.mark.slow
def test_its_bundle_writes_300_that_ctranslate2_writes(directory: Path, tmp_path: Path) -> None:
    lines = factories.parallel_text(300, seed=5)[0]
    text = tmp_path / "dev.txt"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    import_model(str(directory), tmp_path / "bundle", None, NAMES, fp32_options(text), QUIET)
    translator = ctranslate2.Translator(str(directory), compute_type="float32", intra_threads=1)
    served = Served(tmp_path / "bundle")
    try:
        pieces, names = served.tokenizer.source_pieces(), served.tokenizer.target_pieces()
        tokens = [[pieces[number] for number in row] for row in served.ids(lines)]
        for width in (1, 4):
            results = translator.translate_batch(tokens, beam_size=width, max_decoding_length=30)
            expected = [result.hypotheses[0] for result in results]
            # CTranslate2 writes at least one token unless it is told otherwise.
            options = DecodingOptions(beam_size=width, max_decoding_length=30, min_decoding_length=1)
            written = [[names[number] for number in row] for row in served.generate(lines, options)]
            assert written == expected
            assert len({tuple(row) for row in written}) > 100
    finally:
        served.close()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 6])
def test_files_of_every_version_hold_the_same(content: Binary, tmp_path: Path, version: int) -> None:
    again = read_binary(write(tmp_path / "model.bin", version, content.variables))
    assert again.variables.keys() == content.variables.keys()
    for name, values in content.variables.items():
        np.testing.assert_array_equal(again.variables[name], values)


def test_small_heads_are_padded_and_compute_the_same() -> None:
    torch.manual_seed(0)
    config = factories.tiny_config(60, encoder_heads=12, decoder_heads=12, d_model=48)
    assert config.unservable
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    tensors = {name: value for name, value in model.state_dict().items() if name != "projection.weight"}
    wide, padded = pad_heads(config, tensors)
    assert (wide.unservable, wide.decoder_head_dim) == (None, 8)
    other = Transformer(wide).eval()
    other.load_state_dict(padded, strict=False)
    source, lengths, target = (
        torch.randint(4, 60, (3, 9)),
        torch.tensor([9, 4, 1]),
        torch.randint(4, 60, (3, 7)),
    )
    with torch.inference_mode():
        expected = model(source, lengths, target)
        torch.testing.assert_close(other(source, lengths, target), expected, atol=1e-4, rtol=1e-4)


def test_a_model_of_letters_needs_no_sentencepiece(directory: Path, tmp_path: Path) -> None:
    config = factories.tiny_config(9)
    torch.manual_seed(0)
    model = Transformer(config.model_copy(update={"source_vocab_size": 9, "target_vocab_size": 9}))
    out = tmp_path / "letters"
    out.mkdir()
    tokens = ["<blank>", "<s>", "</s>", "a", "b", "é", "語", "▁"]
    (out / "shared_vocabulary.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    write(out / "model.bin", 6, their_variables(model))
    imported = import_ctranslate2(out, tmp_path / "back", NAMES, QUIET)
    tokenizer = load_checkpoint(tmp_path / "back").tokenizer
    assert imported.special_tokens.unk_id == 8
    assert tokenizer.encode("ab é語x") == [3, 4, 7, 5, 6, 8]
    assert tokenizer.decode([4, 3, 7, 6, 2]) == "ba 語"


def their_variables(model: Transformer) -> dict[str, np.ndarray]:
    """Give a pre-norm model of ours CTranslate2's names."""
    names = {
        "self_attention.qkv": "self_attention/linear_0",
        "self_attention.output": "self_attention/linear_1",
        "self_residual.norm": "self_attention/layer_norm",
        "cross_attention.query": "attention/linear_0",
        "cross_attention.key_value": "attention/linear_1",
        "cross_attention.output": "attention/linear_2",
        "cross_residual.norm": "attention/layer_norm",
        "feed_forward.expand": "ffn/linear_0",
        "feed_forward.contract": "ffn/linear_1",
        "feed_forward_residual.norm": "ffn/layer_norm",
    }
    found = {}
    for name, tensor in model.state_dict().items():
        parent, kind = name.rsplit(".", 1)
        norm = parent.endswith("norm")
        kind = {"weight": "gamma", "bias": "beta"}[kind] if norm else kind
        side, *rest = parent.split(".")
        if side.endswith("_norm"):
            theirs = f"{side.removesuffix('_norm')}/layer_norm"
        elif side.endswith("_embedding"):
            theirs = f"{'encoder' if side.startswith('source') else 'decoder'}/embeddings"
        elif side == "projection":
            theirs = "decoder/projection"
        else:
            theirs = f"{side}/layer_{rest[0]}/{names['.'.join(rest[1:])]}"
        found[f"{theirs}/{kind}"] = tensor.numpy()
    heads = {"encoder/num_heads": model.config.encoder_heads, "decoder/num_heads": model.config.decoder_heads}
    return found | {name: np.array(value, np.int16) for name, value in heads.items()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("decoder/layer_0/self_attention/relative_position_keys", "is not part of a plain Transformer"),
        ("decoder/layer_0/self_attention/rotary_dim", "is not part of a plain Transformer"),
        ("decoder/alibi", "is not part of a plain Transformer"),
    ],
)
def test_what_computes_something_else_is_refused(content: Binary, name: str, message: str) -> None:
    odd = Binary("TransformerSpec", 7, {**content.variables, name: np.array(1, np.int8)})
    with pytest.raises(HuggingFaceError, match=message):
        convert(odd, Path("model.bin"))


def test_a_damaged_file_is_one_line_whatever_the_damage(directory: Path, tmp_path: Path) -> None:
    draw, whole = random.Random(0), (directory / "model.bin").read_bytes()
    file = tmp_path / "model.bin"
    for _ in range(150):
        damaged = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.5 else whole)
        for _ in range(draw.randint(1, 4)):
            if damaged:
                damaged[draw.randrange(min(len(damaged), 3000))] = draw.randrange(256)
        file.write_bytes(damaged)
        try:
            convert(read_binary(file), file)
        except HuggingFaceError as error:
            assert "\n" not in str(error)


def package(path: Path, directory: Path, **changes: bytes | None) -> Path:
    """Zip a model as Argos does; a change replaces a file, or leaves it out."""
    metadata = {"package_version": "1.9", "from_code": "en", "to_code": "de", "from_name": "English"}
    files: dict[str, bytes | None] = {
        "translate-en_de-1_9/metadata.json": json.dumps(metadata).encode(),
        "translate-en_de-1_9/sentencepiece.model": (directory / "source.spm").read_bytes(),
        "translate-en_de-1_9/stanza/resources.json": b"{}",
        **{
            f"translate-en_de-1_9/model/{file.name}": file.read_bytes()
            for file in directory.iterdir()
            if file.suffix != ".spm"
        },
    }
    for name, content in changes.items():
        files = {f: c for f, c in files.items() if not f.endswith(name)} | {
            f"translate-en_de-1_9/{name}": content
        }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            if content is not None:
                archive.writestr(name, content)
    return path


def test_an_argos_package_says_its_languages(directory: Path, tmp_path: Path) -> None:
    path = package(tmp_path / "translate-en_de.argosmodel", directory)
    assert is_ctranslate2(path)
    config = import_ctranslate2(path, tmp_path / "out", ImportNames(), QUIET)
    assert (config.name, config.source_language, config.target_language) == ("argos-en-de-1.9", "en", "de")
    assert load_checkpoint(tmp_path / "out").tokenizer.encode("the cat")


def test_nothing_of_a_package_lands_elsewhere(directory: Path, tmp_path: Path) -> None:
    path = package(tmp_path / "bad.argosmodel", directory)
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("../evil", "x/../../evil", "/tmp/evil", "x/model/../../../evil", "a/model/evil.txt"):
            archive.writestr(name, b"x")
    aside = tmp_path / "inner" / "aside"
    aside.mkdir(parents=True)
    unpack(path, aside)
    assert {file.name for file in aside.iterdir()} <= {
        "metadata.json",
        "sentencepiece.model",
        "model.bin",
        "config.json",
        "shared_vocabulary.json",
        "source_vocabulary.json",
        "target_vocabulary.json",
    }
    assert sorted(file.name for file in tmp_path.rglob("*evil*")) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata.json": b"["}, "metadata.json is odd"),
        ({"metadata.json": b'{"from_code": "en", "to_code": "../x"}'}, "is not a language code"),
        ({"metadata.json": None}, "not an Argos package"),
        ({"sentencepiece.model": None}, "no tokenizer"),
        ({"sentencepiece.model": None, "bpe.model": b"#"}, "another tokenizer than SentencePiece"),
        ({"sentencepiece.model": b"\0" * 5_000_000}, "would be 5000000 bytes"),
        ({"sentencepiece.model": b"nonsense"}, "not a SentencePiece model"),
        ({"model/model.bin": b"\6"}, "not a model of CTranslate2"),
    ],
)
def test_an_odd_package_is_refused(
    directory: Path, tmp_path: Path, changes: dict[str, bytes | None], message: str
) -> None:
    path = package(tmp_path / "odd.argosmodel", directory, **changes)
    with pytest.raises(HuggingFaceError, match=message):
        import_ctranslate2(path, tmp_path / "out", NAMES, QUIET)
    (tmp_path / "no.argosmodel").write_bytes(b"PK\3\4 no zip")
    with pytest.raises(HuggingFaceError, match="not an Argos package"):
        import_ctranslate2(tmp_path / "no.argosmodel", tmp_path / "out", NAMES, QUIET)


def test_languages_of_many_are_found_and_named_as_of_transformers(original: Path, tmp_path: Path) -> None:
    codes = [f"{one}_Latn" for one in ("fra", "ita", "spa", "deu", "nld", "por", "pol", "ron", "swe", "eng")]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *codes]
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(tokens), encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(original / name, tmp_path / name)

    def read(**names: list[str]) -> list[tuple[str, list[int]]]:
        tokens = read_tokens(tmp_path, (14, 14), ImportNames(**names))
        return [(one.code, one.target_prefix_ids) for one in tokens.vocabulary.languages]

    assert read()[:2] == [("en", [13]), ("fr", [4])]
    assert read(sources=["eng_Latn"], targets=["br=por_Latn"])[:2] == [("eng-Latn", [13]), ("br", [9])]
    with pytest.raises(HuggingFaceError, match="has no language 'xx'; it has de, en, es"):
        read(sources=["en"], targets=["xx"])


def test_what_an_importer_says_of_a_package_holds(directory: Path, tmp_path: Path) -> None:
    path = package(tmp_path / "translate-en_de.argosmodel", directory)
    config = import_ctranslate2(path, tmp_path / "out", ImportNames(targets=["de-AT"]), QUIET)
    assert (config.source_language, config.target_language) == ("en", "de-AT")
    with pytest.raises(HuggingFaceError, match="--prompt is for T5"):
        import_ctranslate2(path, tmp_path / "out", ImportNames(prompt="translate: "), QUIET)


def test_a_package_with_a_bad_sector_is_one_line(directory: Path, tmp_path: Path) -> None:
    draw, path = random.Random(0), package(tmp_path / "bad.argosmodel", directory)
    whole = path.read_bytes()
    for number in range(60):
        damaged, place = bytearray(whole), draw.randrange(len(whole) - 100)
        damaged[place : place + 100] = draw.randbytes(100)
        path.write_bytes(damaged)
        (aside := tmp_path / str(number)).mkdir()
        try:
            unpack(path, aside)
        except HuggingFaceError as error:
            assert "\n" not in str(error)
