"""Steps of a search over scores that lie on a device: of every row only its best columns are fetched.

Where a sentence has options that look at the whole row, all rows are fetched for that step.
"""

from server.engine.search.search import Advance, Search
from server.runtime.memory import Device, Tensor
from server.runtime.model_spec import ModelSpec


class DeviceScores:
    """The best columns of the rows of one batch. Owned by the worker thread."""

    def __init__(self, device: Device, spec: ModelSpec, beam_width: int, max_sentences: int) -> None:
        """Make a ranker.

        Args:
            device: where the scores lie.
            spec: sizes of the model.
            beam_width: rows K per sentence.
            max_sentences: most sentences at a time.
        """
        self._width = beam_width
        best = 1 if beam_width == 1 else 2 * beam_width
        self._ranker = device.ranker(spec, max_sentences * beam_width, best)

    def advance(self, search: Search, logits: Tensor) -> Advance:
        """Make one step of a search.

        Args:
            search: of the batch.
            logits: float32 [N*K, V], on the device.

        Returns:
            What was decided.
        """
        if search.needs_all(logits.shape[0] // self._width):
            return search.advance(self._ranker.whole(logits))
        return search.choose(*self._ranker.best(logits))
