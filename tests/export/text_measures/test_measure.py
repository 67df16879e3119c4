"""A bundle gets what the text layer must know: files, manifest, model card, and how it is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from export.bundle import BundleError, Manifest, load_manifest, verify_bundle
from export.lexicon import Lexicon, coverage
from export.text_measures.learn_lexicon import LexiconTexts, MeasureError
from export.text_measures.masks import CANDIDATES
from export.text_measures.measure import (
    CARD_TITLE,
    LEXICON_FILE,
    MeasureOptions,
    measure_bundle,
)
from model.data.corpus import CorpusError
from model.tokenizer import Tokenizer
from tests.support import factories


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> MeasureOptions:
    return factories.measure_options(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, tiny_bundle_int8: Path, options: MeasureOptions
) -> tuple[Path, Manifest]:
    bundle = tmp_path_factory.mktemp("measured") / "bundle"
    shutil.copytree(tiny_bundle_int8, bundle)
    return bundle, measure_bundle(bundle, options)


def test_a_bundle_gets_a_section_and_a_lexicon(
    measured: tuple[Path, Manifest], tiny_bundle_int8: Path
) -> None:
    bundle, manifest = measured
    assert verify_bundle(bundle) == manifest
    before, after = digests(tiny_bundle_int8), digests(bundle)
    assert after.keys() - before.keys() == {LEXICON_FILE}
    assert {name for name in before if before[name] != after[name]} == {"manifest.json", "MODEL_CARD.md"}
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]
    found = manifest.text
    assert found is not None
    assert manifest.confidence is not None
    assert manifest.model_copy(update={"text": None, "confidence": None, "files": {}}) == load_manifest(
        tiny_bundle_int8
    ).model_copy(update={"files": {}})
    assert (found.lexicon, found.set, found.sentences) == (LEXICON_FILE, "dev.en", 220)
    assert found.lexicon_origin == "train.en, 300 sentence pairs"
    assert {mask.template for mask in found.masks} == set(CANDIDATES)
    worth = [100 * mask.copied + mask.agreement for mask in found.masks]
    assert worth == sorted(worth, reverse=True)
    assert found.checks.false_alarms <= 0.002
    assert found.translated_names == ()  # its sentences have none
    assert all(len(one) == 1 for one in found.lost_characters)


def test_the_lexicon_knows_the_words(measured: tuple[Path, Manifest]) -> None:
    bundle, manifest = measured
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    sizes = manifest.architecture.source_vocab_size, manifest.architecture.vocab_size
    lexicon = Lexicon.load(bundle / LEXICON_FILE, *sizes)
    texts = factories.parallel_text(40, seed=5)
    sources, targets = tokenizer.encode_batch(texts[0]), tokenizer.encode_target_batch(texts[1])
    right = [coverage(lexicon, *pair) for pair in zip(sources, targets, strict=True)]
    wrong = [coverage(lexicon, *pair) for pair in zip(sources, targets[1:] + targets[:1], strict=True)]
    assert all(own > other for own, other in zip(right, wrong, strict=True))


def test_a_bundle_is_measured_again(
    measured: tuple[Path, Manifest], tmp_path: Path, options: MeasureOptions
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(measured[0], bundle)
    assert measure_bundle(bundle, options) == measured[1]
    assert digests(bundle) == digests(measured[0])
    card = (bundle / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.count(CARD_TITLE) == 1
    fewer = measure_bundle(bundle, replace(options, entries=1)).files[LEXICON_FILE]
    assert fewer.size_bytes < measured[1].files[LEXICON_FILE].size_bytes


def test_without_parallel_text_the_model_translates_for_itself(
    tmp_path: Path, tiny_bundle_int8: Path, options: MeasureOptions
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny_bundle_int8, bundle)
    alone = replace(options, dev_target=None, lexicon=LexiconTexts(alone=options.lexicon.source))
    found = measure_bundle(bundle, alone).text
    assert found is not None
    assert found.comfortable_source_tokens is None
    assert found.lexicon_origin == "train.en, 300 lines as the model translates them"
    assert found.checks.min_coverage < 0


def test_a_manifest_without_the_section_is_read(measured: tuple[Path, Manifest], tmp_path: Path) -> None:
    """So is one with it; what it names must be there and known."""
    manifest = json.loads((measured[0] / "manifest.json").read_text(encoding="utf-8"))
    path = tmp_path / "manifest.json"

    def read(**changes: object) -> Manifest:
        path.write_text(json.dumps({**manifest, **changes}), encoding="utf-8")
        return load_manifest(tmp_path)

    assert read() == measured[1]
    del manifest["text"]
    assert read().text is None
    files = {name: entry for name, entry in manifest["files"].items() if name != LEXICON_FILE}
    assert measured[1].text is not None
    text = measured[1].text.model_dump(mode="json")
    with pytest.raises(BundleError, match=r"files does not list lexicon\.npz"):
        read(text=text, files=files)
    for changes in ({"comfortable_source_tokens": 0}, {"surprise": 1}, {"masks": [{"template": "{n}"}]}):
        with pytest.raises(BundleError, match=rf"text\.{next(iter(changes))}"):
            read(text={**text, **changes})


def test_what_cannot_be_done_is_refused(
    tmp_path: Path, tiny_bundle_int8: Path, options: MeasureOptions
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny_bundle_int8, bundle)
    before, empty = digests(bundle), tmp_path / "empty"
    empty.write_text("\n", encoding="utf-8")
    source, target = options.lexicon.source, options.lexicon.target
    one_of_them = "give both files or that one"
    for changes, message in (
        ({"lexicon": LexiconTexts(source=source)}, one_of_them),
        ({"lexicon": LexiconTexts(target=target, alone=source)}, one_of_them),
        ({"lexicon": LexiconTexts()}, one_of_them),
        ({"lexicon": LexiconTexts(source, target, source)}, one_of_them),
        ({"lexicon": LexiconTexts(alone=empty)}, "no sentence pair has words on both sides"),
        ({"entries": 33}, "1 to 32 entries, not 33"),
        ({"dev_source": empty, "dev_target": None}, "has no sentence that the model can take"),
    ):
        with pytest.raises(MeasureError, match=message):
            measure_bundle(bundle, replace(options, **changes))
    assert digests(bundle) == before
    (bundle / "encoder.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"encoder\.onnx: has 0 bytes"):
        measure_bundle(bundle, options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "empty"]


def test_several_directions_are_refused(tmp_path: Path, tiny_bundle: Path, options: MeasureOptions) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, bundle)
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    manifest["directions"].append({**manifest["directions"][0], "target": "fr"})
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(MeasureError, match="one direction, this model has 2"):
        measure_bundle(bundle, options)


def test_a_bundle_behind_a_link_is_measured_again_and_again(
    tmp_path: Path, tiny_bundle_int8: Path, options: MeasureOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is the directory that a user is in."""
    bundle, link = tmp_path / "v3", tmp_path / "here" / "current"
    shutil.copytree(tiny_bundle_int8, bundle)
    link.parent.mkdir()
    link.symlink_to("../v3")
    quick = replace(options, only="confidence")
    first = measure_bundle(link, quick)
    assert first.confidence is not None
    assert measure_bundle(link, quick) == verify_bundle(bundle) == first
    monkeypatch.chdir(bundle)
    assert measure_bundle(Path(), quick) == verify_bundle(bundle) == first
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.parent != bundle) == [
        "current",
        "here",
        "v3",
    ]


def test_dev_text_that_is_missing_is_noticed_before_a_lexicon_is_learnt(
    tmp_path: Path, tiny_bundle_int8: Path, options: MeasureOptions
) -> None:
    bundle = Path(shutil.copytree(tiny_bundle_int8, tmp_path / "bundle"))
    said: list[str] = []
    with pytest.raises(CorpusError, match=r"no\.en: no such file"):
        measure_bundle(bundle, replace(options, dev_source=tmp_path / "no.en"), said.append)
    assert said == []
