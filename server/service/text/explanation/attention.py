"""Where the model looked while it wrote a translation, by pieces and by words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.errors import InvalidOptionError
from server.service.text.drafts import Run
from server.service.text.explanation.matching import Matching
from server.service.text.model_text import ModelText
from server.service.text.protection.words import Word
from server.service.text.sentences import Delivered, TranslatedSentence

Matrix = NDArray[np.float32]
MAX_CELLS = 1 << 20
"""Numbers that an answer may hold: 6 MB of JSON."""
DIGITS = 3
_NO_TEXT = ("<0x", "<", "[")


@dataclass(frozen=True, slots=True)
class Look:
    """One run of the model: what it read and wrote, and where it looked meanwhile.

    Attributes:
        target: range of the sentence in the translation, in bytes of UTF-8.
        source_pieces: what it read, special tokens included.
        target_pieces: what it wrote.
        weights: [target, source]; rows sum to 1.
    """

    target: tuple[int, int]
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    weights: Matrix


Looks = tuple[Matrix, ...]
"""Of a sentence: [T, S] for each run of the model that its translation is made of."""


def look(
    texts: Sequence[Sequence[str | TranslatedSentence]],
    model: ModelText,
    wanted: Sequence[Sequence[bool]] | None = None,
) -> list[list[Looks]]:
    """Run the model's attention over sentences of a request.

    Args:
        texts: pieces of each, translated with `Way.keep`.
        model: that translated them, with attention.
        wanted: for each piece of each text, whether it is asked about; None asks about all.

    Returns:
        For each piece of each text; nothing for copied ones, and for those that nobody wants.

    Raises:
        InferenceError: the graph failed.
    """
    assert model.attention is not None
    runs: list[list[tuple[Run, ...]]] = []
    for at, pieces in enumerate(texts):
        chosen = [True] * len(pieces) if wanted is None else wanted[at]
        runs.append(
            [
                piece.delivered.runs
                if is_wanted and not isinstance(piece, str) and piece.delivered is not None
                else ()
                for piece, is_wanted in zip(pieces, chosen, strict=True)
            ]
        )
    flat = [
        (run.read, run.wrote) for of_text in runs for of_piece in of_text for run in of_piece if run.wrote
    ]
    found = iter(model.attention.weights(flat) if flat else ())
    return [
        [tuple(next(found) if run.wrote else _nothing(run) for run in of_piece) for of_piece in of_text]
        for of_text in runs
    ]


def _nothing(run: Run) -> Matrix:
    return np.zeros((0, len(run.read)), np.float32)


def check_size(looks: Sequence[Sequence[Looks]]) -> None:
    """Check that the matrices of a request can be answered.

    Raises:
        InvalidOptionError: they have too many numbers.
    """
    cells = sum(matrix.size for of_text in looks for of_piece in of_text for matrix in of_piece)
    if cells > MAX_CELLS:
        raise InvalidOptionError(f"attention: the answer would have {cells} weights; the most is {MAX_CELLS}")


def named(kept: Delivered, looks: Looks, target: tuple[int, int], model: ModelText) -> list[Look]:
    """Name the rows and columns of a sentence's matrices.

    Args:
        kept: the sentence.
        looks: of it.
        target: its range in the translation, in bytes.
        model: that translated it.
    """
    return [
        Look(target, model.source_names(run.read), model.target_names(run.wrote), weights)
        for run, weights in zip(kept.runs, looks, strict=True)
    ]


def of_words(
    kept: Delivered, looks: Looks, model: ModelText, ours: Sequence[Word], theirs: Sequence[Word]
) -> Matrix:
    """Say how much a word of the translation looked at each word of the source.

    Args:
        kept: a sentence.
        looks: of it.
        model: that translated it.
        ours: words of the sentence.
        theirs: words of its translation.

    Returns:
        [ours, theirs], from 0 to 1: the pieces of a source word added, those of a target word averaged.
        0 for words that the model did not see as they are, such as masked ones.
    """
    found = np.zeros((len(ours), len(theirs)), np.float32)
    if not looks:
        return found
    rows = _places([model.source_names(run.read) for run in kept.runs], kept.segment.text, ours)
    columns = _places([model.target_names(run.wrote) for run in kept.runs], kept.target.text, theirs)
    counts = np.bincount([place for run in columns for place in run if place >= 0], minlength=len(theirs))
    for row, column, weights in zip(rows, columns, looks, strict=True):
        source, target = np.array(row), np.array(column)
        seen = weights[np.ix_(target >= 0, source >= 0)].T
        np.add.at(found, np.ix_(source[source >= 0], target[target >= 0]), seen)
    found /= np.maximum(counts, 1).astype(np.float32)
    return found


def _places(runs: Sequence[Sequence[str]], text: str, words: Sequence[Word]) -> list[list[int]]:
    """Find for each piece of each run which word it belongs to; -1 for none."""
    written, ends = "", []
    for run in runs:
        of_run = []
        for piece in run:
            own = "" if piece.startswith(_NO_TEXT) and len(piece) > 1 else piece.replace("\u2581", " ")
            start = len(written) + len(own) - len(own.lstrip())
            written += own
            of_run.append((start, len(written)))
        ends.append(of_run)
    shift = len(written) - len(written.lstrip())
    written = written[shift:]
    if len(written.lower()) == len(written) and len(text.lower()) == len(text):
        written, text = written.lower(), text.lower()  # for capitals that were undone and put back
    matching = None if written == text else Matching(text, written)
    word_at = [-1] * (len(text) + 1)
    for index, word in enumerate(words):
        word_at[word.start : word.end] = [index] * (word.end - word.start)

    def place(start: int, end: int) -> int:
        if start >= end:
            return -1
        found = (start, end) if matching is None else matching.range(start, end)
        return -1 if found is None else word_at[found[0]]

    return [[place(start - shift, end - shift) for start, end in of_run] for of_run in ends]
