"""What is said of a translation beside its text: made here, and written as fields of JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from server.service.text.explanation.alignments import Alignment, align_text, byte_offsets, composed
from server.service.text.explanation.attention import DIGITS, Look, Looks, check_size, look, named
from server.service.text.explanation.confidence import UNKNOWN, TextConfidence, confidence_of
from server.service.text.explanation.word_links import SentenceWords
from server.service.text.model_text import ModelText
from server.service.text.options import TextOptions
from server.service.text.sentences import TranslatedSentence

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was asked for of a translation.

    Attributes:
        alignments: its words and those of the text that they stand for.
        confidence: of its sentences and words.
        attention: of each run of the model, in order of the translation.
    """

    alignments: tuple[Alignment, ...] = ()
    confidence: TextConfidence = UNKNOWN
    attention: tuple[Look, ...] = ()


NOTHING = Explanation()


def explain(
    texts: Sequence[str],
    pieces: Sequence[Sequence[str | TranslatedSentence]],
    model: ModelText,
    options: TextOptions,
    *,
    is_html: bool,
) -> list[Explanation]:
    """Explain the translations of a request.

    Args:
        texts: as the client sent them.
        pieces: of the document of each, translated with `Way.keep`.
        model: that translated it.
        options: what was asked for.
        is_html: whether the texts are HTML.

    Raises:
        InvalidOptionError: the model's attention would be too long an answer.
        InferenceError: the graph for it failed.
    """
    words = [[_words(piece, model, options) for piece in of_text] for of_text in pieces]
    looks: list[list[Looks]] = [[()] * len(of_text) for of_text in pieces]
    if needs_looks(model, options):
        doubtful = [[own is not None and not own.is_certain for own in of_text] for of_text in words]
        looks = look(pieces, model, None if options.attention else doubtful)
        if options.attention:
            check_size(looks)
    found = []
    for text, own_pieces, own_words, own_looks in zip(texts, pieces, words, looks, strict=True):
        alignments: Sequence[Alignment] = ()
        if options.alignments:
            alignments = align_text(text, own_pieces, model, own_words, own_looks, is_html=is_html)
        confidence = UNKNOWN
        if options.confidence and model.confidence is not None:
            confidence = confidence_of(own_pieces, model.confidence)
        attention = _attention(own_pieces, own_looks, model) if options.attention else ()
        found.append(Explanation(tuple(alignments), confidence, attention))
    return found


def needs_looks(model: ModelText, options: TextOptions) -> bool:
    """Tell whether a model's attention is needed for what was asked for."""
    return model.attention is not None and (options.alignments or options.attention)


def _words(piece: str | TranslatedSentence, model: ModelText, options: TextOptions) -> SentenceWords | None:
    if isinstance(piece, str) or piece.delivered is None or not options.alignments:
        return None
    return SentenceWords(piece.delivered, model.aligner)


def _attention(
    pieces: Sequence[str | TranslatedSentence], looks: Sequence[Looks], model: ModelText
) -> tuple[Look, ...]:
    target = "".join(piece if isinstance(piece, str) else piece.texts[0] for piece in pieces)
    to_bytes = byte_offsets(target)
    found: list[Look] = []
    at = 0
    for piece, own in zip(pieces, looks, strict=True):
        end = at + len(piece if isinstance(piece, str) else piece.texts[0])
        if not isinstance(piece, str) and piece.delivered is not None:
            found += named(piece.delivered, own, (int(to_bytes[at]), int(to_bytes[end])), model)
        at = end
    return tuple(found)


def through(first: Explanation, second: Explanation) -> Explanation:
    """Join the explanations of two translations, the second one of what the first one gave."""
    return Explanation(tuple(composed(first.alignments, second.alignments)))


def fields_of(explanation: Explanation, options: TextOptions) -> dict[str, Any]:
    """Give the fields of an answer that explain a translation.

    Args:
        explanation: of the translation.
        options: what was asked for.
    """
    fields: dict[str, Any] = {}
    if options.alignments:
        fields["alignments"] = [
            {"source": list(one.source), "target": list(one.target), "weight": round(one.weight, 4)}
            for one in explanation.alignments
        ]
    if options.confidence:
        fields["confidence"] = {
            name: [{"target": list(one.target), "confidence": round(one.confidence, 3)} for one in each]
            for name, each in (
                ("sentences", explanation.confidence.sentences),
                ("words", explanation.confidence.words),
            )
        }
    if options.attention:
        fields["attention"] = [
            {
                "target": list(one.target),
                "sourcePieces": list(one.source_pieces),
                "targetPieces": list(one.target_pieces),
                "weights": np.round(one.weights.astype(np.float64), DIGITS).tolist(),
            }
            for one in explanation.attention
        ]
    return fields


def as_json(translation: str, explanation: Explanation, options: TextOptions) -> str:
    """Write a translation and its explanation as one line of JSON, with its end."""
    return _encode({"translatedText": translation, **fields_of(explanation, options)}) + "\n"
