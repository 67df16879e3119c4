"""MarianMT directories as people find them: settings honoured, and one clear line for everything odd."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from dragoman import app
from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_config import read_settings
from export.convert.huggingface_files import HuggingFaceError, find_directory, read_front_matter
from export.convert.import_command import import_model
from export.convert.vocabularies.vocabulary import ImportNames
from export.fetch.download import FetchError
from export.gate_texts import ExportError
from export.pipeline import ExportOptions
from model.checkpoint import CheckpointConfig, load_checkpoint
from model.tokenizer import TokenizerError
from tests.integration.marian import write_marian

Change = Callable[[Path], None]
Report: list[str] = []


@pytest.fixture
def marian(tmp_path: Path, original: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "opus-mt-en-de"))


def _edit(name: str, **changes: Any) -> Change:
    """Set fields of a JSON file; a value of ... removes the field."""

    def change(directory: Path) -> None:
        file = directory / name
        values = (json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}) | changes
        values = {key: value for key, value in values.items() if value is not ...}
        file.write_text(json.dumps(values), encoding="utf-8")

    return change


def _tensors(edit: Callable[[dict[str, torch.Tensor]], None]) -> Change:
    def change(directory: Path) -> None:
        file = directory / "model.safetensors"
        tensors = dict(load_file(file))
        edit(tensors)
        save_file(tensors, file)

    return change


def _write(name: str, content: bytes) -> Change:
    return lambda directory: (directory / name).write_bytes(content) and None


def _remove(name: str) -> Change:
    return lambda directory: (directory / name).unlink()


def _all(*changes: Change) -> Change:
    def change(directory: Path) -> None:
        for one in changes:
            one(directory)

    return change


def _import(directory: Path, **names: Any) -> CheckpointConfig:
    return import_checkpoint(directory, directory.parent / "checkpoint", ImportNames(**names), Report.append)


FC1 = "model.encoder.layers.0.fc1.weight"
REFUSALS: dict[str, tuple[Change, str]] = {
    "no config": (_remove("config.json"), r"config\.json: no such file"),
    "config is no JSON": (_write("config.json", b"{"), r"config\.json: not JSON"),
    "config is a list": (_write("config.json", b"[]"), r"config\.json: not a JSON object"),
    "config is huge": (_write("config.json", b" " * (5 << 20)), r"config\.json: 5242880 bytes"),
    "deeply nested": (_write("config.json", b"[" * 200_000), r"config\.json: not JSON"),
    "another kind": (_edit("config.json", model_type="bert"), "model_type is 'bert'"),
    "no width": (_edit("config.json", d_model=...), r"d_model: Field required"),
    "a thousand layers": (
        _edit("config.json", encoder_layers=1000),
        "encoder_layers: .* less than or equal to 64",
    ),
    "huge vocabulary": (_edit("config.json", vocab_size=10**9), "vocab_size"),
    "activation": (
        _edit("config.json", activation_function="tanh"),
        "activation_function 'tanh' is not one of",
    ),
    "heads": (_edit("config.json", encoder_attention_heads=5), "not a multiple of encoder_heads 5"),
    "width": (_edit("config.json", d_model=64), r"has shape .* config\.json says"),
    "padding outside": (_edit("config.json", pad_token_id=5000), "pad_id 5000 is outside"),
    "end outside": (
        _edit("generation_config.json", eos_token_id=999, forced_eos_token_id=...),
        "999 is outside",
    ),
    "two ends": (_edit("generation_config.json", eos_token_id=[0, 1]), "eos_token_id must be one token"),
    "phrases banned": (_edit("generation_config.json", bad_words_ids=[[3, 4]]), "more than one token"),
    "banned outside": (_edit("generation_config.json", bad_words_ids=[[900]]), "900 is outside"),
    "no end forced": (_edit("generation_config.json", forced_eos_token_id=[]), "not eos_token_id"),
    "two ends forced": (_edit("generation_config.json", forced_eos_token_id=[0, 1]), "not eos_token_id"),
    "another end forced": (_edit("generation_config.json", forced_eos_token_id=1), "not eos_token_id"),
    "another unknown": (_edit("tokenizer_config.json", unk_token="UNK"), "unk_token is 'UNK'"),
    "no weights": (_remove("model.safetensors"), r"neither model\.safetensors nor pytorch_model\.bin"),
    "weights in parts": (
        _all(_remove("model.safetensors"), _write("model.safetensors.index.json", b"{}")),
        "has no weight_map of tensors and files beside it",
    ),
    "cut weights": (
        lambda d: (d / "model.safetensors").write_bytes((d / "model.safetensors").read_bytes()[:-9]) and None,
        r"model\.safetensors: damaged",
    ),
    "a tensor is missing": (_tensors(lambda t: t.pop(FC1) is None), "fc1.weight is missing"),
    "a tensor too many": (
        _tensors(lambda t: t.update(more=torch.ones(1))),
        "more is not of this architecture",
    ),
    "not a number": (
        _tensors(lambda t: t[FC1].fill_(torch.nan) is None),
        "something else than finite numbers",
    ),
    "integers": (_tensors(lambda t: t.update({FC1: t[FC1].int()})), "something else than finite numbers"),
    "turned": (_tensors(lambda t: t.update({FC1: t[FC1].T.contiguous()})), "fc1.weight has shape"),
    "not shared at all": (
        _tensors(lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        "lm_head.weight differs from model.shared.weight",
    ),
    "learned positions": (
        _tensors(lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(128, 32)})),
        "does not hold the sinusoids",
    ),
    "no source.spm": (_remove("source.spm"), r"source\.spm: no such file"),
    "junk for target.spm": (_write("target.spm", b"junk" * 9), r"target\.spm: not a SentencePiece model"),
    "empty target.spm": (_write("target.spm", b""), r"target\.spm: not a SentencePiece model"),
    "no languages": (_edit("tokenizer_config.json", source_lang=...), "give --source and --target"),
}
TOKENIZER_REFUSALS: dict[str, tuple[Change, str]] = {
    "no vocabulary": (_remove("vocab.json"), "no such vocabulary file"),
    "vocabulary is a list": (_write("vocab.json", b'["</s>"]'), "not an object of pieces and ids"),
    "fractions": (_write("vocab.json", b'{"</s>": 0.5, "<unk>": 1}'), "not an object of pieces and ids"),
    "negative": (_write("vocab.json", b'{"</s>": -1, "<unk>": 1}'), "not an object of pieces and ids"),
    "the same id twice": (_write("vocab.json", b'{"</s>": 1, "<unk>": 1}'), "two pieces have the same id"),
    "no unknown": (_write("vocab.json", b'{"</s>": 0}'), "has no <unk>"),
    "no end": (_write("vocab.json", b'{"<unk>": 0}'), "has no </s>"),
    "no list of the target": (
        _edit("tokenizer_config.json", separate_vocabs=True),
        r"target_vocab\.json: no such",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_odd_is_refused_in_one_line(marian: Path, case: str) -> None:
    change, message = REFUSALS[case]
    change(marian)
    with pytest.raises(HuggingFaceError, match=message) as refusal:
        _import(marian)
    assert "\n" not in str(refusal.value)
    assert str(marian) in str(refusal.value)
    assert not (marian.parent / "checkpoint").exists()


@pytest.mark.parametrize("case", TOKENIZER_REFUSALS)
def test_odd_vocabularies_are_refused_in_one_line(marian: Path, case: str) -> None:
    change, message = TOKENIZER_REFUSALS[case]
    change(marian)
    with pytest.raises(TokenizerError, match=message):
        _import(marian)


def test_an_id_that_the_model_does_not_have(marian: Path) -> None:
    _edit("vocab.json", new=5000)(marian)
    with pytest.raises(HuggingFaceError, match="source vocabulary has 5001 entries, the model"):
        _import(marian)


class _Payload:
    """What a pickle of an attacker does when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(marian: Path, tmp_path: Path) -> None:
    (marian / "model.safetensors").unlink()
    torch.save({"a": torch.ones(1), "b": _Payload(tmp_path / "ran")}, marian / "pytorch_model.bin")
    with pytest.raises(HuggingFaceError, match="holds more than tensors, and reading it could run code"):
        _import(marian)
    assert not (tmp_path / "ran").exists()


