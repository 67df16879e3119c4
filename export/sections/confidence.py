"""The manifest's section `confidence`: from the model's probabilities to shares that were observed.

What is calibrated is defined here, once for the exporter and the server: the words that a model wrote and
their log-probabilities. The standard library and pydantic only.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from pydantic import Field, model_validator

from export.languages import Part

Written = Sequence[tuple[str, float]]
"""Pieces that a model wrote, a space for a word's beginning, each with its natural-log probability."""

WORD = re.compile(r"\w+(?:['’\-]\w+)*")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_MOST_BYTES = 4
_MOST_KNOTS = 64


class Curve(Part):
    """A function that never falls: straight lines between knots, constant beyond them."""

    inputs: tuple[float, ...] = Field(min_length=1, max_length=_MOST_KNOTS)
    outputs: tuple[float, ...] = Field(min_length=1, max_length=_MOST_KNOTS)

    @model_validator(mode="after")
    def _rises(self) -> Curve:
        if len(self.inputs) != len(self.outputs):
            raise ValueError("inputs and outputs have different lengths")
        if not all(map(math.isfinite, (*self.inputs, *self.outputs))):
            raise ValueError("a knot is no number")
        if list(self.inputs) != sorted(set(self.inputs)) or list(self.outputs) != sorted(self.outputs):
            raise ValueError("knots do not rise")
        if not 0 <= self.outputs[0] <= self.outputs[-1] <= 1:
            raise ValueError("an output is not between 0 and 1")
        return self

    def at(self, value: float) -> float:
        """Give the output for an input."""
        index = bisect_right(self.inputs, value)
        if index in (0, len(self.inputs)):
            return self.outputs[max(0, index - 1)]
        low, high = self.inputs[index - 1], self.inputs[index]
        below, above = self.outputs[index - 1], self.outputs[index]
        return below + (above - below) * (value - low) / (high - low)


class Bin(Part):
    """One point of a reliability diagram."""

    count: int = Field(ge=0)
    said: float = Field(ge=0, le=1, description="mean confidence")
    found: float = Field(ge=0, le=1, description="mean of what came true")


class Calibrated(Part):
    """A confidence and how far it can be trusted.

    ``error`` and ``bins`` come from the half of the set that the curve for them was not fitted on, both ways;
    ``curve`` is fitted on all of it.
    """

    curve: Curve
    count: int = Field(ge=1, description="words or sentences that it was fitted on")
    error: float = Field(ge=0, le=1, description="expected calibration error, ten bins of equal width")
    bins: tuple[Bin, ...]


class Confidence(Part):
    """How sure a bundle may say that it is, greedy, on the dev set.

    Of a word, the share of words with its log-probability that stand in the reference. Of a sentence, the
    chrF to expect of it, from 0 to 1, by the mean probability of its tokens.
    """

    set: str
    words: Calibrated
    sentences: Calibrated
    correlation: float = Field(ge=-1, le=1, description="Pearson, of a sentence's confidence and its chrF")


def words_of(written: Written) -> Iterator[tuple[int, int, float]]:
    """Find the words that a model wrote.

    Args:
        written: pieces and log-probabilities, in order.

    Yields:
        First character of each word in the joined pieces, the one behind its last, and its log-probability,
        the sum of those of all pieces that have a character of it.
    """
    ends = list(accumulate(len(piece) for piece, _ in written))
    text = "".join(piece for piece, _ in written)
    for match in WORD.finditer(text):
        first = bisect_right(ends, match.start())
        last = bisect_right(ends, match.end() - 1)
        yield match.start(), match.end(), sum(log for _, log in written[first : last + 1])


def mean_probability(written: Written) -> float:
    """Average the probabilities of a sentence's tokens, the end token among them; 0 if there are none."""
    if not written:
        return 0.0
    return sum(math.exp(log) for _, log in written) / len(written)


def as_written(
    pieces: Sequence[str], tokens: Sequence[int], logs: Sequence[float]
) -> list[tuple[str, float]]:
    """Name the tokens of a sentence; the bytes of a character that is spelled are one piece.

    Args:
        pieces: names of all target ids.
        tokens: without the end token.
        logs: log-probability of each, and of the end token if there was one.
    """
    found: list[tuple[str, float]] = []
    spelled, log_of_spelled = b"", 0.0
    for token, log in zip(tokens, logs, strict=False):
        piece = pieces[token]
        if byte := _BYTE.fullmatch(piece):
            spelled, log_of_spelled = spelled + bytes.fromhex(byte[1]), log_of_spelled + log
            character = spelled.decode("utf-8", "ignore")
            if not character and len(spelled) < _MOST_BYTES:
                continue
            piece, log = character, log_of_spelled
        spelled, log_of_spelled = b"", 0.0
        found.append((piece.replace("\u2581", " "), log))
    return found + [("", log) for log in logs[len(tokens) :]]
