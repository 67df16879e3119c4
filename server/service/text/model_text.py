"""What the text layer knows of a model: its tokens, masks, word links, limits and checks."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from export.bundle import Confidence, Framing, as_written
from export.lexicon import Lexicon, coverage
from model.features.encoded import FeaturesTooLongError, from_base64
from model.features.files import FeaturesError
from model.tokenizer import Tokenizer
from server.engine.source import Source, source_of
from server.errors import InvalidRequestError, TextTooLongError
from server.service.text.output.checks import Checks, Thresholds
from server.service.text.output.shape import CAPITAL_NOUNS
from server.service.text.protection.alignment import WordAligner
from server.service.text.protection.masks import DEFAULT_MASKS
from server.service.text.reading.abbreviations import abbreviations
from server.service.text.reading.clauses import clause_borders
from server.service.text.segment import Segment, Span, Target
from server.service.text.truecasing import Truecaser
from server.service.text.vocabulary import Vocabulary, without_accents

_MASK = "PH1"
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-ZÀ-ÞŒ][\w'’]*(?:-\w+)*(?<=\w)|(?<!\w)[a-z]+[A-Z]\w*")
_CAMEL = re.compile(r"[a-zß-ÿ][A-Z](?!nnen?\b)")
"""Within names of products and programs: `iPhone`, `JavaScript`; German `StudentInnen` are no name."""
_LONGEST_ABBREVIATION = 6
_TRANSLATED_SHORT = frozenset(("OK", "TV", "AM", "PM", "EE", "UU", "ID", "US", "USA", "UK"))
"""Abbreviations that are mostly translated; `EE` and `UU` are those of `EE.UU.`."""
_BEFORE_CAPITAL = frozenset(("", *'.!?…:¿¡"“„«('))
"""What stands before a word that has its capital from beginning a sentence; nothing at the very beginning."""
_CLITIC = re.compile(r"['’](?:s|d|ll|re|ve|m)$")
_TITLE = re.compile(r"(\w{1,8})\.$")
_SPELLED_PIECES = 3
_LONG_WORD_PIECES = 4
_MOST_NAMES = 3
_MANY_PIECES = 4
_TRANSLATED = (-2.5, -1.0)
"""Coverage of a name above which the lexical tables know its translation, and of one with many pieces."""
_ALIKE = 0.85
"""Of `difflib`, from which two words are forms of one name: `Zelanda`, `Zealand`; misspellings have less."""
_ENDING = 2
"""Letters by which a form of a name may be longer; it may be one shorter."""
_LESS_COVERED = 0.04
_AROUND = 8
"""Tokens left for what stands around a text."""


class Attends(Protocol):
    """Tells where the model looks; `server.runtime.onnx.attention_pass` has the real one. Thread-safe."""

    def weights(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[NDArray[np.float32]]:
        """Give for each pair of what was read and written [T, S], rows of which sum to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """What the exporter has measured of a model.

    Attributes:
        masks: templates that the model copies, best first.
        masks_together: the same, best first for sentences with several.
        comfortable_tokens: source tokens above which a sentence is better cut; None if it never is.
        thresholds: of the checks.
        lexicon: lexical tables, if the bundle has some.
        confidence: how sure the model may say that it is, if that was fitted.
        attention: tells where it looks, if the bundle has a graph for that.
        lost_characters: those with a piece of their own that the model cannot write.
        translated_names: names that have another form in the other language; none if that is not known.
    """

    masks: tuple[str, ...] = DEFAULT_MASKS
    masks_together: tuple[str, ...] = DEFAULT_MASKS
    comfortable_tokens: int | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    lexicon: Lexicon | None = None
    confidence: Confidence | None = None
    attention: Attends | None = None
    lost_characters: str = ""
    translated_names: frozenset[str] = frozenset()


