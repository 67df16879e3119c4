"""Learning rate as a function of the update."""

from __future__ import annotations

from model.recipe import ScheduleName


def learning_rate_factor(
    update: int, *, warmup: int, schedule: ScheduleName, cooldown: int = 0, max_updates: int = 0
) -> float:
    """Compute the factor on the peak learning rate.

    Linear warm-up, then ``sqrt(warmup / update)`` (Vaswani et al., 2017, section 5.3, scaled to a peak of 1)
    or constant; over the last ``cooldown`` updates the factor falls linearly to zero (Hägele et al., 2024),
    so the length of a run can be decided late: nothing before the cooldown depends on it.

    Args:
        update: 1-based number of the update about to be made.
        warmup: updates of linear warm-up; 0 for none.
        schedule: what follows the warm-up.
        cooldown: updates of the final fall; 0 for none.
        max_updates: total updates; only needed for a cooldown.
    """
    factor = 1.0
    if update < warmup:
        factor = update / warmup
    elif schedule == "inverse_square_root":
        factor = (max(warmup, 1) / update) ** 0.5
    if cooldown and update > max_updates - cooldown:
        factor *= max(0, max_updates - update + 1) / (cooldown + 1)
    return factor
