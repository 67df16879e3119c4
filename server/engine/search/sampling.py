"""Random choice of tokens that does not depend on who else is in the batch.

**Distribution.** As CTranslate2 and transformers define it: the `sampling_topk` best tokens (0: all of them;
ties: lowest id); their scores over `sampling_temperature`, as a softmax; of these the fewest best ones that
reach the probability `sampling_topp` together.

**Randomness.** Sample number h of a sentence has a stream of its own: Philox, a counter-based generator,
keyed by the seed, the sentence's source tokens and h. Token t takes the t-th number of the stream. So the
same sentence with the same seed is translated the same way alone and in any batch, at any place in any
request, whatever else runs; different sentences draw independently.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.top_k import top_k
from server.engine.sentence_arrays import SentenceArrays
from server.runtime.memory import Floats, Places

Doubles = NDArray[np.float64]

NUCLEUS = 256
"""Tokens of the whole vocabulary among which `sampling_topp` is looked for before all are sorted."""


def uniforms(seed: int, source: Sequence[int | bytes], samples: int, steps: int) -> Doubles:
    """Give the random numbers of a sentence: float64 [samples, steps], at least 0 and less than 1.

    They follow from the seed of the request and the source's tokens, or feature vectors.
    """
    numbers = [int.from_bytes(one, "little") if isinstance(one, bytes) else one for one in source]
    streams = (
        np.random.Philox(np.random.SeedSequence((seed, *numbers), spawn_key=(sample,))).random_raw(steps)
        for sample in range(samples)
    )
    # The raw words of a bit generator never change between versions of numpy; Generator.random may.
    return np.stack([words >> np.uint64(11) for words in streams]) * 2.0**-53


class Sampler:
    """Draws the tokens of the sampling sentences of one batch. Owned by the worker thread."""

    def __init__(self, max_sentences: int) -> None:
        """Make room for `max_sentences`."""
        self._arrays = arrays = SentenceArrays(max_sentences)
        self._samples = arrays.array(np.intp)
        self._topk = arrays.array(np.intp)
        self._topp = arrays.array(np.float64)
        self._temperature = arrays.array(np.float64)
        self._uniforms: list[Doubles] = arrays.values(np.empty((0, 0)))

    def admit(
        self, place: int, options: DecodingOptions, source: Sequence[int | bytes], max_length: int
    ) -> None:
        """Take the options of a sentence that starts at `place` and takes at most `max_length` steps."""
        self._samples[place] = options.num_hypotheses if options.samples else 0
        if options.samples:
            self._topk[place] = options.sampling_topk
            self._topp[place] = options.sampling_topp
            self._temperature[place] = options.sampling_temperature
            self._uniforms[place] = uniforms(options.seed, source, options.num_hypotheses, max_length)

    def move(self, last: int, to: int) -> None:
        """Forget the sentence at `to`; the one at `last` moves there."""
        self._arrays.move(last, to)

    def draws(self, count: int) -> bool:
        """Whether any of the first `count` sentences draws its tokens."""
        return bool(self._samples[:count].any())

    def rows(self, count: int) -> tuple[Places, Places]:
        """List what is drawn for the first `count` sentences.

        Returns:
            Places [M] and the number of the sample [M], 0 to `num_hypotheses` - 1.
        """
        samples = self._samples[:count]
        places = np.repeat(np.arange(count), samples)
        firsts = np.cumsum(samples) - samples
        return places, np.arange(len(places)) - firsts[places]

    def draw(self, logits: Floats, rows: Places, places: Places, samples: Places, steps: Places) -> Places:
        """Draw a column for each of some rows.

        Args:
            logits: float32 [R, C], unnormalised scores.
            rows: [M], the rows to draw for, ascending.
            places: [M], their sentences.
            samples: [M], the number of the sample.
            steps: [M], tokens chosen so far.

        Returns:
            [M], columns.
        """
        drawn = zip(places.tolist(), samples.tolist(), steps.tolist(), strict=True)
        chances = np.array([self._uniforms[place][sample, step] for place, sample, step in drawn])
        topk, topp, temperature = self._topk[places], self._topp[places], self._temperature[places]
        chosen = np.zeros(len(rows), np.intp)
        with np.errstate(invalid="ignore", over="ignore"):  # rows that are not finite are found elsewhere
            for k in np.unique(topk).tolist():
                some = np.flatnonzero(topk == k)
                scores = logits if len(some) == len(logits) else logits[rows[some]]
                limits = topp[some], temperature[some], chances[some]
                whole = k == 0 or k >= scores.shape[1]
                chosen[some] = _from_all(scores, *limits) if whole else _from_best(scores, k, *limits)
        return chosen


def _from_best(scores: Floats, k: int, topp: Doubles, temperature: Doubles, chances: Doubles) -> Places:
    """Draw a column of every row [R, C] from its k best."""
    columns, values = top_k(scores, k)
    weights = _weights(values, temperature)
    threshold = np.where(topp < 1, topp * weights.cumsum(axis=1)[:, -1], np.inf)
    picked = _pick(weights, threshold, chances)
    chosen: Places = columns[np.arange(len(columns)), picked]
    return chosen


def _from_all(scores: Floats, topp: Doubles, temperature: Doubles, chances: Doubles) -> Places:
    """Draw a column of every row [R, C] from all; row by row, as the numbers of a vocabulary fill a cache."""
    chosen = np.zeros(len(scores), np.intp)
    for r in range(len(scores)):
        one = slice(r, r + 1)
        weights = _weights(scores[one], temperature[one])
        if topp[r] >= 1:
            chosen[r] = _pick(weights, np.array([np.inf]), chances[one])[0]
            continue
        threshold = topp[one] * weights.cumsum(axis=1)[:, -1]
        if scores.shape[1] > NUCLEUS:
            columns, _ = top_k(scores[one], NUCLEUS)
            best = weights[:, columns[0]]
            if best.cumsum(axis=1)[0, -1] >= threshold[0]:
                chosen[r] = columns[0, _pick(best, threshold, chances[one])[0]]
                continue
        chosen[r] = _pick(weights, threshold, chances[one])[0]
    return chosen


def _weights(scores: Floats, temperature: Doubles) -> Doubles:
    """Give numbers in proportion to the probabilities of a softmax over scores [R, C] / temperature [R]."""
    scaled = scores.astype(np.float64)
    scaled -= scores.max(axis=1, keepdims=True)
    scaled /= temperature[:, None]
    result: Doubles = np.exp(scaled, out=scaled)
    return result


def _pick(weights: Doubles, threshold: Doubles, chances: Doubles) -> Places:
    """Pick a column of every row by the inverse of its distribution function.

    Args:
        weights: float64 [R, C], at least 0; changed in place.
        threshold: float64 [R]; columns count, best first (ties: lowest), until their weights reach it.
        chances: float64 [R], uniform in [0, 1).

    Returns:
        [R], columns.
    """
    if np.isfinite(threshold).any():
        order = np.argsort(-weights, axis=1, kind="stable")
        ranked = np.take_along_axis(weights, order, axis=1)
        better = ranked.cumsum(axis=1) - ranked
        ranked[better >= threshold[:, None]] = 0
        np.put_along_axis(weights, order, ranked, axis=1)
    heaped = weights.cumsum(axis=1)
    picked = (heaped <= (chances * heaped[:, -1])[:, None]).sum(axis=1)
    # Rounding may reach past the last column that counts.
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
    result: Places = np.minimum(picked, last)
    return result
