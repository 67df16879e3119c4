"""Learns the lexical tables of a direction: IBM model 1, once each way."""

from __future__ import annotations

from collections.abc import Sequence

from export.lexicon import Lexicon, Table
from model.data.word_alignment import Translations, learn_translations
from model.tokenizer import Tokenizer

MAX_CELLS = 60_000_000
"""What 400,000 sentence pairs of 12 pieces have. More says little of words with eight entries."""


def learn_lexicon(
    tokenizer: Tokenizer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], entries: int
) -> Lexicon:
    """Learn which pieces become which.

    Args:
        tokenizer: of the model.
        sources: ids of each source sentence, without special tokens.
        targets: ids of its translation, likewise.
        entries: most of a piece.

    Raises:
        ValueError: no sentence pair is usable.
    """
    size, target_size = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    forward = learn_translations(sources, targets, size, target_size, max_cells=MAX_CELLS)
    backward = learn_translations(targets, sources, target_size, size, max_cells=MAX_CELLS)
    return Lexicon(_kept(forward, size, entries), _kept(backward, target_size, entries))


def _kept(learnt: Translations, vocabulary_size: int, entries: int) -> Table:
    return Table.from_cells(learnt.sources, learnt.targets, learnt.probabilities, vocabulary_size, entries)
