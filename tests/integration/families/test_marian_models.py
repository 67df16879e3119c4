"""MarianMT models imported, exported and served: the tokens of transformers' own `generate`, one by one."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from export.convert.import_command import export_huggingface, import_model
from export.convert.vocabularies.vocabulary import ImportNames
from export.pipeline import ExportOptions
from model.checkpoint import load_checkpoint
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.errors import UnsupportedLanguageError
from server.service.models.loading import load_model
from server.service.request_limits import request_limits
from server.service.text.options import TextOptions
from server.service.translation.decoding_options import choose_options
from server.service.translation.file_translation import (
    FileTranslator,
    choose_direction,
    request_of_lines,
)
from server.service.translation.request import RequestedOptions, TranslationRequest
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.integration.hugging_face import Reference, Served, fp32_options
from tests.integration.marian import write_marian
from tests.support import factories

KINDS: dict[str, dict[str, Any]] = {
    "shared": {},
    "separate": {"separate": True, "generation": {"num_beams": 2, "early_stopping": True}},
    "multilingual": {"codes": ("de", "pt_BR", "zgh")},
    "renormalised": {"generation": {"renormalize_logits": True, "num_beams": 1}},
}
OWN_WORDS = TextOptions(guard="off")
ODD = [
    "The café isn’t “open” – it’s closed…",
    "A price of 3 % (≈ 5 €), ½ off: «cheap»!",
    "日本語 and Ελληνικά, 😀😀 too.",
    " two  spaces\tand a tab ",
    "ﬁne ligatures, ½ and ＦＵＬＬ width",
    "<b>bold</b> & more",
]


@pytest.fixture(scope="module", params=KINDS)
def models(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pieces: tuple[Path, Path],
    text: Path,
) -> tuple[str, Path, Path]:
    """Name, directory and bundle of each kind of model."""
    aside = tmp_path_factory.mktemp(request.param)
    directory = write_marian(aside / f"opus-{request.param}", *pieces, **KINDS[request.param])
    import_model(str(directory), aside / "bundle", None, ImportNames(), fp32_options(text), lambda line: None)
    return request.param, directory, aside / "bundle"


@pytest.fixture(scope="module")
def pair(models: tuple[str, Path, Path]) -> Iterator[tuple[str, Reference, Served]]:
    name, directory, bundle = models
    served = Served(bundle)
    yield name, Reference(directory), served
    served.close()


def _sentences(count: int = 60) -> list[str]:
    return [*factories.parallel_text(count, seed=21)[0], *ODD]


def _coded(name: str, texts: list[str], served: Served, direction: int = 0) -> list[str]:
    """Ask as users of transformers do: with a code before the text."""
    if name != "multilingual":
        return texts
    code = served.manifest.directions[direction].target.replace("-", "_")
    return [f">>{code}<< {text}" for text in texts]


def test_source_ids_are_those_of_marian_tokenizer(pair: tuple[str, Reference, Served]) -> None:
    name, reference, served = pair
    for direction in range(len(served.manifest.directions)):
        expected = reference.ids(_coded(name, _sentences(), served, direction))
        assert served.ids(_sentences(), direction) == expected
    unknown = served.manifest.special_tokens.unk_id
    assert any(unknown in row for row in served.ids(ODD))


@pytest.mark.parametrize("steps", [12, 40])
def test_greedy_tokens_are_those_of_generate(pair: tuple[str, Reference, Served], steps: int) -> None:
    name, reference, served = pair
    texts = _sentences()
    expected = reference.generate(_coded(name, texts, served), num_beams=1, max_length=steps + 1)
    assert served.generate(texts, DecodingOptions(max_decoding_length=steps)) == expected
    lengths = {len(row) for row in expected}
    assert len(lengths) > 1
    assert len({token for row in expected for token in row}) > 10


@pytest.mark.parametrize(
    ("penalty", "early_stopping"), [(1.0, False), (0.6, False), (1.0, True), (2.0, "never"), (0.0, False)]
)
def test_beam_tokens_are_those_of_generate(
    pair: tuple[str, Reference, Served], penalty: float, early_stopping: bool | str
) -> None:
    name, reference, served = pair
    texts = _sentences()
    settings = {"length_penalty": penalty, "early_stopping": early_stopping}
    expected = reference.generate(_coded(name, texts, served), num_beams=4, max_length=25, **settings)
    options = DecodingOptions(beam_size=4, max_decoding_length=24, **settings)
    assert served.generate(texts, options) == expected


def test_forced_lengths_are_those_of_generate(pair: tuple[str, Reference, Served]) -> None:
    name, reference, served = pair
    texts = _sentences(20)
    # With renormalize_logits, transformers renormalises whatever is forbidden, the end before min_length too;
    # that changes scores between beams, not the best token of one. docs/models.md says so.
    for beams in (1,) if name == "renormalised" else (1, 4):
        expected = reference.generate(
            _coded(name, texts, served),
            num_beams=beams,
            max_length=17,
            min_new_tokens=15,
            early_stopping=False,
        )
        options = DecodingOptions(
            beam_size=beams, max_decoding_length=16, min_decoding_length=15, early_stopping=False
        )
        assert served.generate(texts, options) == expected
        assert {len(row) for row in expected} == {15}


def test_text_comes_out_as_marian_tokenizer_decodes_it(pair: tuple[str, Reference, Served]) -> None:
    name, reference, served = pair
    rows = reference.generate(_coded(name, _sentences(20), served), num_beams=1, max_length=20)
    theirs = [reference.tokenizer.decode(row, skip_special_tokens=True) for row in rows]
    assert [served.tokenizer.decode(row) for row in rows] == theirs


def test_the_models_own_settings_are_the_servers_defaults(models: tuple[str, Path, Path]) -> None:
    """What a request without options gets is what `generate` without options gives."""
    name, directory, bundle = models
    reference, served = Reference(directory), Served(bundle)
    limits = request_limits(Settings(bundle=bundle), served.manifest)
    texts = _sentences(30)
    rows = served.ids(texts)
    options = choose_options(RequestedOptions(), limits, max(map(len, rows)))
    assert options.beam_size == reference.model.generation_config.num_beams
    assert options.max_decoding_length == 63
    assert served.generate(texts, options) == reference.generate(_coded(name, texts, served))
    served.close()


def test_padding_is_never_written_although_it_scores_high(pair: tuple[str, Reference, Served]) -> None:
    name, reference, served = pair
    pad = served.manifest.special_tokens.pad_id
    texts = _coded(name, _sentences(20), served)
    reference.model.generation_config.bad_words_ids, kept = (
        None,
        reference.model.generation_config.bad_words_ids,
    )
    free = reference.generate(texts, num_beams=1, max_length=30)
    reference.model.generation_config.bad_words_ids = kept
    assert any(pad in row for row in free)
    found = served.generate(_sentences(20), DecodingOptions(max_decoding_length=29))
    assert not any(pad in row for row in found)


def test_out_and_in_again_changes_nothing(models: tuple[str, Path, Path], tmp_path: Path) -> None:
    """Bundle to Hugging Face directory: the same weights, ids and settings as the one it came from."""
    _, directory, bundle = models
    export_huggingface(bundle, tmp_path / "again", force=False, report=lambda line: None)
    first, second = Reference(directory), Reference(tmp_path / "again")
    assert type(first.model) is type(second.model)
    ours, theirs = first.model.state_dict(), second.model.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        if name == "final_logits_bias":
            keep = theirs[name] > -1e8
            assert torch.equal(tensor[keep], theirs[name][keep])
        else:
            assert torch.equal(tensor, theirs[name]), name
    assert first.ids(_sentences(10)) == second.ids(_sentences(10))
    wanted = {"max_length", "num_beams", "eos_token_id", "forced_eos_token_id", "decoder_start_token_id"}
    for name in wanted:
        assert getattr(first.model.generation_config, name) == getattr(second.model.generation_config, name)
    assert first.generate(_sentences(20)) == second.generate(_sentences(20))


def test_every_direction_of_a_multilingual_model_is_served(models: tuple[str, Path, Path]) -> None:
    name, directory, bundle = models
    if name != "multilingual":
        assert len(Served(bundle).manifest.directions) == 1
        return
    settings = Settings(bundle=bundle, max_rows=8)
    model = load_model(settings, NullObserver())
    try:
        limits = request_limits(settings, model.manifest)
        reference, texts = Reference(directory), _sentences(4)[:4]
        translator = Translator(model, limits)
        found = {}
        for target in ("de", "pt-BR", "zgh"):
            request = TranslationRequest(
                target, tuple(texts), "en", target, time.monotonic() + 60, text_options=OWN_WORDS
            )
            answer = asyncio.run(translator.translate(request, "en", target))
            found[target] = [text.hypotheses[0] for text in answer.texts]
            coded = [f">>{target.replace('-', '_')}<< {text}" for text in texts]
            rows = reference.generate(coded)
            assert found[target] == [
                reference.tokenizer.decode(row, skip_special_tokens=True) for row in rows
            ]
        assert len({tuple(texts) for texts in found.values()}) == 3
        pair = choose_direction(model.manifest, None, "pt_BR")
        lines = FileTranslator(
            lambda part: translator.translate(part, *pair),
            request_of_lines(RequestedOptions(), OWN_WORDS, split=False),
        ).run([[f"{text}\n".encode() for text in texts]])
        assert [line.text.rstrip("\n") for line in lines] == found["pt-BR"]
        with pytest.raises(UnsupportedLanguageError):
            choose_direction(model.manifest, None, "fr")
    finally:
        model.engine.close(0.0)


def test_an_imported_model_becomes_an_int8_bundle_gated_against_fp32(
    pieces: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    directory = write_marian(tmp_path / "opus", *pieces)
    (directory / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n", encoding="utf-8")
    lines: list[str] = []
    # Random weights are no language: int8 agrees less than a trained model's would.
    options = ExportOptions(dev_source=[text], beam_widths=(1,), allow_quality_loss=True)
    import_model(str(directory), tmp_path / "bundle", None, ImportNames(name="mine"), options, lines.append)
    served = Served(tmp_path / "bundle")
    manifest = served.manifest
    served.close()
    assert (manifest.name, manifest.precision) == ("mine", "int8")
    assert manifest.quality is None
    assert manifest.agreement is not None
    assert manifest.agreement.sentences == 220
    assert any("against fp32" in line for line in lines)
    card = (tmp_path / "bundle" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "cc-by-4.0" in card
    assert "Imported from opus/model.safetensors, SHA-256 " in card


def test_a_model_of_ours_is_read_by_transformers(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """Pre-norm: through Pegasus's class, with features in another order; the logits are the same."""
    export_huggingface(tiny_checkpoint, tmp_path / "hf", force=False, report=lambda line: None)
    reference, ours = Reference(tmp_path / "hf"), load_checkpoint(tiny_checkpoint)
    assert type(reference.model).__name__ == "PegasusForConditionalGeneration"
    texts = factories.parallel_text(20, seed=4)[0]
    rows = [[*ours.tokenizer.encode(text), ours.config.special_tokens.eos_id] for text in texts]
    assert reference.ids(texts) == rows
    target = torch.tensor([[ours.config.special_tokens.decoder_start_id, 9, 30, 31]])
    for row in rows:
        source = torch.tensor([row])
        with torch.inference_mode():
            expected = ours.model(source, torch.tensor([len(row)]), target)
            found = reference.model(input_ids=source, decoder_input_ids=target).logits
        assert torch.allclose(expected, found, atol=1e-4)


def test_a_directory_of_ours_is_imported_again(tiny_checkpoint: Path, text: Path, tmp_path: Path) -> None:
    export_huggingface(tiny_checkpoint, tmp_path / "hf", force=False, report=lambda line: None)
    checkpoint = tmp_path / "checkpoint"
    import_model(
        str(tmp_path / "hf"), checkpoint, "checkpoint", ImportNames(), fp32_options(text), lambda line: None
    )
    shutil.rmtree(tmp_path / "hf")
    first, again = load_checkpoint(tiny_checkpoint), load_checkpoint(checkpoint)
    sentence = factories.parallel_text(1, seed=8)[0][0]
    ids = first.tokenizer.encode(sentence)
    assert again.tokenizer.encode(sentence) == ids
    source, lengths, target = torch.tensor([ids]), torch.tensor([len(ids)]), torch.tensor([[2, 40, 41]])
    with torch.inference_mode():
        expected, found = first.model(source, lengths, target), again.model(source, lengths, target)
    assert torch.allclose(expected, found, atol=1e-4)
