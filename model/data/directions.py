"""The directions of a run: the text of each, and the tag that chooses one of several target languages.

The tag is a token that the source begins with, ``>>fr<<`` (Johnson et al., 2017, "Google's Multilingual
Neural Machine Translation System"; written as in OPUS-MT). It is a control symbol of the vocabulary: no text
produces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from model.checkpoint import Direction
from model.data.corpus import DescribedFeatures, ParallelText
from model.features.files import Features
from model.features.rows import Row
from model.recipe import Corpus, RecipeError
from model.tokenizer import Tokenizer


class Translated(NamedTuple):
    """A sentence of the dev set and what the model made of it."""

    direction: Direction
    source: str | Features
    reference: str
    translation: str


@dataclass(frozen=True)
class DirectedText:
    """Pairs in memory and the direction they are of."""

    direction: Direction
    text: ParallelText | DescribedFeatures

    def source_rows(self, tokenizer: Tokenizer) -> Sequence[Row]:
        """Tokenise its sources, with the tag; without eos. Features are rows already."""
        if isinstance(self.text, DescribedFeatures):
            return self.text.sources
        tag = self.direction.source_prefix_ids
        return [[*tag, *ids] for ids in tokenizer.encode_batch(self.text.sources)]


def tags_of(corpus: Corpus) -> list[str]:
    """List the tags that a vocabulary must hold: none for one target language."""
    languages = dict.fromkeys(direction.target_language for direction in corpus.directions)
    return [_tag(language) for language in languages] if len(languages) > 1 else []


def directions_of(corpus: Corpus, tokenizer: Tokenizer) -> list[Direction]:
    """List the directions with the ids of their tags.

    Raises:
        RecipeError: the vocabulary, which was not learnt for this corpus, lacks a tag.
    """
    tags = tags_of(corpus)
    ids = {piece: number for number, piece in enumerate(tokenizer.source_pieces())} if tags else {}
    missing = [tag for tag in tags if tag not in ids]
    if missing:
        raise RecipeError(
            f"the vocabulary has no {', '.join(missing)}: it was not learnt for these target languages; "
            "train from the start, without training.initialise_from and vocabulary.path, in another --out"
        )
    return [
        Direction(
            source=text.source_language,
            target=text.target_language,
            source_prefix_ids=[ids[_tag(text.target_language)]] if tags else [],
        )
        for text in corpus.directions
    ]


def with_directions(
    directions: Iterable[Direction], texts: Iterable[ParallelText | DescribedFeatures]
) -> list[DirectedText]:
    """Put text and direction together, in order."""
    return [DirectedText(direction, text) for direction, text in zip(directions, texts, strict=True)]


def _tag(language: str) -> str:
    return f">>{language}<<"
