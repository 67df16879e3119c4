"""A bundle gets the graph of its attention, chosen by its lexicon, and nothing else of it changes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from export.bundle import load_manifest, verify_bundle
from export.lexicon import Lexicon, Table
from export.text_measures.attention import sure_links
from export.text_measures.learn_lexicon import LexiconTexts, MeasureError
from export.text_measures.measure import MeasureOptions, measure_bundle
from tests.support import factories


def test_attention_is_added_alone(tiny_bundle_int8: Path, tmp_path: Path) -> None:
    bundle, usual = tmp_path / "bundle", factories.measure_options(tmp_path)
    shutil.copytree(tiny_bundle_int8, bundle)
    alone = MeasureOptions(usual.dev_source, None, LexiconTexts(), only="attention")
    with pytest.raises(MeasureError, match="by the lexicon: measure that first"):
        measure_bundle(bundle, alone)
    before = measure_bundle(bundle, replace(usual, attention=True))
    found = before.attention
    assert found is not None
    assert verify_bundle(bundle) == before
    assert found.layer < before.architecture.decoder_layers
    assert found.links >= 20
    size = before.files[found.graph].size_bytes
    assert size < before.files["model.weights"].size_bytes // 2
    assert measure_bundle(bundle, alone) == before
    assert (bundle / "MODEL_CARD.md").read_text(encoding="utf-8").count("## Attention") == 1
    kept = before.model_copy(update={"attention": None, "text": None, "confidence": None, "files": {}})
    assert kept == load_manifest(tiny_bundle_int8).model_copy(update={"files": {}})


def test_a_graph_for_a_device_is_refused(tiny_bundle_int8: Path, tmp_path: Path) -> None:
    from export.text_measures.attention import add_attention

    manifest = measure_bundle(
        Path(shutil.copytree(tiny_bundle_int8, tmp_path / "bundle")), factories.measure_options(tmp_path)
    )
    fp16 = manifest.model_copy(update={"precision": "fp16"})
    with pytest.raises(MeasureError, match="on the processor"):
        add_attention(tmp_path / "bundle", fp16, ["a"], "dev")


def test_links_are_sure_that_choose_each_other_and_stand_once() -> None:
    pairs = {(4, 14): 0.9, (5, 15): 0.9, (6, 16): 0.04, (7, 17): 0.5, (7, 18): 0.4}
    cells = np.array(list(pairs)), np.array(list(pairs.values()))
    forward = Table.from_cells(cells[0][:, 0], cells[0][:, 1], cells[1], 20)
    backward = Table.from_cells(cells[0][:, 1], cells[0][:, 0], cells[1], 20)
    lexicon = Lexicon(forward, backward)
    found = sure_links(lexicon, [2, 4, 5, 6, 7, 5, 3], [18, 17, 16, 14, 15], 1, 1)
    assert found.pairs.tolist() == [[1, 3], [4, 1]]  # 5 stands there twice, 6 is too rare
    assert found.special == (0, 6)
