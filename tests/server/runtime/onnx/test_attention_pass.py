"""Attention of known translations: each sentence as alone, opened when asked for, checked before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from export.bundle import Manifest
from export.text_measures.measure import measure_bundle
from server.errors import InferenceError
from server.runtime.onnx.attention_pass import AttentionPass
from tests.support import factories

PAIRS = [([5, 9, 7, 3], [6, 8]), ([7, 3], [9]), ([5] * 30 + [3], [4] * 29), ([8, 8, 3], [5, 6, 7, 8, 9])]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, tiny_bundle_int8: Path) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("attention")
    shutil.copytree(tiny_bundle_int8, folder / "bundle")
    options = factories.measure_options(folder)
    return folder / "bundle", measure_bundle(
        folder / "bundle", type(options)(options.dev_source, None, options.lexicon, attention=True)
    )


def test_sentences_are_looked_at_as_if_alone(bundle: tuple[Path, Manifest]) -> None:
    attention = AttentionPass(*bundle)
    together = attention.weights(PAIRS)
    for pair, weights in zip(PAIRS, together, strict=True):
        assert weights.shape == (len(pair[1]), len(pair[0]))
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-5)
        (alone,) = attention.weights([pair])
        assert np.allclose(alone, weights, atol=1e-6)
    assert attention.weights([]) == []


def test_a_translation_of_the_greatest_length_has_a_row_for_each_token(bundle: tuple[Path, Manifest]) -> None:
    longest = bundle[1].limits.max_target_tokens
    (weights,) = AttentionPass(*bundle).weights([([5, 3], [6] * longest)])
    assert weights.shape == (longest, 2)
    assert np.allclose(weights[:-1].sum(axis=1), 1, atol=1e-5)


def test_nothing_is_run_that_was_not_verified(bundle: tuple[Path, Manifest], tmp_path: Path) -> None:
    other = tmp_path / "bundle"
    shutil.copytree(bundle[0], other)
    late = AttentionPass(other, bundle[1])
    (other / "align.onnx").write_bytes(b"something else")
    with pytest.raises(InferenceError, match=r"align\.onnx has changed"):
        late.weights(PAIRS)
    shutil.rmtree(other)
    with pytest.raises(InferenceError, match="failed"):
        late.weights(PAIRS)
