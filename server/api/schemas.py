"""The JSON that comes in and goes out, as pydantic models; also the source of the OpenAPI document."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from server.api.glossary import InlineGlossary, UsedTerm, used_terms
from server.engine.options import OPTIONS, Option
from server.errors import InvalidOptionError, InvalidRequestError
from server.service.text.codec import TextTranslation
from server.service.text.explanation.explained import fields_of
from server.service.text.options import TEXT_OPTIONS, TextOptions
from server.service.translation.request import RequestedOptions, Translation

M = TypeVar("M", bound=BaseModel)
Natural = Annotated[int, Field(ge=0, le=1_000_000)]
# At the first wrong item pydantic stops: describing each of a million would take seconds and hundreds of MB.
Strings = str | Annotated[list[str], Field(fail_fast=True)]
FIELD_OPTIONS = tuple(one for one in OPTIONS if one.has_field)
_OPTIONS = frozenset(
    {"alternatives", "glossary", *(one.field_name for one in (*FIELD_OPTIONS, *TEXT_OPTIONS))}
)


class DecodingFields(BaseModel):
    """What requests share that a model answers: options of decoding, one field each."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    api_key: str | None = Field(
        None, description="If the server wants one; the header `Authorization: Bearer` does it, too."
    )
    if TYPE_CHECKING:  # those of the schemas below that this file looks at
        num_hypotheses: int | None
        scores: bool | None
        target_prefix: str | list[str] | None

    @property
    @abstractmethod
    def given_texts(self) -> str | list[str]:
        """The texts, be it one or several."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts as several."""
        return (self.given_texts,) if isinstance(self.given_texts, str) else tuple(self.given_texts)

    @property
    def wanted_hypotheses(self) -> int | None:
        """Hypotheses that are asked for; None if that is left to the server."""
        return self.num_hypotheses

    def requested_options(self) -> RequestedOptions:
        """Collect the decoding options; raises InvalidOptionError if they contradict each other."""
        stated = {one.name: getattr(self, one.field_name) for one in FIELD_OPTIONS if not one.is_text}
        stated["num_hypotheses"] = self.wanted_hypotheses
        return RequestedOptions(target_prefixes=self._target_prefixes(), **stated)

    def _target_prefixes(self) -> tuple[str, ...]:
        given = self.target_prefix
        if not given:
            return ()
        if isinstance(given, str):
            return (given,) * len(self.texts)
        if isinstance(self.given_texts, str) or len(given) != len(self.given_texts):
            raise InvalidOptionError("target_prefix must be a string, or an array with one for each text")
        return tuple(given)


class TranslateFields(DecodingFields):
    """Fields of `POST /translate`. Unknown ones are ignored, so are nulls.

    These are LibreTranslate's; `TRANSLATE_SCHEMA` has one more for each option of decoding and of texts.
    """

    q: Strings = Field(
        description="Text, or array of texts, to translate.", examples=["Where is the train station?"]
    )
    source: str = Field(description="Language code of the text, or `auto`.", examples=["en"])
    target: str = Field(description="Language code to translate to.", examples=["de"])
    format: Literal["text", "html"] = Field("text", description="`html` keeps tags in place.")
    alternatives: Natural = Field(0, description="Further translations wanted for each text.")
    glossary: InlineGlossary | None = Field(
        None,
        description="Name of a glossary of the server, or up to 100 entries: an object from term to "
        "translation, or an array of objects with `source`, `target` and perhaps `forms`.",
        examples=["medicine", {"board": "Platine"}],
    )
    if TYPE_CHECKING:
        protect: str | list[str] | None
        warnings: bool | None

    @property
    def given_texts(self) -> str | list[str]:
        """The texts, be it one or several."""
        return self.q

    @property
    def wanted_hypotheses(self) -> int | None:
        """Hypotheses that are asked for, in either of the two ways.

        Raises:
            InvalidOptionError: they contradict each other.
        """
        if not self.alternatives:
            return self.num_hypotheses
        if self.num_hypotheses not in (None, self.alternatives + 1):
            raise InvalidOptionError("num_hypotheses is not alternatives + 1; give only one of them")
        return self.alternatives + 1

    def text_options(self, defaults: TextOptions) -> TextOptions:
        """Collect how the texts are treated, `defaults` where the request does not choose.

        Raises:
            InvalidOptionError: too much, or no pattern, is to be protected.
        """
        stated = {one.name: getattr(self, one.field_name) for one in TEXT_OPTIONS}
        if self.protect is not None:
            stated["protect"] = (self.protect,) if isinstance(self.protect, str) else tuple(self.protect)
        options = replace(defaults, **{name: value for name, value in stated.items() if value is not None})
        options.validate()
        return options


