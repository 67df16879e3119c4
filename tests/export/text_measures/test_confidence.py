"""Confidences are what is observed, whatever the model's own probabilities are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from export.bundle import Curve, as_written, load_manifest, mean_probability, words_of
from export.text_measures import confidence as fitting
from export.text_measures.confidence import Observations, card_section, fit_confidence, isotonic, reliability
from export.text_measures.learn_lexicon import LexiconTexts, MeasureError
from export.text_measures.measure import MeasureOptions, measure_bundle
from tests.support import factories


def nearest_rising(values: list[float]) -> list[float]:
    """The isotonic regression by its max-min formula (Robertson et al., 1988), in cubic time."""
    count = len(values)
    return [
        max(min(sum(values[a : b + 1]) / (b + 1 - a) for b in range(i, count)) for a in range(i + 1))
        for i in range(count)
    ]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12))
def test_pooling_gives_the_isotonic_regression(values: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_FEWEST", 1)
        curve = isotonic(np.arange(len(values), dtype=np.float64), np.array(values))
    fitted = nearest_rising(values)
    for value in fitted:
        own = [place for place, other in enumerate(fitted) if abs(other - value) < 1e-9]
        assert curve.at(sum(own) / len(own)) == pytest.approx(value, abs=2e-6)


@given(st.lists(st.tuples(st.floats(-20, 0), st.booleans()), min_size=1, max_size=500))
def test_a_curve_rises_and_stays_within_bounds(observed: list[tuple[float, bool]]) -> None:
    curve = isotonic(np.array([x for x, _ in observed]), np.array([float(y) for _, y in observed]))
    said = [curve.at(x) for x in np.linspace(-25, 5, 50).tolist()]
    assert said == sorted(said)
    assert 0 <= said[0] <= said[-1] <= 1


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [((), ()), ((0.0,), (0.1, 0.2)), ((1.0, 0.0), (0.1, 0.2)), ((0.0, 1.0), (0.2, 0.1)), ((0.0,), (1.5,))],
)
def test_what_is_no_curve_is_refused(inputs: tuple[float, ...], outputs: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        Curve(inputs=inputs, outputs=outputs)


def observations(count: int, seed: int = 0) -> Observations:
    """A model whose words are right with the square of the probability that it says."""
    draw = np.random.default_rng(seed)
    probability = draw.uniform(0.05, 1, count)
    right = (draw.uniform(size=count) < probability**2).astype(np.float64)
    scores = np.clip(0.3 + 0.5 * probability + draw.normal(0, 0.1, count), 0, 1)
    return Observations(np.log(probability), right, probability, scores)


def test_what_is_said_comes_true_on_new_data() -> None:
    found = fit_confidence(observations(20_000), "dev.en")
    assert found is not None
    fresh = observations(20_000, seed=1)
    said = np.array([found.words.curve.at(log) for log in fresh.word_logs.tolist()])
    assert reliability(said, fresh.word_found)[0] < 0.02
    assert reliability(np.exp(fresh.word_logs), fresh.word_found)[0] > 0.1  # the model's own word for it
    assert found.words.error < 0.02
    assert found.sentences.error < 0.02
    assert found.correlation > 0.7
    card = card_section(found)
    assert "words 0.0" in card
    assert card.count("\n| 0.") == 10


def test_of_little_nothing_is_said() -> None:
    assert fit_confidence(observations(150), "dev.en") is None


def test_words_have_all_their_pieces() -> None:
    written = [(" Das", -0.1), (" Au", -0.2), ("to", -0.3), (".", -0.4), ("", -0.5)]
    assert [(*place, round(log, 6)) for *place, log in words_of(written)] == [(1, 4, -0.1), (5, 9, -0.5)]
    assert mean_probability(written) == pytest.approx(np.exp([-0.1, -0.2, -0.3, -0.4, -0.5]).mean())
    assert mean_probability([]) == 0.0


def test_spelled_characters_are_whole() -> None:
    pieces = ["\u2581a", "<0xC3>", "<0xA9>", "<0x58>", "b"]
    written = as_written(pieces, [0, 1, 2, 3, 4], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
    assert written == [(" a", -1.0), ("é", -5.0), ("X", -4.0), ("b", -5.0), ("", -6.0)]


def test_confidence_alone_leaves_the_rest_as_it_was(tiny_bundle_int8: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(tiny_bundle_int8, bundle)
    usual = factories.measure_options(tmp_path)
    before = load_manifest(bundle)
    alone = MeasureOptions(usual.dev_source, usual.dev_target, LexiconTexts(), only="confidence")
    after = measure_bundle(bundle, alone)
    assert after.confidence is not None
    assert after.confidence.sentences.count == 220
    kept = after.model_copy(update={"confidence": None, "files": before.files})
    assert kept == before
    assert measure_bundle(bundle, alone) == after
    assert (bundle / "MODEL_CARD.md").read_text(encoding="utf-8").count("## Confidence") == 1
    with pytest.raises(MeasureError, match="reference"):
        measure_bundle(bundle, MeasureOptions(usual.dev_source, None, LexiconTexts(), only="confidence"))
