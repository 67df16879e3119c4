"""The priority class of a request: interactive, or bulk if it is a document."""

from collections.abc import Sequence as SequenceOf
from typing import Literal

from server.engine.options import DecodingOptions
from server.engine.sequence import Priority

BULK_TOKENS = 256
"""Source tokens (times beam size) of a request beyond which it is bulk: some 10 sentences."""

Rivalry = Literal["none", "expected", "present"]
"""Whether requests of the other class compete for rows: none came for long, one may come, there are some."""

PRESENT_FOR_S, EXPECTED_FOR_S = 1.0, 60.0
"""How long after an interactive request another one is as good as there, and may come at any time."""

SHARE = 4
"""One row in so many is kept for interactive requests that may come, or left to bulk ones when they have."""


def priority_of(sources: SequenceOf[SequenceOf[int]], options: SequenceOf[DecodingOptions]) -> Priority:
    """Classify a request.

    Args:
        sources: token ids of every sentence.
        options: of every sentence.
    """
    tokens = sum(len(source) * one.beam_size for source, one in zip(sources, options, strict=True))
    return "bulk" if tokens > BULK_TOKENS else "interactive"
