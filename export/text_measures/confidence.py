"""Fits confidences on a dev set by isotonic regression, and says how good they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sacrebleu
from numpy.typing import NDArray

from export.bundle import Bin, Calibrated, Confidence, Curve
from export.sections.confidence import WORD, Written, as_written, mean_probability, words_of
from export.text_measures.dev_translator import DevTranslator

CARD_TITLE = "## Confidence"
_FEWEST = 100
"""Observations of a knot: with fewer, a curve follows chance; with 200, it is no better."""
_MOST_KNOTS = 64
_BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Observations:
    """What a model was sure of, and what came true.

    Attributes:
        word_logs: [W], log-probability of each word.
        word_found: [W], 1 if it stands in the reference, each word of which counts once.
        sentence_means: [N], mean probability of each sentence's tokens.
        sentence_chrf: [N], from 0 to 1.
    """

    word_logs: Floats
    word_found: Floats
    sentence_means: Floats
    sentence_chrf: Floats


def observe(
    translator: DevTranslator, texts: Sequence[str], references: Sequence[str], what: str
) -> Observations:
    """Translate texts greedily and compare what was written with references.

    Args:
        translator: of the bundle.
        texts: none longer than its limit.
        references: of each.
        what: they are, for the progress bar.
    """
    pieces = translator.tokenizer.target_pieces()
    logs: list[float] = []
    found: list[float] = []
    means: list[float] = []
    scores: list[float] = []
    for (tokens, own_logs), reference in zip(translator.scored_ids(texts, what), references, strict=True):
        written = as_written(pieces, tokens, own_logs)
        own = _words_found(written, reference)
        logs += [log for log, _ in own]
        found += [float(is_there) for _, is_there in own]
        means.append(mean_probability(written))
        output = translator.tokenizer.decode(tokens)
        scores.append(sacrebleu.sentence_chrf(output, [reference]).score / 100)
    return Observations(*(np.array(each, np.float64) for each in (logs, found, means, scores)))


def _words_found(written: Written, reference: str) -> list[tuple[float, bool]]:
    text = "".join(piece for piece, _ in written)
    left = Counter(word.lower() for word in WORD.findall(reference))
    found = []
    for start, end, log in words_of(written):
        word = text[start:end].lower()
        found.append((log, left[word] > 0))
        left[word] -= 1
    return found


def fit_confidence(seen: Observations, set_name: str) -> Confidence | None:
    """Fit both confidences.

    Args:
        seen: on a dev set.
        set_name: of it.

    Returns:
        None if there is too little to fit on.
    """
    if min(len(seen.word_logs), len(seen.sentence_means)) < 2 * _FEWEST:
        return None
    words, _ = _calibrated(seen.word_logs, seen.word_found)
    sentences, said = _calibrated(seen.sentence_means, seen.sentence_chrf)
    return Confidence(
        set=set_name,
        words=words,
        sentences=sentences,
        correlation=round(correlation(said, seen.sentence_chrf), 4),
    )


def isotonic(inputs: Floats, outputs: Floats) -> Curve:
    """Fit the curve that never falls and is nearest (pool adjacent violators; Barlow et al., 1972).

    Neighbors are pooled, too, until a knot stands for `_FEWEST` observations.

    Args:
        inputs: [N].
        outputs: [N], from 0 to 1.
    """
    order = np.argsort(inputs, kind="stable")
    size = max(_FEWEST, -(-len(order) // _MOST_KNOTS))
    pools: list[tuple[float, float, int]] = []  # sums of inputs and outputs, and how many
    for part in np.array_split(order, max(1, len(order) // size)):
        pools.append((float(inputs[part].sum()), float(outputs[part].sum()), len(part)))
        while len(pools) > 1 and pools[-2][1] / pools[-2][2] >= pools[-1][1] / pools[-1][2]:
            last, before = pools.pop(), pools.pop()
            pools.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    knots: dict[float, float] = {}
    for x, y, count in pools:
        knots[round(x / count, 6)] = round(min(max(y / count, 0.0), 1.0), 6)
    return Curve(inputs=tuple(knots), outputs=tuple(knots.values()))


def correlation(one: Floats, other: Floats) -> float:
    """Pearson's coefficient; 0 if one of the two does not vary."""
    if not one.std() or not other.std():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def reliability(said: Floats, found: Floats) -> tuple[float, tuple[Bin, ...]]:
    """Compare confidences with what came true: expected calibration error, and the diagram's ten points."""
    place = np.minimum((said * _BINS).astype(int), _BINS - 1)
    error, bins = 0.0, []
    for number in range(_BINS):
        own = place == number
        count = int(own.sum())
        means = (float(said[own].mean()), float(found[own].mean())) if count else (0.0, 0.0)
        error += abs(means[0] - means[1]) * count / len(said)
        bins.append(Bin(count=count, said=round(means[0], 4), found=round(means[1], 4)))
    return error, tuple(bins)


def _calibrated(inputs: Floats, outputs: Floats) -> tuple[Calibrated, Floats]:
    """Fit on everything; judge each half by the curve of the other one."""
    said = np.empty_like(inputs)
    halves = np.arange(len(inputs)) % 2 == 0
    for half in (halves, ~halves):
        curve = isotonic(inputs[~half], outputs[~half])
        said[half] = [curve.at(value) for value in inputs[half].tolist()]
    error, bins = reliability(said, outputs)
    curve = isotonic(inputs, outputs)
    return Calibrated(curve=curve, count=len(inputs), error=round(error, 4), bins=bins), said


def card_section(confidence: Confidence) -> str:
    """Write the section of the model card, with a reliability diagram of words and one of sentences."""
    lines = [
        CARD_TITLE,
        "",
        f"Fitted on {confidence.set}, greedy; judged by halves that were not fitted on. A word's confidence "
        "is the share of such words that stand in the reference, a sentence's the chrF to expect, 0 to 1. "
        f"Expected calibration error: words {confidence.words.error:.3f}, sentences "
        f"{confidence.sentences.error:.3f}. Pearson of a sentence's confidence and its chrF: "
        f"{confidence.correlation:.2f}.",
        "",
        "| confidence | words | said | found | | sentences | said | found | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    both = zip(confidence.words.bins, confidence.sentences.bins, strict=True)
    for number, pair in enumerate(both):
        cells = [
            f"{one.count:,} | {one.said:.2f} | {one.found:.2f} | `{_bar(one)}`" if one.count else "0 | | |"
            for one in pair
        ]
        lines.append(f"| {number / _BINS:.1f} to {(number + 1) / _BINS:.1f} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", "The bars: `#` is what was found, `|` what was said.", ""])


def _bar(one: Bin) -> str:
    bar = ["#" if place < round(20 * one.found) else "." for place in range(21)]
    bar[round(20 * one.said)] = "|"
    return "".join(bar)
