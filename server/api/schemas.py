"""The JSON that comes in and goes out, as pydantic models; also the source of the OpenAPI document."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.errors import InvalidOptionError, InvalidRequestError
from server.service.text.codec import TextTranslation
from server.service.translation.request import DecodingWishes, Translation

Natural = Annotated[int, Field(ge=0, le=1_000_000)]
_BAD_Q = "q must be a string or an array of strings"
_PASSED_ON = (
    "beam_size",
    "length_penalty",
    "max_decoding_length",
    "min_decoding_length",
    "patience",
    "early_stopping",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "sampling_topk",
    "sampling_topp",
    "sampling_temperature",
    "seed",
)
_OPTIONS = frozenset({*_PASSED_ON, "alternatives", "num_hypotheses", "scores", "target_prefix"})


class TranslateFields(BaseModel):
    """Fields of `POST /translate`: LibreTranslate's and ours. Unknown ones are ignored, so are nulls."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    q: str | list[str] = Field(
        description="Text, or array of texts, to translate.", examples=["Where is the train station?"]
    )
    source: str = Field(description="Language code of the text, or `auto`.", examples=["en"])
    target: str = Field(description="Language code to translate to.", examples=["de"])
    format: Literal["text", "html"] = Field("text", description="`html` keeps tags in place.")
    alternatives: Natural = Field(0, description="Further translations wanted for each text.")
    api_key: str | None = Field(
        None, description="If the server wants one; the header `Authorization: Bearer` does it, too."
    )
    beam_size: Natural | None = Field(None, description="Hypotheses kept at each step; 1 is greedy search.")
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = Field(
        None, description="Exponent of the length by which a hypothesis' log-probability is divided."
    )
    num_hypotheses: Natural | None = Field(None, description="The same as `alternatives` + 1.")
    max_decoding_length: Natural | None = Field(
        None, description="Target tokens after which a sentence ends."
    )
    min_decoding_length: Natural | None = Field(None, description="Target tokens before which none ends.")
    scores: bool = Field(False, description="Whether to answer the score of each translation.")
    patience: Annotated[float, Field(gt=0, le=10)] | None = Field(
        None, description="Beam search goes on until `beam_size` times this many hypotheses have ended."
    )
    early_stopping: bool | Literal["never"] | None = Field(
        None, description="Search as transformers' `generate` does with this value, not as CTranslate2 does."
    )
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10)] | None = Field(
        None, description="Factor against tokens that the translation already has; 1 is none."
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="Sequences of so many tokens occur only once; 0 allows all."
    )
    target_prefix: str | list[str] | None = Field(
        None,
        description="What the translation begins with; for an array of texts also an array.",
    )
    sampling_topk: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Draw each token from so many best ones; 1 takes the best, 0 draws from all."
    )
    sampling_topp: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Of these, draw from the fewest that have this probability together."
    )
    sampling_temperature: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None, description="Divides scores before drawing; 0 takes the best."
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = Field(
        None, description="The same seed draws the same translation of a sentence."
    )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, be it one or several."""
        return (self.q,) if isinstance(self.q, str) else tuple(self.q)

    def wishes(self) -> DecodingWishes:
        """Collect the decoding options.

        Raises:
            InvalidOptionError: options contradict each other, or one is out of range.
        """
        for name in ("num_hypotheses", "beam_size", "max_decoding_length"):
            if getattr(self, name) == 0:
                raise InvalidOptionError(f"{name} must be at least 1")
        hypotheses = self.alternatives + 1
        if self.num_hypotheses is not None:
            if self.alternatives and self.num_hypotheses != hypotheses:
                raise InvalidOptionError("num_hypotheses is not alternatives + 1; give only one of them")
            hypotheses = self.num_hypotheses
        return DecodingWishes(
            num_hypotheses=hypotheses,
            return_scores=self.scores,
            target_prefixes=self._target_prefixes(),
            **{name: getattr(self, name) for name in _PASSED_ON},
        )

    def _target_prefixes(self) -> tuple[str, ...]:
        if not self.target_prefix:
            return ()
        if isinstance(self.target_prefix, str):
            return (self.target_prefix,) * len(self.texts)
        if isinstance(self.q, str) or len(self.target_prefix) != len(self.q):
            raise InvalidOptionError(
                "target_prefix must be a string, or an array with one for each text of q"
            )
        return tuple(self.target_prefix)


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
    language: str


class TranslateAnswer(BaseModel):
    """Answer of `POST /translate`: plain values for one text, arrays in the same order for an array."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        None, description="Only if `source` is `auto`."
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
    finishReason: str | list[str] | None = Field(  # noqa: N815
        None,
        description="Only with scores or if a translation is incomplete: `eos`, or `length` if it was cut.",
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
    given = _given(fields, typed=typed)
    if isinstance(given.get("q"), list) and not all(isinstance(text, str) for text in given["q"]):
        raise InvalidRequestError(_BAD_Q)  # pydantic would describe each of a million wrong items
    alternatives = given.get("alternatives")
    if (
        isinstance(alternatives, str)
        and alternatives.isascii()
        and alternatives.isdigit()
        and len(alternatives) < 4
    ):
        given["alternatives"] = int(alternatives)  # LibreTranslate takes it as a string in JSON, too
    try:
        return TranslateFields.model_validate(given, strict=typed)
    except ValidationError as error:
        raise _explain(error) from None


def read_detect_fields(fields: Mapping[str, Any], *, typed: bool) -> DetectFields:
    """Validate the fields of a detection request.

    Args:
        fields: as parsed.
        typed: as for `read_translate_fields`.

    Raises:
        InvalidRequestError: a field is missing or of the wrong type.
    """
    try:
        return DetectFields.model_validate(_given(fields, typed=typed), strict=typed)
    except ValidationError as error:
        raise _explain(error) from None


def translate_answer(fields: TranslateFields, translation: Translation) -> dict[str, Any]:
    """Build the answer in the caller's shape.

    Args:
        fields: of the request.
        translation: its result.

    Returns:
        What `TranslateAnswer` describes, without the fields that are not asked for.
    """
    texts = translation.texts

    def shaped(values: list[Any]) -> Any:
        return values[0] if isinstance(fields.q, str) else values

    answer: dict[str, Any] = {"translatedText": shaped([text.hypotheses[0] for text in texts])}
    if translation.detected is not None:
        found = {"confidence": translation.detected.confidence, "language": translation.detected.language}
        answer["detectedLanguage"] = shaped([found] * len(texts))
    if fields.alternatives or (fields.num_hypotheses or 0) > 1:
        answer["alternatives"] = shaped([list(text.hypotheses[1:]) for text in texts])
    if fields.scores:
        answer["scores"] = shaped([[round(score, 6) for score in text.scores] for text in texts])
    if translation.pivot is not None:
        answer["pivotLanguage"] = translation.pivot
    if fields.scores or any(map(_was_cut, texts)):
        answer["finishReason"] = shaped([text.finish_reason for text in texts])
    return answer


def _was_cut(text: TextTranslation) -> bool:
    return text.finish_reason == "length"


def _given(fields: Mapping[str, Any], *, typed: bool) -> dict[str, Any]:
    # In a form, an empty field other than the text is one that was not filled in.
    return {
        name: value
        for name, value in fields.items()
        if value is not None and (typed or name == "q" or value != "")
    }


def _explain(error: ValidationError) -> InvalidRequestError:
    """Say what is wrong with the first bad field: its name and the rule, never its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "body"
    if field == "q" and first["type"] != "missing":
        message = _BAD_Q
    else:
        message = f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return (InvalidOptionError if field in _OPTIONS else InvalidRequestError)(message)