def option_fields(options: Iterable[Option]) -> dict[str, Any]:
    """Make pydantic's field definitions, with bounds and descriptions, of options that have a field.

    Returns:
        By name: annotation and field; None where a request does not choose.
    """
    fields: dict[str, Any] = {}
    for one in options:
        kind, allowed = Strings if one.is_text else one.type, one.range
        if allowed is not None:
            bounds: dict[str, Any] = {"ge": allowed.at_least, "gt": allowed.above, "le": allowed.at_most}
            kind = Annotated[
                kind, Field(**{name: bound for name, bound in bounds.items() if bound is not None})
            ]
        fields[one.field_name] = (kind | None, Field(None, description=one.help))
    return fields


TRANSLATE_SCHEMA = create_model(
    "TranslateFields",
    __base__=TranslateFields,
    __doc__="Fields of `POST /translate`: LibreTranslate's and ours. Unknown ones are ignored, so are nulls.",
    **option_fields((*FIELD_OPTIONS, *TEXT_OPTIONS)),
)


class DetectFields(BaseModel):
    """Fields of `POST /detect`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str = Field(description="Text whose language is wanted.", examples=["Where is the train station?"])
    api_key: str | None = Field(
        None, description="If the server wants one; the header `Authorization: Bearer` does it, too."
    )


class DetectedLanguage(BaseModel):
    """A guess of a text's language."""

    confidence: int = Field(ge=0, le=100)
    language: str = Field(description="Code, or `und` (undetermined) for a text of no served language.")


class AlignedWords(BaseModel):
    """A word of a text and one of its translation. A range is its first byte and the one behind its last."""

    source: tuple[int, int] = Field(description="Of the text in `q`.")
    target: tuple[int, int] = Field(description="Of `translatedText`.")
    weight: float = Field(ge=0, le=1, description="How sure the link is; 0 if position alone speaks for it.")


class Confident(BaseModel):
    """A part of a translation and how sure the model is of it."""

    target: tuple[int, int] = Field(description="Of `translatedText`, in bytes, the end excluded.")
    confidence: float = Field(ge=0, le=1)


class ConfidenceAnswer(BaseModel):
    """How sure the model is. What it did not write, such as protected parts, is left out."""

    sentences: list[Confident] = Field(description="The chrF to expect of each sentence, from 0 to 1.")
    words: list[Confident] = Field(description="Share of such words that stand in a reference translation.")


class LookAnswer(BaseModel):
    """Where the model looked in one run: a sentence of `translatedText`, or a clause of a long one."""

    target: tuple[int, int] = Field(description="The sentence.")
    sourcePieces: list[str] = Field(description="What it read; `▁` begins a word.")  # noqa: N815
    targetPieces: list[str] = Field(description="What it wrote.")  # noqa: N815
    weights: list[list[float]] = Field(description="For each target piece the share of each source piece.")


