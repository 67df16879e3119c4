"""What the text layer knows of a model: its tokens, masks, word links, limits and checks."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from server.service.text.output.names import Names
from server.service.text.output.shape import shape
from server.service.text.protection.alignment import WordAligner
from server.service.text.protection.masks import DEFAULT_MASKS
from server.service.text.reading.clauses import clause_borders
from server.service.text.segment import Segment, Target
from server.service.text.truecasing import Truecaser
from server.service.text.vocabulary import Vocabulary

_MASK = "PH1"
_THREE_POINTS = re.compile(r"(?<!\.)\.\.\.(?= )")
_LONG_WORD_PIECES = 4
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
        coverage_of = None if self._lexicon is None else self._coverage_of
        self.names = Names(self.vocabulary, measured.translated_names, coverage_of, self.restored)
        self.aligner = WordAligner(measured.lexicon, tokenizer)
        self.checks = Checks(measured.thresholds, measured.lexicon)

    def masks(self, spans: int) -> tuple[str, ...]:
        """Give templates of masks for a sentence with so many spans, best first."""
        return self._masks[spans > 1]

    def restored(self, sentence: str) -> tuple[str, bool]:
        """Undo capitals; say whether the translation belongs in capitals."""
        return (sentence, False) if self._truecaser is None else self._truecaser.restore(sentence)

    def forms(self, sentence: str, *, as_it_stands: bool) -> list[tuple[str, bool]]:
        """Give what a sentence is read as, best first, each as `restored` says it.

        A label (`Next`) is read as within sentences, and as it stands if that comes back untranslated. Three
        points within a sentence are one character, of which models lose none.

        Args:
            sentence: of the source language.
            as_it_stands: whether a label's translation keeps the letters that the model gives it.
        """
        if not as_it_stands and "... " in sentence and self.vocabulary.knows("…"):
            sentence = _THREE_POINTS.sub("…", sentence)
        known = sentence if as_it_stands else self._within_sentences(sentence)
        return [self.restored(sentence)] if known == sentence else [(known, False), (sentence, False)]

    def _within_sentences(self, sentence: str) -> str:
        return sentence if self._truecaser is None else self._truecaser.within_sentences(sentence)

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

    def shaped(self, segment: Segment, target: Target, language: str, target_language: str) -> Target:
        """Give a translation the shape of its source, and its names their capitals; see `Names.recased`."""
        formed = shape(segment.text, target, language, target_language)
        # A noun's capital says nothing of its translation's; that of another German word does (`Gestern`).
        is_label = self._within_sentences(segment.text) != segment.text
        if is_label and formed.text[:1].islower() and not formed.spans:
            formed = Target(formed.text[0].upper() + formed.text[1:])
        return self.names.recased(segment, formed, language, target_language)

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
