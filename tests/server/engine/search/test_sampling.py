"""Sampling: the distribution of transformers, streams that depend on nothing but seed and sentence."""

from collections import Counter

import numpy as np
import pytest
import torch
from transformers.generation import logits_process

from server.engine.options import DecodingOptions
from server.engine.search.beam import BeamSearch
from server.engine.search.greedy import GreedySearch
from server.engine.search.sampling import NUCLEUS, Sampler, uniforms
from server.engine.search.search import SearchResult

EOS = 1


def probabilities(scores: np.ndarray, options: DecodingOptions) -> np.ndarray:
    """What transformers would draw from."""
    processors = logits_process.LogitsProcessorList(
        [logits_process.TemperatureLogitsWarper(options.sampling_temperature)]
    )
    if options.sampling_topk:
        processors.append(logits_process.TopKLogitsWarper(options.sampling_topk))
    if options.sampling_topp < 1:
        processors.append(logits_process.TopPLogitsWarper(options.sampling_topp))
    result: np.ndarray = processors(None, torch.tensor(scores[None])).softmax(-1)[0].double().numpy()
    return result


def drawn(scores: np.ndarray, options: DecodingOptions, chances: np.ndarray) -> np.ndarray:
    """Columns that the same scores give for different random numbers."""
    sampler = Sampler(1)
    sampler.admit(0, options, (5,), len(chances))
    sampler._uniforms[0] = chances[None]
    rows = np.zeros(len(chances), np.intp)
    return sampler.draw(scores[None], rows, rows, rows, np.arange(len(chances)))


OPTIONS = [
    DecodingOptions(sampling_topk=k, sampling_topp=p, sampling_temperature=temperature)
    for k in (0, 2, 10, 300)
    for p in (1.0, 0.9, 0.4)
    for temperature in (0.5, 1.0, 1.7)
]


@pytest.mark.parametrize("width", [40, 1000])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_distribution_is_that_of_transformers(options: DecodingOptions, width: int) -> None:
    """Evenly spaced numbers must hit every token as often as it is probable."""
    scores = np.random.default_rng(width).standard_normal(width).astype(np.float32) * 2
    count = 4000
    chances = (np.arange(count) + 0.5) / count
    found = np.bincount(drawn(scores, options, chances), minlength=width) / count
    assert found == pytest.approx(probabilities(scores, options), abs=1.01 / count)


def test_a_nucleus_wider_than_the_shortcut_is_complete() -> None:
    scores = np.zeros(4 * NUCLEUS, np.float32)
    scores[7] = 1e-3
    options = DecodingOptions(sampling_topk=0, sampling_topp=0.5)
    found = drawn(scores, options, (np.arange(9000) + 0.5) / 9000)
    assert set(found.tolist()) == set(range(2 * NUCLEUS))  # ties: the lowest ids


def test_the_ends_of_the_unit_interval_stay_inside() -> None:
    scores = np.array([0.0, 5.0, -1e9, -1e9, 3.0, -1e9], np.float32)
    for k in (0, 3):
        options = DecodingOptions(sampling_topk=k)
        assert drawn(scores, options, np.array([0.0, 1 - 2**-53])).tolist() == [0, 4]


def test_random_numbers_depend_on_seed_sentence_and_sample_only() -> None:
    first = uniforms(7, (3, 4, 5), 3, 50)
    assert (uniforms(7, (3, 4, 5), 3, 50) == first).all()
    assert (uniforms(7, (3, 4, 5), 1, 20) == first[:1, :20]).all()
    others = [uniforms(8, (3, 4, 5), 3, 50), uniforms(7, (3, 4), 3, 50), uniforms(7, (3, 4, 5, 0), 3, 50)]
    assert all((other != first).all() for other in others)
    assert len({*first.reshape(-1).tolist()}) == first.size
    assert ((first >= 0) & (first < 1)).all()


def test_random_numbers_never_change() -> None:
    """A seed is a promise: these come from Philox4x64-10 and may not change with any release."""
    promised = [0.49026142945463114, 0.4352980996791438, 0.7402241347983334]
    assert uniforms(1, (10, 20, 30), 1, 3)[0].tolist() == promised


def run(options: DecodingOptions) -> SearchResult:
    search, scores = GreedySearch(1, EOS), np.random.default_rng(1)
    search.admit(0, options, 40, (5, 6))
    while not search.advance(scores.standard_normal((1, 50)).astype(np.float32)).ended:
        pass
    return search.result(0)


def test_a_seed_gives_the_same_translation_again_and_another_seed_another() -> None:
    found = [run(DecodingOptions(sampling_topk=5, seed=seed)).hypotheses[0].tokens for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_temperature_zero_takes_the_best() -> None:
    options = DecodingOptions(sampling_topk=0, sampling_temperature=0.0)
    assert run(options) == run(DecodingOptions())


def test_seeds_give_different_translations_in_due_proportion() -> None:
    """One step, four tokens of known probability, 3,000 seeds: chi-square with 3 degrees of freedom."""
    expected = np.array([0.4, 0.3, 0.2, 0.1])
    logits = np.full((1, 50), -100.0, np.float32)
    logits[0, 10:14] = np.log(expected)
    counts: Counter[int] = Counter()
    for seed in range(3000):
        search = GreedySearch(1, EOS)
        search.admit(0, DecodingOptions(sampling_topk=0, seed=seed), 1, (8, 9))
        search.advance(logits.copy())
        counts[search.result(0).hypotheses[0].tokens[0]] += 1
    observed = np.array([counts[token] for token in range(10, 14)])
    assert ((observed - 3000 * expected) ** 2 / (3000 * expected)).sum() < 16.3  # p = 0.001


def test_samples_are_independent_ranked_and_as_many_as_asked_for() -> None:
    options = DecodingOptions(beam_size=4, num_hypotheses=3, sampling_topk=0, seed=5)
    search = BeamSearch(4, 1, EOS)
    search.admit(0, options, 40, (5, 6))
    draw = np.random.default_rng(3)
    for _ in range(40):
        advance = search.advance(draw.standard_normal((1, 50)).astype(np.float32).repeat(4, axis=0))
        assert not len(advance.rows)  # nobody continues another row
        if advance.ended:
            break
    hypotheses = search.result(0).hypotheses
    assert len({h.tokens for h in hypotheses}) == len(hypotheses) == 3
    assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