class ModelText:
    """The text layer's side of one model. Thread-safe."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_source_tokens: int,
        truecaser: Truecaser | None = None,
        measured: Measured = Measured(),
        features: int = 0,
    ) -> None:
        """Keep what is needed.

        Args:
            tokenizer: of the model.
            max_source_tokens: what the model can read, specials included.
            truecaser: of the model; None translates capitals as they are.
            measured: by the exporter.
            features: values of a feature vector, if the model reads such vectors instead of text.
        """
        self._tokenizer = tokenizer
        self._features = features
        self._truecaser = truecaser
        self._longest = max_source_tokens
        self._comfortable = measured.comfortable_tokens
        self._lexicon = measured.lexicon
        self._masks = measured.masks, measured.masks_together
        self.confidence = measured.confidence
        self.attention = measured.attention
        self.vocabulary = Vocabulary(tokenizer, measured.lost_characters)
        self._translated_names = measured.translated_names
        self.aligner = WordAligner(measured.lexicon, tokenizer)
        self.checks = Checks(measured.thresholds, measured.lexicon)

    @property
    def lists_names(self) -> bool:
        """Whether the bundle says which names have another form in the other language."""
        return bool(self._translated_names)

    def masks(self, spans: int) -> tuple[str, ...]:
        """Give templates of masks for a sentence with so many spans, best first."""
        return self._masks[spans > 1]

    def restored(self, sentence: str) -> tuple[str, bool]:
        """Undo capitals; say whether the translation belongs in capitals."""
        return (sentence, False) if self._truecaser is None else self._truecaser.restore(sentence)

    def source_ids(self, sentence: str) -> list[int]:
        """Tokenize a sentence, without special tokens."""
        # No text needs a NUL, and tokenizers differ in what they make of it.
        return self._tokenizer.encode(sentence.replace("\0", " "))

    def whole(self, given: str, framing: Framing) -> Source:
        """Turn what the model reads whole into what its encoder reads; nothing if it is an empty text.

        Args:
            given: text; or features, see `model.features.encoded.from_base64`.
            framing: what goes around text.

        Raises:
            InvalidRequestError: these are no features, or not such as the model reads.
        """
        if not self._features:
            ids = self.source_ids(given)
            return (*framing.source_prefix, *ids, *framing.source_suffix) if ids else ()
        try:
            return source_of(from_base64(given, self._features, self._longest))
        except FeaturesTooLongError as error:
            raise TextTooLongError(f"features: {error}") from None
        except FeaturesError as error:
            raise InvalidRequestError(f"features: {error}") from None

    def is_gibberish(self, sentence: str, ids: Sequence[int]) -> bool:
        """Tell whether a sentence is none: its letters have to be spelled, and make no words."""
        return 3 * len(ids) > 2 * len(sentence) and self.vocabulary.is_gibberish(sentence)

    def target_ids(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Tokenize texts of the target language."""
        return tuple(tuple(ids) for ids in self._tokenizer.encode_target_batch(texts))

    def lost_names(self, segment: Segment, target: Target, language: str) -> list[Span]:
        """Find names and abbreviations that a translation has not.

        A name is a word with a capital within a sentence that the model can only spell. One that has another
        form in the other language (`Vienna`, `Wien`) is no loss, nor is one with another ending; in a bundle
        that does not list such names, one that the lexical tables translate or that looks much alike.

        Args:
            segment: a sentence.
            target: its translation.
            language: of the sentence.
        """
        if not _NAME.search(segment.text, 1):
            return []
        found: list[Span] = []
        said = set(_NAME.findall(target.text))
        said.update(*(name.split("-") for name in said if "-" in name))  # `API-Schlüssel`
        plain = [without_accents(word) for word in _WORD.findall(target.text.lower())]
        cased, _ = self.restored(segment.text)
        for match in _NAME.finditer(segment.text):
            start, end = match.span()
            name = _CLITIC.sub("", match[0])
            pieces = self.vocabulary.count_pieces(name)
            is_short = (
                1 < len(name) < _LONGEST_ABBREVIATION and name.isupper() and name not in _TRANSLATED_SHORT
            )
            is_short = is_short or bool(_CAMEL.search(name))
            begins = _begins(segment.text[:start].rstrip(), language)
            lower = self.vocabulary.count_pieces(name.lower())  # `Fourth` is known as `fourth`
            known = min(pieces, lower + 1 if self.lists_names else lower) < _SPELLED_PIECES
            if not is_short and (language in CAPITAL_NOUNS or begins or known):
                continue
            if (
                not said.isdisjoint((name, f"{name}s"))  # `URLs`
                or name in self._translated_names
                or (is_short and any(_is_same_letters(name, one) for one in said))
                or cased[start : start + len(name)] != name
                or (not is_short and self._is_said(without_accents(name.lower()), plain))
                or any(span.start < end and start < span.end for span in segment.spans)
            ):
                continue
            spelled = pieces >= _SPELLED_PIECES and "-" not in name
            if (
                (spelled and self.lists_names)
                or self._lexicon is None
                or (is_short and pieces >= len(name))  # its letters say nothing
                or self._coverage_of(name, target.text) < _TRANSLATED[pieces > _MANY_PIECES]
            ):
                if self.lists_names and found and segment.text[found[-1].end : start] == " ":
                    found[-1] = Span(found[-1].start, end)  # one mask for a full name
                else:
                    found.append(Span(start, end))
        return found if len(found) <= _MOST_NAMES and not segment.text.isupper() else []

    def _is_said(self, name: str, words: Sequence[str]) -> bool:
        """Tell whether a name stands among words in some form."""
        if not self.lists_names:
            return bool(get_close_matches(name, words, 1, _ALIKE))
        return any(
            (word.startswith(name) and len(word) <= len(name) + _ENDING) or word == name[:-1]
            for word in words
        )

    def accounts_worse(self, source: str, new: str, old: str) -> bool:
        """Tell whether the lexical tables say that a translation accounts for its source worse than another.

        Args:
            source: a sentence.
            new: its translation.
            old: the other one.
        """
        return self._coverage_of(source, new) < self._coverage_of(source, old) - _LESS_COVERED

    def _coverage_of(self, source: str, text: str) -> float:
        if self._lexicon is None:
            return 0.0
        (target,) = self.target_ids([text])
        return coverage(self._lexicon, self._tokenizer.encode(source), target)

    def decoded(self, ids: Sequence[int]) -> str:
        """Turn target ids into text."""
        return self._tokenizer.decode(ids)

    def written(self, tokens: Sequence[int], scores: Sequence[float]) -> tuple[tuple[str, float], ...]:
        """Name the pieces that the model wrote, each with its log-probability; the end token is empty."""
        return tuple(as_written(self._target_pieces, tokens, scores))

    def source_names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Name pieces that the model read."""
        return tuple(map(self._source_pieces.__getitem__, ids))

    def target_names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Name pieces that it wrote."""
        return tuple(map(self._target_pieces.__getitem__, ids))

    @functools.cached_property
    def _source_pieces(self) -> list[str]:
        return self._tokenizer.source_pieces()

    @functools.cached_property
    def _target_pieces(self) -> list[str]:
        return self._tokenizer.target_pieces()

    def clause_borders(self, segment: Segment, language: str, limit: int | None = None) -> list[int]:
        """Find where a sentence is cut that is too long.

        Args:
            segment: a sentence.
            language: of its text.
            limit: tokens of a clause; None is what the model does well and can read.

        Returns:
            Offsets; none for a sentence that stays whole.
        """
        hard = self._longest - _AROUND
        most = min(hard, self._comfortable or hard)
        if limit is not None:
            most = min(most, limit)
        text, kept = segment.text, [(span.start, span.end) for span in segment.spans]

        def length(start: int, end: int) -> int:
            part, position = "", start
            for first, last in kept:
                if start <= first and last <= end:
                    part += text[position:first] + _MASK
                    position = last
            part += text[position:end]
            # A word that has to be spelled makes a sentence no longer, up to what the model can read.
            counts = map(self.vocabulary.count_pieces, part.split())
            words = sum(min(count, _LONG_WORD_PIECES) for count in counts)
            if 4 * len(part) <= hard:  # no piece is shorter than a byte
                return words
            return max(words, -(-len(self._tokenizer.encode(part)) * most // hard))

        if (
            not kept
            and 4 * len(text) <= hard
            and sum(map(self.vocabulary.count_pieces, text.split())) <= most
        ):
            return []  # most sentences
        if len(text) <= most // 4 or length(0, len(text)) <= most:
            return []
        return clause_borders(text, language, kept, most, length)


def _begins(before: str, language: str) -> bool:
    """Tell whether a word has its capital from its place; a title (`Ms.`) begins no sentence."""
    title = _TITLE.search(before)
    return before[-1:] in _BEFORE_CAPITAL and not (
        title is not None and title[1].lower() in abbreviations(language).titles
    )


def _is_same_letters(name: str, other: str) -> bool:
    """Tell whether one abbreviation is another in other words: `NATO` and `OTAN`, `UN` and `ONU`."""
    return other.isupper() and len(other) <= len(name) + 1 and not Counter(name) - Counter(other)