def test_a_torch_file_gives_the_same_model(marian: Path) -> None:
    _import(marian)
    first = load_checkpoint(marian.parent / "checkpoint").model.state_dict()
    tensors = dict(load_file(marian / "model.safetensors"))
    shared = tensors["model.shared.weight"]
    for copy in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[copy] = shared
    (marian / "model.safetensors").unlink()
    torch.save(
        {name: tensor.half().float() for name, tensor in tensors.items()}, marian / "pytorch_model.bin"
    )
    _import(marian)
    second = load_checkpoint(marian.parent / "checkpoint").model.state_dict()
    assert all(torch.allclose(tensor, second[name], atol=1e-2) for name, tensor in first.items())
    (marian / "pytorch_model.bin").write_bytes(b"PK\x03\x04junk")
    with pytest.raises(HuggingFaceError, match=r"pytorch_model\.bin: "):
        _import(marian)


def test_generation_settings(marian: Path) -> None:
    settings = read_settings(marian)
    assert settings.generation.beam_size == 4
    assert settings.generation.max_decoding_length == 63
    assert settings.forced_end
    assert settings.suppressed_ids == [settings.pad_id] == [settings.decoder_start_id]
    _edit(
        "generation_config.json",
        num_beams=6,
        length_penalty=0.7,
        early_stopping="never",
        max_new_tokens=40,
        forced_eos_token_id=...,
        forced_bos_token_id=7,
        suppress_tokens=[9],
        no_repeat_ngram_size=3,
        min_length=6,
        repetition_penalty=1.2,
    )(marian)
    settings = read_settings(marian)
    defaults = settings.generation
    assert (defaults.beam_size, defaults.length_penalty, defaults.early_stopping) == (6, 0.7, "never")
    assert defaults.max_decoding_length == 40
    assert settings.target_prefix_ids == [7]
    assert settings.suppressed_ids == [9, settings.pad_id]
    assert not settings.forced_end
    assert (defaults.min_decoding_length, defaults.no_repeat_ngram_size) == (5, 3)
    assert settings.unapplied == ["repetition_penalty = 1.2"]
    _edit("generation_config.json", min_new_tokens=4)(marian)
    assert read_settings(marian).generation.min_decoding_length == 4


