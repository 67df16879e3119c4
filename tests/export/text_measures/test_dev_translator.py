"""What a bundle is measured by are the translations that the server would give."""

from pathlib import Path

from export.bundle import Manifest, load_manifest
from export.graph.runner import GraphRunner
from export.text_measures.dev_translator import DevTranslator
from tests.support import factories

TEXTS = factories.parallel_text(20, seed=4)[0]
PREFIX = (300, 20)


def forced(bundle: Path) -> Manifest:
    """The manifest of a bundle that forces two tokens: one of all targets, and one of its direction."""
    manifest = load_manifest(bundle)
    special = manifest.special_tokens.model_copy(update={"target_prefix_ids": PREFIX[:1]})
    direction = manifest.directions[0].model_copy(update={"target_prefix_ids": PREFIX[1:]})
    return manifest.model_copy(update={"special_tokens": special, "directions": (direction,)})


def test_forced_tokens_are_forced(tiny_bundle: Path) -> None:
    manifest = forced(tiny_bundle)
    translator = DevTranslator.of_bundle(tiny_bundle, manifest)
    runner = GraphRunner.of_bundle(tiny_bundle, manifest)
    results = runner.greedy(translator.source_ids(TEXTS), prefixes=[PREFIX] * len(TEXTS))
    expected = {TEXTS[result.index]: result.tokens for result in results}
    found = translator.target_ids(TEXTS, "texts")
    assert found == [expected[text] for text in TEXTS]
    assert {tuple(ids[:2]) for ids in found} == {PREFIX}
    assert found != DevTranslator.of_bundle(tiny_bundle, load_manifest(tiny_bundle)).target_ids(TEXTS, "t")
    for ids, (tokens, logs) in zip(found, translator.scored_ids(TEXTS, "texts"), strict=True):
        assert tokens == ids
        assert logs[:2] == [0, 0], "as the server scores what it forces"
        assert all(log < 0 for log in logs[2:])
