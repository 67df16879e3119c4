"""What is said of a translation beside its text: made here, and written as fields of JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.service.text.explanation.alignments import Alignment, align_text, composed
from server.service.text.explanation.confidence import UNKNOWN, TextConfidence, confidence_of
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
    """

    alignments: tuple[Alignment, ...] = ()
    confidence: TextConfidence = UNKNOWN


NOTHING = Explanation()


def explain(
    text: str,
    pieces: Sequence[str | TranslatedSentence],
    model: ModelText,
    options: TextOptions,
    *,
    is_html: bool,
) -> Explanation:
    """Explain the translation of a text.

    Args:
        text: as the client sent it.
        pieces: of its document, translated with `Way.keep`.
        model: that translated it.
        options: what was asked for.
        is_html: whether the text is HTML.
    """
    alignments = align_text(text, pieces, model.aligner, is_html=is_html) if options.alignments else ()
    confidence = UNKNOWN
    if options.confidence and model.confidence is not None:
        confidence = confidence_of(pieces, model.confidence)
    return Explanation(tuple(alignments), confidence)


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
    return fields


def as_json(translation: str, explanation: Explanation, options: TextOptions) -> str:
    """Write a translation and its explanation as one line of JSON, with its end."""
    return _encode({"translatedText": translation, **fields_of(explanation, options)}) + "\n"