def test_older_models_keep_them_in_config_json(marian: Path) -> None:
    _remove("generation_config.json")(marian)
    _edit("config.json", num_beams=5, max_length=100, bad_words_ids=[[11]], length_penalty=1.5)(marian)
    settings = read_settings(marian)
    assert settings.generation.beam_size == 5
    assert settings.generation.max_decoding_length == 99
    assert settings.generation.length_penalty == 1.5
    assert settings.suppressed_ids == [11]


def test_a_setting_that_is_not_honoured_is_named(marian: Path) -> None:
    _edit("generation_config.json", guidance_scale=2)(marian)
    Report.clear()
    _import(marian)
    assert "not honoured: the generation setting guidance_scale = 2" in Report


def test_names_and_licence(marian: Path) -> None:
    card = "---\nlanguage:\n- en\nlicense: apache-2.0\ntags: [x]\n---\n\n### Marian\n"
    (marian / "README.md").write_text(card, encoding="utf-8")
    assert read_front_matter(marian)["license"] == "apache-2.0"
    config = _import(marian)
    assert config.name == "opus-mt-en-de"
    assert (config.source_language, config.target_language, config.directions) == ("en", "de", [])
    assert "License, as its README states it: apache-2.0." in config.attribution
    assert "opus-mt-en-de/model.safetensors, SHA-256 " in config.origin
    (marian / "README.md").unlink()
    assert "states no license" in _import(marian, name="other").attribution


