"""How sure a model is of the sentences and words of a translation, as calibrated by the exporter."""

from collections.abc import Sequence
from dataclasses import dataclass

from export.bundle import Confidence, mean_probability, words_of
from server.service.text.explanation.alignments import Range, byte_offsets, lay_out_target
from server.service.text.explanation.matching import Matching
from server.service.text.protection.words import Word
from server.service.text.sentences import Delivered, TranslatedSentence


@dataclass(frozen=True, slots=True)
class Confident:
    """A part of a translation.

    Attributes:
        target: first byte of it and the one behind its last, in UTF-8.
        confidence: from 0 to 1; `export.sections.confidence` says what it means.
    """

    target: Range
    confidence: float


@dataclass(frozen=True, slots=True)
class TextConfidence:
    """Of the sentences and words of a translation that a model wrote, in order."""

    sentences: tuple[Confident, ...] = ()
    words: tuple[Confident, ...] = ()


UNKNOWN = TextConfidence()


def confidence_of(pieces: Sequence[str | TranslatedSentence], calibrated: Confidence) -> TextConfidence:
    """Say how sure the model is of a translation.

    Args:
        pieces: of its document, translated with `Way.keep` and token scores.
        calibrated: of the model.
    """
    target = "".join(piece if isinstance(piece, str) else piece.texts[0] for piece in pieces)
    to_bytes = byte_offsets(target)

    def confident(start: int, end: int, confidence: float) -> Confident:
        return Confident((int(to_bytes[start]), int(to_bytes[end])), confidence)

    sentences, words = [], []
    at = 0
    for piece in pieces:
        length = len(piece) if isinstance(piece, str) else len(piece.texts[0])
        if not isinstance(piece, str) and (kept := piece.delivered) is not None and kept.written:
            sure = calibrated.sentences.curve.at(mean_probability(kept.written))
            sentences.append(confident(at, at + length, sure))
            layout = lay_out_target(kept)
            for word, log in _words(kept):
                low, high = layout.range(word)
                words.append(confident(at + low, at + high, calibrated.words.curve.at(log)))
        at += length
    return TextConfidence(tuple(sentences), tuple(words))


def _words(kept: Delivered) -> list[tuple[Word, float]]:
    """Find the words that the model wrote in what was made of them: not masks, nor what was put in."""
    written = "".join(piece for piece, _ in kept.written)
    text = kept.target.text
    if len(written.lower()) == len(written) and len(text.lower()) == len(text):
        written, text = written.lower(), text.lower()  # for capitals that were undone and put back
    matching = Matching(text, written)
    found = []
    for start, end, log in words_of(kept.written):
        place = matching.range(start, end)
        if place is None or text[slice(*place)] != written[start:end]:
            continue
        if not any(span.start < place[1] and place[0] < span.end for span in kept.target.spans):
            found.append((Word(*place), log))
    return found
