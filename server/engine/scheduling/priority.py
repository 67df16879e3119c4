"""The priority class of a request, and whose time slice comes next."""

from collections.abc import Sequence as SequenceOf
from typing import Literal

from server.engine.sequence import Sequence

LONG_TOKENS = 256
"""Source tokens (times beam size) beyond which a request is a document: some 10 sentences."""


Lane = Literal["short", "long"]


LANES: tuple[Lane, ...] = ("short", "long")


STARTS_FIRST: frozenset[Lane] = frozenset({"long"})
"""Lanes that start all they may before they decode on: nobody waits for one sentence of a document alone."""


def lane_of(sequences: SequenceOf[Sequence]) -> Lane:
    """The lane of a request with these sentences."""
    return "long" if sum(len(s.source) * s.beam_size for s in sequences) > LONG_TOKENS else "short"


SHORT_TIME_RATIO = 2.0
"""Time of the short lane for each unit of time of the long one, when both have work."""


class Turns:
    """The turns of one worker. Owned by the worker thread."""

    def __init__(self) -> None:
        """Begin with the long lane."""
        self._left_s = 0.0

    def next(self, *, short: bool, long: bool) -> Lane:
        """Choose a lane.

        Args:
            short: whether there is work in the short lane.
            long: whether there is work in the long lane.

        Returns:
            A lane with work; the short one if there is none at all.
        """
        if long and not (short and self._left_s > 0):
            return "long"
        return "short"

    def took(self, lane: Lane, duration_s: float) -> None:
        """Note how long the step took that was chosen.

        Args:
            lane: that was stepped.
            duration_s: seconds.
        """
        if lane == "long":
            self._left_s = SHORT_TIME_RATIO * duration_s
        else:
            self._left_s -= duration_s