def test_a_snapshot_of_the_hub_is_named_after_its_model(marian: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--Helsinki-NLP--opus-mt-en-fi" / "snapshots" / "0123abc"
    shutil.copytree(marian, snapshot)
    assert import_checkpoint(snapshot, tmp_path / "out", ImportNames()).name == "opus-mt-en-fi"


def test_languages_of_several_sources(marian: Path) -> None:
    config = _import(marian, sources=["fr", "es"], targets=["en"])
    assert [(d.source, d.target) for d in config.all_directions] == [("fr", "en"), ("es", "en")]


def test_languages_of_a_multilingual_model(tmp_path: Path, original: Path) -> None:
    pieces = original / "source.spm", original / "target.spm"
    directory = write_marian(tmp_path / "many", *pieces, codes=("fra", "pt_BR", "deu"))
    ids = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    every = _import(directory).all_directions
    assert [d.target for d in every] == ["deu", "fra", "pt-BR"]
    chosen = _import(directory, targets=["pt-BR", "fr=fra"]).all_directions
    assert [(d.target, d.source_prefix_ids) for d in chosen] == [
        ("pt-BR", [ids[">>pt_BR<<"]]),
        ("fr", [ids[">>fra<<"]]),
    ]
    with pytest.raises(HuggingFaceError, match="no >>it<<; it has deu, fra, pt_BR; --target NAME=CODE"):
        _import(directory, targets=["it"])


def test_a_name_on_the_hub_without_network_or_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FetchError, match="pip install huggingface_hub"):
        find_directory("Helsinki-NLP/opus-mt-en-de", Report.append)
    for name in ("/nowhere", "no such thing", "../x/y/z"):
        with pytest.raises(HuggingFaceError, match="no such directory"):
            find_directory(name, Report.append)


def test_text_is_needed_for_a_bundle(marian: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="--dev-source"):
        import_model(str(marian), tmp_path / "bundle", None, ImportNames(), ExportOptions(), Report.append)


def test_the_commands(marian: Path, tmp_path: Path, tiny_bundle: Path) -> None:
    run = CliRunner().invoke
    result = run(app, ["import", str(marian), "--as", "checkpoint", "--out", str(tmp_path / "c")])
    assert result.exit_code == 0, result.output
    assert load_checkpoint(tmp_path / "c").config.tokenizer == "marian"
    result = run(
        app, ["export", str(tmp_path / "c"), "--format", "huggingface", "--out", str(tmp_path / "hf")]
    )
    assert result.exit_code == 0, result.output
    assert "MarianMTModel with a MarianTokenizer" in result.stderr
    vocabulary = (tmp_path / "hf" / "vocab.json").read_text(encoding="utf-8")
    assert json.loads(vocabulary) == json.loads((marian / "vocab.json").read_text(encoding="utf-8"))
    result = run(app, ["export", str(tiny_bundle), "--format", "huggingface", "--out", str(tmp_path / "hf")])
    assert result.exit_code == 1
    assert "exists already" in result.stderr
    result = run(app, ["import", str(tmp_path / "none"), "--out", str(tmp_path / "b"), "--dev-source", "x"])
    assert result.exit_code == 1
    assert result.stderr.startswith("dragoman import: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"name": "my model"}, "--name 'my model': String should match pattern"),
        ({"task": "Foo"}, "--task 'Foo': String should match pattern"),
        ({"targets": ["="]}, "--source, --target: '=' is not a language code"),
        ({"sources": ["en", "a b"]}, "--source, --target: 'a b' is not a language code"),
    ],
)
def test_odd_names_are_refused_before_anything_is_read(
    tmp_path: Path, tiny_bundle: Path, names: dict[str, Any], message: str
) -> None:
    options, asked = ExportOptions("fp32"), ImportNames(**names)
    with pytest.raises(HuggingFaceError, match=message):
        import_model(str(tmp_path / "nothing"), tmp_path / "out", None, asked, options, Report.append)
    with pytest.raises(ExportError, match="is a bundle, which says its name, its task and its languages"):
        import_model(str(tiny_bundle), tmp_path / "out", None, asked, options, Report.append)


def test_a_prompt_is_for_t5(marian: Path) -> None:
    with pytest.raises(HuggingFaceError, match=r"opus-mt-en-de: --prompt is for T5 and its kin"):
        _import(marian, prompt="translate English to German: ")
