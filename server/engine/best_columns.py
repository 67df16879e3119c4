"""Steps of a search over scores that lie on a device: of every row only its best columns are fetched.

A search takes scores [N*K, C] and the tokens that the columns of each sentence stand for, whatever they are;
a shortlist uses that, and so does this. The columns of a sentence are the 2K best of each of its K rows, side
by side, and minus infinity where they are another row's: every row has exactly its own. What the search takes
from them is what it would take from the whole row.

Where a sentence has options that look at the whole row, all rows are fetched for that step.
"""

import numpy as np

from server.runtime.memory import Device, Tensor
from server.runtime.session import ModelSpec

from .columns import Columns
from .search import Advance, Search


class BestColumns:
    """The best columns of the rows of one batch. Owned by the worker thread."""

    def __init__(self, device: Device, spec: ModelSpec, beam_width: int, max_sentences: int) -> None:
        """Make a ranker.

        Args:
            device: where the scores lie.
            spec: sizes of the model.
            beam_width: rows K per sentence.
            max_sentences: most sentences at a time.
        """
        self._vocabulary_size = spec.vocabulary_size
        self._width = beam_width
        offers = 1 if beam_width == 1 else 2 * beam_width
        self._ranker = device.ranker(spec, max_sentences * beam_width, offers)

    def advance(self, search: Search, logits: Tensor) -> Advance:
        """Make one step of a search.

        Args:
            search: of the batch.
            logits: float32 [N*K, V], on the device.

        Returns:
            What was decided.
        """
        width, rows = self._width, logits.shape[0]
        count = rows // width
        if search.needs_all(count):
            return search.advance(self._ranker.whole(logits))
        found, log_probabilities = self._ranker.best(logits)
        by_row, ascending = np.arange(rows)[:, None], np.argsort(found, axis=1)
        best = found.shape[1]
        scores = np.full((count, width, width, best), -np.inf, np.float32)
        beams = np.arange(width)
        scores[:, beams, beams] = log_probabilities[by_row, ascending].reshape(count, width, best)
        columns = Columns(found[by_row, ascending].reshape(count, width * best), self._vocabulary_size)
        return search.advance(scores.reshape(rows, width * best), columns, normalised=True)
