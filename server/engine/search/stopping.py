"""When beam search is done with a sentence, and which of its hypotheses count: one class for each rule."""

import math
from typing import NamedTuple

from server.engine.options import DecodingOptions


class Ended(NamedTuple):
    """A hypothesis that has ended. Its tokens are read when it is asked for: most of them never are.

    Attributes:
        steps: made before the one in which it ended.
        beam: that it was after these.
        token: of its last step.
        log_probability: of all of it.
    """

    steps: int
    beam: int
    token: int
    log_probability: float

    @property
    def length(self) -> int:
        """Its tokens, the end token included."""
        return self.steps + 1


Ranked = list[tuple[float, Ended]]
"""Scores and hypotheses, best first."""


class CTranslate2Criterion:
    """CTranslate2's rule: done with `beam_size * patience` hypotheses, all of which count.

    With a `length_penalty` of 0 it is done as soon as the best candidate of some step has ended and there are
    `num_hypotheses`: nothing can overtake it then. When sampling, it is done with `num_hypotheses`.
    Owned by the worker thread.

    Attributes:
        checks_always: whether a step in which nothing ends may be the last one, too.
    """

    checks_always = False

    def __init__(self, options: DecodingOptions) -> None:
        """Start without any; `options` are those of the sentence."""
        self._options = options
        self._needed = options.num_hypotheses if options.samples else options.max_ended
        self._ended: Ranked = []
        self._best_ended = False

    @property
    def remaining(self) -> int:
        """How many may end before the sentence may be done: those that are missing; with less it goes on.

        1 where it takes no certain number.
        """
        return 1 if self._options.length_penalty == 0 else self._needed - len(self._ended)

    def add(self, log_probability: float, ended: Ended, *, is_best: bool) -> None:
        """Take a hypothesis that has ended; `is_best` if it was the best candidate of its step.

        `log_probability` is the sum over its tokens.
        """
        self._ended.append((normalised(log_probability, ended.length, self._options.length_penalty), ended))
        self._best_ended |= is_best

    def done(self, best: float, length: int) -> bool:
        """Tell whether the sentence is done after a step: there are enough.

        `best` is the highest log-probability of the beams that go on, which have `length` tokens.
        """
        if self._options.length_penalty == 0 and not self._options.samples:
            return self._best_ended and len(self._ended) >= self._options.num_hypotheses
        return len(self._ended) >= self._needed

    def ranked(self) -> Ranked:
        """Give all of them, best first; equal scores in the order in which they ended."""
        return _best_first(self._ended)


class TransformersCriterion:
    """The rule of transformers' `generate` (5.x) with `early_stopping` False, True or "never".

    The K best ended hypotheses count. Once there are K: True is done; the others are done when the best
    beam that goes on could not beat the worst of the K. What it could reach is its log-probability over its
    present length (False, or no positive `length_penalty`) or over the longest length ("never"). Lengths do
    not count what of `target_prefix` is a prompt to transformers.
    """

    def __init__(self, options: DecodingOptions, max_length: int) -> None:
        """Start without any; the sentence ends after `max_length` steps, whatever happens."""
        self._options = options
        self._prompt = options.prompt_tokens
        self._longest = max_length - self._prompt
        self._kept: Ranked = []

    @property
    def checks_always(self) -> bool:
        """Whether K have ended; see `CTranslate2Criterion.checks_always`."""
        return len(self._kept) == self._options.beam_size

    @property
    def remaining(self) -> int:
        """How many are missing of K; see `CTranslate2Criterion.remaining`."""
        return self._options.beam_size - len(self._kept)

    def add(self, log_probability: float, ended: Ended, *, is_best: bool) -> None:
        """Keep a hypothesis if it is among the K best; see `CTranslate2Criterion.add`."""
        score = normalised(log_probability, max(1, ended.length - self._prompt), self._options.length_penalty)
        self._kept = _best_first([*self._kept, (score, ended)])[: self._options.beam_size]

    def done(self, best: float, length: int) -> bool:
        """Tell whether no beam could still improve the K best; see `CTranslate2Criterion.done`."""
        rule, penalty = self._options.early_stopping, self._options.length_penalty
        if not self.checks_always or rule is True:
            return self.checks_always
        reached = self._longest if rule == "never" and penalty > 0 else length - self._prompt
        return normalised(best, reached, penalty) <= self._kept[-1][0]

    def ranked(self) -> Ranked:
        """Give the K best; see `CTranslate2Criterion.ranked`."""
        return self._kept


Criterion = CTranslate2Criterion | TransformersCriterion


def criterion_of(options: DecodingOptions, max_length: int) -> Criterion:
    """Start collecting the hypotheses of a sentence by the rule that its options ask for."""
    if options.follows_transformers:
        return TransformersCriterion(options, max_length)
    return CTranslate2Criterion(options)


def normalised(log_probability: float, length: int, length_penalty: float) -> float:
    """The score by which hypotheses are ranked: `log_probability / length**length_penalty`.

    The sum is over all tokens, the end token included, which the length counts.
    """
    return log_probability / math.pow(length, length_penalty)


def _best_first(hypotheses: Ranked) -> Ranked:
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis[0])
