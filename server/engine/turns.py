"""Which lane a worker steps next: a pure policy over measured durations.

After a step of the long lane, the short lane may step for `SHORT_TIME_RATIO` times as long as that step took;
then it is the long lane's turn again. Alone, each has all the time. So a short request waits for one step of
a document at most before it starts and for few while it is decoded, and documents keep a third of the time
however many short requests there are.

Measured with 6 layers of 512 on two cores, a short request of 5 tokens beside documents of 200 sentences
(benchmarks/fairness.py): p95 17 times the unloaded one in one batch, 1.4 times with lanes.
"""

from .scheduler import Lane

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
