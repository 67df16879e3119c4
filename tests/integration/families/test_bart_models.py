"""BART: imported, it reads and writes what transformers does, by the model's own defaults."""

import json
import random
import re
from pathlib import Path

import pytest
import tokenizers
import torch

from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.vocabularies.byte_level import read_byte_level
from export.convert.vocabularies.vocabulary import ImportNames
from export.manifest import Manifest
from export.recovery.from_bundle import recover_checkpoint
from model.byte_level import BYTE_CHARACTERS
from model.checkpoint import load_checkpoint
from model.tokenizer import Tokenizer
from server.engine.options import DecodingOptions
from tests.integration import bart, fairseq, scripts
from tests.integration.hugging_face import Reference, Served, edit_json, fp32_options

NAMES = ImportNames(sources=["en"], targets=["en"])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bart.write(tmp_path_factory.mktemp("bart") / "model")


@pytest.fixture(scope="module")
def bundle(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = tmp_path_factory.mktemp("text") / "dev.txt"
    text.write_text("".join(f"{line}\n" for line in fairseq.texts(210)), encoding="utf-8")
    out = tmp_path_factory.mktemp("bundle") / "bundle"
    import_model(str(directory), out, None, NAMES, fp32_options(text), lambda line: None)
    return out


def defaults(manifest: Manifest, beams: int) -> DecodingOptions:
    """Decode as the model says, with this many beams."""
    says, prefix = manifest.generation, manifest.special_tokens.target_prefix_ids
    return DecodingOptions(
        beam_size=beams,
        length_penalty=says.length_penalty,
        early_stopping=says.early_stopping if beams > 1 else None,
        max_decoding_length=says.max_decoding_length,
        min_decoding_length=says.min_decoding_length,
        no_repeat_ngram_size=says.no_repeat_ngram_size,
        target_prefix=prefix,
        model_prefix_tokens=len(prefix),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_writes_what_generate_writes_by_its_own_defaults(bundle: Path, directory: Path) -> None:
    check_outputs(bundle, directory, 65)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_writes_500_that_generate_writes_by_its_own_defaults(bundle: Path, directory: Path) -> None:
    check_outputs(bundle, directory, 500)


def check_outputs(bundle: Path, directory: Path, count: int) -> None:
    """Compare what the engine and transformers write, greedily and with beams."""
    served, reference = Served(bundle), Reference(directory)
    try:
        texts = scripts.lines(count, seed=7, odd=True)
        assert served.ids(texts) == reference.ids(texts)
        for beams in (1, 4):
            settings = {"num_beams": beams} if beams > 1 else {"num_beams": 1, "early_stopping": False}
            expected = reference.generate(texts, **settings)
            found = served.generate(texts, defaults(served.manifest, beams))
            assert found == expected
            assert {tuple(row[:1]) for row in found} == {(0,)}, "the forced first token"
            assert min(map(len, found)) >= 11 and len({len(row) for row in found}) > 5
            decode = served.tokenizer.decode
            assert [decode(row) for row in found] == reference.tokenizer.batch_decode(
                expected, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
    finally:
        served.close()


@pytest.mark.parametrize("saved_by_transformers", [False, True])
def test_scores_and_ids_are_those_of_transformers(tmp_path: Path, saved_by_transformers: bool) -> None:
    directory = bart.write(tmp_path / "model", saved_by_transformers=saved_by_transformers)
    assert (directory / "merges.txt").exists() is not saved_by_transformers
    config = import_checkpoint(directory, tmp_path / "out", NAMES)
    checkpoint, reference = load_checkpoint(tmp_path / "out"), Reference(directory)
    lines = [*scripts.lines(10_000, seed=1, odd=True), *bart.ENGLISH, "\n".join(bart.ENGLISH)]
    special = config.special_tokens
    rows = [
        [*special.source_prefix_ids, *ids, *special.source_suffix_ids]
        for ids in checkpoint.tokenizer.encode_batch(lines)
    ]
    assert rows == reference.ids(lines)
    assert len({piece for row in rows for piece in row}) > 400
    torch.manual_seed(0)
    for row in rows[:30]:
        source, target = torch.tensor([row]), torch.randint(4, config.model.target_vocab_size, (1, 40))
        with torch.inference_mode():
            theirs = reference.model(input_ids=source, decoder_input_ids=target).logits
            ours = checkpoint.model(source, torch.tensor([len(row)]), target)
        assert float((theirs - ours).abs().max()) <= 1e-4


def test_the_models_own_settings_are_the_bundles(bundle: Path) -> None:
    says = Served(bundle).manifest.generation
    assert (says.beam_size, says.length_penalty, says.early_stopping) == (4, 2.0, True)
    assert (says.max_decoding_length, says.min_decoding_length, says.no_repeat_ngram_size) == (39, 11, 3)


def test_special_tokens_typed_by_a_user_stay_text(bundle: Path) -> None:
    served = Served(bundle)
    for typed in ("</s>", "<s> x", "<mask>", "a <pad>", "<unk>", "madeupword0000", "<unused 3>", "\n \n"):
        ids = served.tokenizer.encode(typed)
        assert min(ids) > 3 and served.tokenizer.decode([0, *ids, 2, 1]) == typed


def test_a_bundle_becomes_the_checkpoint_that_it_was_made_of(
    bundle: Path, directory: Path, tmp_path: Path
) -> None:
    import_checkpoint(directory, tmp_path / "first", NAMES)
    recover_checkpoint(bundle, tmp_path / "again")
    first, again = load_checkpoint(tmp_path / "first"), load_checkpoint(tmp_path / "again")
    assert again.config.tokenizer == first.config.tokenizer == "byte_level"
    assert again.tokenizer.encode("It's 12.") == first.tokenizer.encode("It's 12.")
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, first.model.state_dict()[name]), name


@pytest.mark.parametrize("seed", range(20))
def test_any_list_of_merges_cuts_as_the_tokenizers_library_does(tmp_path: Path, seed: int) -> None:
    """Merges drawn at random make pieces in several ways, or none that a text becomes."""
    draw = random.Random(seed)
    numbers = {piece: i for i, piece in enumerate(["<unk>", *BYTE_CHARACTERS])}
    merges: list[tuple[str, str]] = []
    known = list("abcĠ'")
    while len(merges) < 60:
        left, right = draw.choice(known), draw.choice(known)
        if (left, right) not in merges and len(left + right) < 12:
            merges.append((left, right))
            known.append(left + right)
            numbers.setdefault(left + right, len(numbers))
    draw.shuffle(merges)
    (tmp_path / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")
    lines = "\n".join(f"{left} {right}" for left, right in merges)
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{lines}\n", encoding="utf-8")
    ids, pieces = read_byte_level(tmp_path)
    (tmp_path / "source.spm").write_bytes(pieces.write(len(ids), 0, {}, tmp_path))
    ours = Tokenizer.load(tmp_path / "source.spm", byte_level=True)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=merges))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    texts = ["".join(draw.choices("aaabbbccc ''é", k=draw.randint(1, 60))) for _ in range(300)]
    assert ours.encode_batch(texts) == [one.ids for one in theirs.encode_batch(texts)]
    words = ours.source_words()
    assert {word: ours.source_word_score(word) for word in words} == words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "has a normalizer"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "parts words otherwise than GPT-2"),
        ({"pre_tokenizer": {"type": "ByteLevel", "use_regex": False}}, "parts words otherwise than GPT-2"),
        (
            {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}},
            "puts a space before every text",
        ),
        ({"model": {"type": "Unigram"}}, "its model is not BPE"),
        ({"model": {"type": "BPE", "dropout": 0.1}}, "its model has dropout 0.1"),
        ({"model": {"type": "BPE", "vocab": {"a": 50000}, "merges": []}}, "has no piece for the byte 0x00"),
        ({"model": {"type": "BPE", "vocab": {"a": 1, "b": 1}, "merges": []}}, "two pieces have the same id"),
        ({"model": {"type": "BPE", "vocab": [], "merges": []}}, "its model is odd: AttributeError"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": ["a b c"]}}, "its model is odd: ValueError"),
    ],
)
def test_an_odd_tokenizer_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    directory = bart.write(tmp_path / "model", saved_by_transformers=True)
    edit_json(directory / "tokenizer.json", **change)
    with pytest.raises(HuggingFaceError, match=re.escape(message)) as caught:
        import_checkpoint(directory, tmp_path / "out", NAMES)
    assert "\n" not in str(caught.value)


def test_pieces_of_absurd_lengths_are_refused(tmp_path: Path) -> None:
    directory = bart.write(tmp_path / "model")
    values = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    long = "a" * 10_000
    values[long + "b"] = len(values)
    (directory / "vocab.json").write_text(json.dumps(values), encoding="utf-8")
    with (directory / "merges.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{long} b\n")
    with pytest.raises(HuggingFaceError, match="its pieces are too long"):
        import_checkpoint(directory, tmp_path / "out", NAMES)
