"""Learns the lexical tables of a direction: IBM model 1, once each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from export.lexicon import Lexicon, Table
from export.text_measures.dev_translator import DevTranslator
from export.text_measures.names import translated_names
from model.data.corpus import check_parallel, read_lines, read_parallel
from model.data.word_alignment import Translations, learn_translations
from model.tokenizer import Tokenizer

MAX_CELLS = 60_000_000
"""What 400,000 sentence pairs of 12 pieces have. More says little of words with eight entries."""


class MeasureError(Exception):
    """A bundle cannot be measured as asked; the message is one line."""


@dataclass(frozen=True)
class Learnt:
    """What a text and its translation say.

    Attributes:
        lexicon: which pieces become which.
        origin: what it was learnt from, in words.
        names: those that have another form in the other language.
    """

    lexicon: Lexicon
    origin: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class LexiconTexts:
    """What a lexicon is learnt from: a text and its translation, or one that the model translates itself.

    Attributes:
        source: text, a sentence a line, plain or gzip.
        target: its translation.
        alone: source text instead of these two.
    """

    source: Path | None = None
    target: Path | None = None
    alone: Path | None = None

    @classmethod
    def given(cls, source: Path | None, target: Path | None, alone: Path | None) -> Self | None:
        """Take what was given, which may be nothing."""
        return cls(source, target, alone) if source or target or alone else None

    def check(self, directions: int) -> None:
        """Refuse at once files that do not fit together, or cannot be read.

        Args:
            directions: of the model.

        Raises:
            MeasureError: they do not, or there is more than one direction.
            CorpusError: a file is unusable.
        """
        if directions > 1:
            raise MeasureError(f"a lexicon is learnt for one direction, this model has {directions}")
        pair = (self.source is not None, self.target is not None)
        if pair[0] != pair[1] or pair[0] == (self.alone is not None):
            raise MeasureError(
                "a lexicon is learnt from a text and its translation, or from the model's own translations "
                "of a text: give both files or that one"
            )
        if self.source is not None and self.target is not None:
            check_parallel([self.source], [self.target])
        elif self.alone is not None:
            read_lines(self.alone)

    def learn(self, translator: DevTranslator, entries: int, report: Callable[[str], None]) -> Learnt:
        """Learn the lexicon.

        Args:
            translator: of the bundle.
            entries: most of a piece.
            report: gets a line before the work.

        Raises:
            MeasureError: the texts have no words.
            CorpusError: a file is unusable.
        """
        tokenizer = translator.tokenizer
        if self.source is not None and self.target is not None:
            text = read_parallel([self.source], [self.target])
            origin = f"{self.source.name}, {len(text)} sentence pairs"
            report(f"learning which words become which from {origin}")
            sources, outputs = text.sources, text.targets
            targets = tokenizer.encode_target_batch(outputs)
        else:
            assert self.alone is not None
            sources = translator.fitting([line for line in read_lines(self.alone) if line])
            origin = f"{self.alone.name}, {len(sources)} lines as the model translates them"
            report(f"learning which words become which from {origin}")
            written = translator.target_ids(sources, self.alone.name)
            outputs = [tokenizer.decode(ids) for ids in written]
            targets = [ids[len(translator.target_prefix) :] for ids in written]
        try:
            lexicon = learn_lexicon(tokenizer, tokenizer.encode_batch(sources), targets, entries)
        except ValueError as error:
            raise MeasureError(f"{origin}: {error}") from None
        return Learnt(lexicon, origin, translated_names(sources, outputs, tokenizer))


def learn_lexicon(
    tokenizer: Tokenizer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], entries: int
) -> Lexicon:
    """Learn which pieces become which.

    Args:
        tokenizer: of the model.
        sources: ids of each source sentence, without special tokens.
        targets: ids of its translation, without special tokens.
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
