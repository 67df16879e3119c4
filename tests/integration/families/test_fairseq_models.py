"""M2M100, NLLB and mBART: imported, they read and write what transformers does, in every direction."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.evaluation import checkpoint_translator
from server.engine.options import DecodingOptions
from tests.integration import fairseq, scripts
from tests.integration.fairseq import Family, own_code
from tests.integration.hugging_face import Reference, Served, edit_json, fp32_options

FAMILIES: tuple[Family, ...] = ("nllb", "m2m100", "mbart50", "mbart25")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture(scope="module")
def directory(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fairseq.write_model(tmp_path_factory.mktemp(family) / "model", family, saved_by_transformers=True)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "dev.txt"
    file.write_text("".join(f"{line}\n" for line in fairseq.texts(220)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def served(directory: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    out = tmp_path_factory.mktemp("bundle") / "bundle"
    import_model(str(directory), out, None, ImportNames(), fp32_options(text), lambda line: None)
    served = Served(out)
    yield served
    served.close()


class _Reference(Reference):
    """transformers, which is told both languages of a request."""

    def __init__(self, directory: Path, family: Family, source: str, target: str) -> None:
        super().__init__(directory)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            directory, src_lang=own_code(family, source)
        )
        self.forced: dict[str, int] = {}
        code = own_code(family, target)
        code = f"__{code}__" if family == "m2m100" else code
        if family != "mbart25":
            self.forced = {"forced_bos_token_id": self.tokenizer.convert_tokens_to_ids(code)}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("beams", [1, 4])
def test_writes_what_generate_writes(served: Served, directory: Path, family: Family, beams: int) -> None:
    check_outputs(served, directory, family, beams, 65)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("beams", [1, 4])
def test_writes_500_that_generate_writes(served: Served, directory: Path, family: Family, beams: int) -> None:
    check_outputs(served, directory, family, beams, 500)


def check_outputs(served: Served, directory: Path, family: Family, beams: int, count: int) -> None:
    """Compare what the engine and transformers write in two directions."""
    chinese = "zh-Hans" if family == "nllb" else "zh"
    pairs = [("en", "de"), (chinese, "de")] if family == "mbart25" else [("en", "de"), ("de", chinese)]
    for source, target in pairs:
        reference = _Reference(directory, family, source, target)
        direction = list(served.manifest.pairs).index((source, target))
        prefix = served.manifest.framing(source, target).target_prefix
        options = DecodingOptions(
            beam_size=beams,
            max_decoding_length=39,
            target_prefix=prefix,
            model_prefix_tokens=len(prefix),
            early_stopping=False if beams > 1 else None,
        )
        texts = fairseq.texts(count, seed=beams)
        expected = reference.generate(texts, num_beams=beams, **reference.forced)
        found = served.generate(texts, options, direction)
        assert found == expected
        assert len({tuple(row) for row in found}) > 30, "targets differ"


def test_scores_and_ids_are_those_of_transformers(directory: Path, family: Family, tmp_path: Path) -> None:
    config = import_checkpoint(directory, tmp_path / "out", ImportNames())
    checkpoint = load_checkpoint(tmp_path / "out")
    reference = _Reference(directory, family, "en", "de")
    one = next(one for one in config.all_directions if (one.source, one.target) == ("en", "de"))
    lines = scripts.lines(10_000, seed=1, odd=True)
    rows = [
        [*one.source_prefix_ids, *ids, *config.special_tokens.source_suffix_ids, *one.source_suffix_ids]
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


def test_a_checkpoint_is_evaluated_in_the_direction_asked_for(
    directory: Path, family: Family, tmp_path: Path
) -> None:
    import_checkpoint(directory, tmp_path / "out", ImportNames())
    tokenizer, lines = load_checkpoint(tmp_path / "out").tokenizer, fairseq.texts(40, seed=9)
    reference = _Reference(directory, family, "en", "de")
    most = min(2 * max(map(len, reference.ids(lines))) + 10, 127)
    expected = reference.generate(lines, num_beams=1, max_length=most + 1, **reference.forced)
    found = checkpoint_translator(tmp_path / "out", "en-de")(lines)
    ended = [
        (tokenizer.decode(row), text)
        for row, text in zip(expected, found, strict=True)
        if len(row) < most - 1
    ]
    assert len(ended) > 15
    assert [theirs for theirs, _ in ended] == [ours for _, ours in ended]
    with pytest.raises(CheckpointError, match="en-xx is not one of its directions: "):
        checkpoint_translator(tmp_path / "out", "en-xx")


def test_the_hubs_files_give_the_ids_of_fairseq(family: Family, tmp_path: Path) -> None:
    directory = fairseq.write_model(tmp_path / "model", family)
    config = import_checkpoint(directory, tmp_path / "out", ImportNames())
    tokenizer = load_checkpoint(tmp_path / "out").tokenizer
    pieces = transformers.AutoTokenizer.from_pretrained(directory)
    # transformers 5 reads mBART-25's pieces without the normalization that they come with.
    lines = scripts.lines(500, seed=2, odd=family != "mbart25")
    theirs = pieces(lines, add_special_tokens=False).input_ids
    assert tokenizer.encode_batch(lines) == theirs
    count = len(json.loads((directory / "vocab.json").read_bytes())) if family == "m2m100" else 901
    codes = {one.code: (one.source_prefix_ids or one.source_suffix_ids)[0] for one in config.languages}
    if family == "nllb":
        assert codes == {
            "en": count + 3,
            "ace-Arab": count,
            "ace-Latn": count + 1,
            "de": count + 2,
            "zh-Hans": count + 4,
            "zh-Hant": count + 5,
        }
    elif family == "m2m100":
        assert (len(codes), codes["af"], codes["zu"]) == (100, count, count + 99)
    elif family == "mbart50":
        assert (len(codes), codes["ar"], codes["de"], codes["sl"]) == (52, count, count + 2, count + 51)


def test_language_tokens_typed_by_a_user_stay_text(served: Served, family: Family) -> None:
    tokenizer, manifest = served.tokenizer, served.manifest
    codes = {
        number for one in (*manifest.languages, *manifest.directions) for number in one.source_prefix_ids
    }
    codes |= {
        number for one in (*manifest.languages, *manifest.directions) for number in one.source_suffix_ids
    }
    for typed in ("eng_Latn x", "__en__ x", "en_XX x", "</s>", "<mask>", "<unused 5>"):
        assert not codes.intersection(tokenizer.encode(typed))
        assert not {0, 1, 2}.intersection(tokenizer.encode(typed))
    plain = tokenizer.encode("hello")
    assert tokenizer.decode([*sorted(codes), *plain, 2]) == tokenizer.decode(plain)


def test_named_languages_come_first_and_keep_their_names(tmp_path: Path) -> None:
    directory = fairseq.write_model(tmp_path / "model", "nllb")
    names = ImportNames(sources=["zh=zho_Hant"], targets=["deu_Latn", "en"])
    config = import_checkpoint(directory, tmp_path / "out", names)
    assert [one.code for one in config.languages][:3] == ["zh", "deu-Latn", "en"]
    assert (config.source_language, config.target_language) == ("zh", "deu-Latn")
    with pytest.raises(HuggingFaceError, match="has no language 'fr'; it has ace-Arab, ace-Latn"):
        import_checkpoint(directory, tmp_path / "out", ImportNames(sources=["fr"]))


def test_legacy_nllb_reads_the_language_last(tmp_path: Path) -> None:
    directory = fairseq.write_model(tmp_path / "model", "nllb", tokenizer={"legacy_behaviour": True})
    config = import_checkpoint(directory, tmp_path / "out", ImportNames())
    english = config.languages[0]
    assert (english.source_prefix_ids, english.source_suffix_ids) == ([], english.target_prefix_ids)


def test_a_forced_language_is_the_only_target(tmp_path: Path) -> None:
    directory = fairseq.write_model(tmp_path / "model", "mbart50", saved_by_transformers=True)
    german = transformers.AutoTokenizer.from_pretrained(directory).convert_tokens_to_ids("de_DE")
    edit_json(directory / "generation_config.json", forced_bos_token_id=german)
    config = import_checkpoint(directory, tmp_path / "out", ImportNames(sources=["en"]))
    assert [one.name for one in config.all_directions] == ["en-de"]
    assert config.special_tokens.target_prefix_ids == [german]


def test_weights_in_parts_are_those_of_one_file(tmp_path: Path) -> None:
    directory = fairseq.write_model(tmp_path / "model", "nllb")
    whole = import_checkpoint(directory, tmp_path / "whole", ImportNames())
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    (directory / "model.safetensors").unlink()
    model.save_pretrained(directory, max_shard_size="200KB")
    assert len(list(directory.glob("model-*.safetensors"))) > 2
    parts = import_checkpoint(directory, tmp_path / "parts", ImportNames())
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "parts" / "model.safetensors"
    ).read_bytes()
    assert parts.model == whole.model
    next(directory.glob("model-00002*")).unlink()
    with pytest.raises(HuggingFaceError, match=r"model-00002-of-.*no such file; model.safetensors.index"):
        import_checkpoint(directory, tmp_path / "again", ImportNames())


@pytest.mark.parametrize("part", ["../model.safetensors", "/etc/passwd.safetensors", "a/b.safetensors", 3])
def test_an_index_cannot_name_files_elsewhere(tmp_path: Path, part: object) -> None:
    directory = fairseq.write_model(tmp_path / "model", "nllb")
    (directory / "model.safetensors").unlink()
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.shared.weight": part}}), encoding="utf-8")
    with pytest.raises(HuggingFaceError, match="has no weight_map of tensors and files beside it"):
        import_checkpoint(directory, tmp_path / "out", ImportNames())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "normalizes by 'Lowercase'"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, r"cuts text by \['ByteLevel'\]"),
        ({"model": {"type": "WordPiece"}}, "neither Unigram nor BPE"),
        ({"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a b"]}}, "a merge makes 'ab'"),
        ({"model": {"type": "Unigram", "vocab": [[1]]}}, "its model is odd"),
        ({"model": {"type": "BPE", "vocab": {"a": 10**9}, "merges": []}}, "outside the model's vocabulary"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}},
            "table of characters is damaged",
        ),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "SentencePiece refuses"),
    ],
)
def test_an_odd_tokenizer_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    directory = fairseq.write_model(tmp_path / "model", "nllb", saved_by_transformers=True)
    edit_json(directory / "tokenizer.json", **change)
    with pytest.raises(HuggingFaceError, match=message) as caught:
        import_checkpoint(directory, tmp_path / "out", ImportNames())
    assert "\n" not in str(caught.value)
