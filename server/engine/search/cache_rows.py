"""Which row of the cache each beam of a beam search has."""

import numpy as np

from server.runtime.memory import Places

_FEW_SENTENCES = 16


def assign_rows(parents: Places) -> Places:
    """Give every beam a row so that as few as possible have to be copied.

    The first child of a row stays there; the others take the rows without children, lowest first.

    Args:
        parents: [N, K], the row that each beam continues.

    Returns:
        [N, K], a permutation of 0..K-1 per sentence.
    """
    count, width = parents.shape
    if count <= _FEW_SENTENCES:
        return np.array([_assign(row) for row in parents.tolist()])
    places = np.arange(count)
    taken = np.zeros((count, width), np.bool_)
    stays = np.empty((count, width), np.bool_)
    for beam in range(width):
        parent = parents[:, beam]
        stays[:, beam] = ~taken[places, parent]
        taken[places, parent] = True
    free = np.argsort(taken, axis=1, kind="stable")
    nth = np.cumsum(~stays, axis=1) - 1
    return np.where(stays, parents, free[places[:, None], np.maximum(nth, 0)])


def _assign(parents: list[int]) -> list[int]:
    """Do for one sentence what `assign_rows` does; for few sentences numpy's calls take longer."""
    rows, free = [-1] * len(parents), set(range(len(parents)))
    for beam, parent in enumerate(parents):
        if parent in free:
            free.remove(parent)
            rows[beam] = parent
    others = iter(sorted(free))
    return [next(others) if row < 0 else row for row in rows]