class TranslateAnswer(BaseModel):
    """Answer of `POST /translate`: plain values for one text, arrays in the same order for an array."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        None,
        description="Only if `source` is `auto`: of each text. `und` for one without words, or in letters of "
        "no served language; it comes back unchanged.",
    )
    alternatives: list[str] | list[list[str]] | None = Field(None, description="Only if asked for.")
    scores: list[float] | list[list[float]] | None = Field(
        None,
        description="Only if asked for: of the translation and each alternative, the mean over sentences.",
    )
    pivotLanguage: str | None = Field(  # noqa: N815
        None,
        description="Only if two models translated: the language between source and target. Alternatives, "
        "scores and decoding options are those of the second.",
    )
    warnings: list[str] | list[list[str]] | None = Field(
        None,
        description="Only if asked for: what the checks found in each translation and could not mend, such "
        "as `loop`; none of a text that came back unchanged.",
    )
    glossary: list[UsedTerm] | list[list[UsedTerm]] | None = Field(
        None, description="Only with a glossary: what became of each of its terms in the text."
    )
    confidence: ConfidenceAnswer | list[ConfidenceAnswer] | None = Field(
        None, description="Only if asked for: how sure the model is of each translation. Ranges count bytes."
    )
    alignments: list[AlignedWords] | list[list[AlignedWords]] | None = Field(
        None, description="Only if asked for: words of each translation and those that they stand for."
    )
    attention: list[LookAnswer] | list[list[LookAnswer]] | None = Field(
        None, description="Only if asked for: where the model looked, for each of its runs."
    )
    finishReason: str | list[str] | None = Field(  # noqa: N815
        None, description="Only with scores or if a translation is incomplete: `eos`, or `length` if cut."
    )


class LanguageAnswer(BaseModel):
    """One language of `GET /languages`."""

    code: str
    name: str
    targets: list[str]


class ErrorAnswer(BaseModel):
    """Body of every error."""

    error: str = Field(description="For a person.")
    code: str = Field(description="For a program.", examples=["invalid_request"])
    request_id: str


def read_translate_fields(fields: Mapping[str, Any], *, typed: bool) -> TranslateFields:
    """Validate the fields of a translation request.

    Args:
        fields: as parsed.
        typed: whether numbers must be numbers (JSON), or come as strings (form and query).

    Raises:
        InvalidRequestError: a field is missing or of the wrong type.
        InvalidOptionError: a decoding option is.
    """
    given = given_fields(fields, "q", typed=typed)
    alternatives = given.get("alternatives")
    if (
        isinstance(alternatives, str)
        and alternatives.isascii()
        and alternatives.isdigit()
        and len(alternatives) < 4
    ):
        given["alternatives"] = int(alternatives)  # LibreTranslate takes it as a string in JSON, too
    return validated(TRANSLATE_SCHEMA, given, typed=typed)


def read_detect_fields(fields: Mapping[str, Any], *, typed: bool) -> DetectFields:
    """Validate the fields of a detection request, as `read_translate_fields` does."""
    return validated(DetectFields, given_fields(fields, "q", typed=typed), typed=typed)


def validated(schema: type[M], given: Mapping[str, Any], *, typed: bool) -> M:
    """Make fields of what is given, or say what is wrong with it."""
    try:
        return schema.model_validate(given, strict=typed)
    except ValidationError as error:
        raise _explain(error) from None


def translate_answer(
    fields: TranslateFields, translation: Translation, explained: TextOptions | None = None
) -> dict[str, Any]:
    """Build what `TranslateAnswer` describes in the caller's shape, without what is not asked for.

    Args:
        fields: of the request.
        translation: its result.
        explained: what was asked for to explain it, if anything was.
    """
    texts = translation.texts
    answer: dict[str, Any] = {"translatedText": shaped(fields, [text.hypotheses[0] for text in texts])}
    if translation.detected:
        answer["detectedLanguage"] = shaped(
            fields, [{"confidence": one.confidence, "language": one.language} for one in translation.detected]
        )
    answer |= hypotheses_part(fields, texts)
    if fields.warnings:
        answer["warnings"] = shaped(fields, [list(text.warnings) for text in texts])
    if fields.glossary:
        answer["glossary"] = shaped(fields, [used_terms(text.terms) for text in texts])
    if explained:
        each = [fields_of(text.explanation, explained) for text in texts]
        answer |= {name: shaped(fields, [one[name] for one in each]) for name in each[0]}
    if translation.pivot is not None:
        answer["pivotLanguage"] = translation.pivot
    return answer | end_part(fields, texts)


def shaped(fields: DecodingFields, values: list[Any]) -> Any:
    """Give one value for a single text, all values for an array of them."""
    return values[0] if isinstance(fields.given_texts, str) else values


def hypotheses_part(fields: DecodingFields, texts: Sequence[TextTranslation]) -> dict[str, Any]:
    """Build what an answer says of further hypotheses and of scores, as far as the request asks."""
    answer = {}
    if (fields.wanted_hypotheses or 0) > 1:
        answer["alternatives"] = shaped(fields, [list(text.hypotheses[1:]) for text in texts])
    if fields.scores:
        answer["scores"] = shaped(fields, [[round(score, 6) for score in text.scores] for text in texts])
    return answer


def end_part(fields: DecodingFields, texts: Sequence[TextTranslation]) -> dict[str, Any]:
    """Build what an answer says of how texts ended: with scores, or if one was cut."""
    if not fields.scores and not any(map(_was_cut, texts)):
        return {}
    return {"finishReason": shaped(fields, [text.finish_reason for text in texts])}


def _was_cut(text: TextTranslation) -> bool:
    return text.finish_reason == "length"


def given_fields(fields: Mapping[str, Any], text: str, *, typed: bool) -> dict[str, Any]:
    """Leave out what is null or, in a form, was not filled in.

    Args:
        fields: as parsed.
        text: field of the text, which may be empty.
        typed: as for `read_translate_fields`.
    """
    # In a form, an empty field other than the text is one that was not filled in.
    return {
        name: value
        for name, value in fields.items()
        if value is not None and (typed or name == text or value != "")
    }


def _explain(error: ValidationError) -> InvalidRequestError:
    """Say what is wrong with the first bad field: its name and the rule, never its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field, *kind = map(str, first["loc"] or ("body",))
    if kind and field in ("q", "inputs", "features", "target_prefix", "protect"):
        message = f"{field} must be a string or an array of strings"
    else:
        message = f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return (InvalidOptionError if field in _OPTIONS else InvalidRequestError)(message)
