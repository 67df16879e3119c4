"""Limits for translations, from the tails of the dev set: alarms on usual text are as rare as there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from export.bundle import OutputChecks
from export.lexicon import UNCOVERED, Lexicon, coverage

FROM_SOURCE_TOKENS = 8
MAX_FALSE_ALARMS = 0.002
RATIO_SLACK, COVERAGE_SLACK = 1.25, 1.1
"""Limits are wider than the tails of the dev set by these factors, as other text has its own extremes:
without them 1.5 % of French test sentences raise an alarm, with them 0.05 %. More of the second would find
less: of swapped translations 14 to 50 % are found with it, 42 to 75 % without."""


def measure_checks(
    lexicon: Lexicon, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> OutputChecks:
    """Choose limits that at most one dev sentence in 500 fails.

    Args:
        lexicon: of the direction.
        sources: ids of the dev sentences as the encoder reads them.
        targets: ids of their translations, without the end token.
    """
    judged = [
        (len(target) / len(source), coverage(lexicon, source, target))
        for source, target in zip(sources, targets, strict=True)
        if len(source) >= FROM_SOURCE_TOKENS
    ]
    ratios = np.sort([ratio for ratio, _ in judged] or [1.0])
    scores = np.sort([score for _, score in judged] or [0.0])
    # A third of the alarms to each limit.
    tail = min(int(MAX_FALSE_ALARMS * len(sources) / 3), len(ratios) - 1)
    shortest = round(float(ratios[tail]) / RATIO_SLACK, 4)
    longest = round(float(ratios[-1 - tail]) * RATIO_SLACK, 4)
    least = round(max(float(scores[tail]) * COVERAGE_SLACK, UNCOVERED), 4)
    alarms = sum(not shortest <= ratio <= longest or score < least for ratio, score in judged)
    return OutputChecks(
        from_source_tokens=FROM_SOURCE_TOKENS,
        min_length_ratio=shortest,
        max_length_ratio=max(longest, 1.0),
        min_coverage=least,
        false_alarms=round(alarms / max(1, len(sources)), 5),
    )
