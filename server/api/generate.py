"""`POST /generate`: texts for a model of another task than translation."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field, create_model
from starlette.requests import Request
from starlette.responses import Response

from server.api.body import Fields
from server.api.schemas import (
    FIELD_OPTIONS,
    DecodingFields,
    Strings,
    end_part,
    given_fields,
    hypotheses_part,
    option_fields,
    shaped,
    validated,
)
from server.api.translate import ERRORS, Asked, TextEndpoint, documented
from server.errors import InvalidRequestError
from server.http.request_record import RequestRecord
from server.service.translation.request import Translation, TranslationRequest

GENERATE_PATH = "/generate"


class GenerateFields(DecodingFields):
    """Fields of `POST /generate`. Unknown ones are ignored, so are nulls.

    `GENERATE_SCHEMA` has one more for each option of decoding.
    """

    inputs: Strings | None = Field(
        None,
        description="Text, or array of texts, for the model; each is read whole.",
        examples=["photograph"],
    )
    features: Strings | None = Field(
        None,
        description="Instead of `inputs`, for a model whose `source_features` in `GET /models` is not 0: a "
        "sequence of feature vectors of that size, or an array of sequences. Each is a .npy file in base64, "
        "of shape [length, size], little-endian floats in C order.",
    )
    model: str | None = Field(
        None, description="Name of the model, as `GET /models` shows it; may be left out if one is served."
    )

    @property
    def given_texts(self) -> str | list[str]:
        """The texts, be it one or several."""
        given = self.inputs if self.features is None else self.features
        return [] if given is None else given


GENERATE_SCHEMA = create_model(
    "GenerateFields",
    __base__=GenerateFields,
    __doc__="Fields of `POST /generate`. Unknown ones are ignored, so are nulls.",
    **option_fields(FIELD_OPTIONS),
)


class GenerateAnswer(BaseModel):
    """Answer of `POST /generate`: plain values for one text, arrays in the same order for an array."""

    outputs: str | list[str]
    model: str = Field(description="Name of the model that answered.")
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="Only if `num_hypotheses` asks for more than one: the others, best first."
    )
    scores: list[float] | list[list[float]] | None = Field(
        None, description="Only if asked for: of the output and each alternative."
    )
    finishReason: str | list[str] | None = Field(  # noqa: N815
        None,
        description="Only with scores or if an output is incomplete: `eos`, or `length` if it was cut.",
    )


def read_generate_fields(fields: Mapping[str, Any], *, typed: bool) -> GenerateFields:
    """Validate the fields of a request, as `read_translate_fields` does."""
    # A text may be empty; beside features, it is a field of a form that was not filled in.
    given = given_fields(fields, "features" if fields.get("features") else "inputs", typed=typed)
    if len({"inputs", "features"} & given.keys()) != 1:
        raise InvalidRequestError(
            "inputs and features: give one of them" if "inputs" in given else "inputs: field required"
        )
    return validated(GENERATE_SCHEMA, given, typed=typed)


class GenerateEndpoint(TextEndpoint):
    """Answers `POST /generate`. Used from the event loop."""

    def ask(
        self, given: Fields, record: RequestRecord, request_id: str, deadline_s: float, *, typed: bool
    ) -> Asked:
        """Read the fields of a request, and find its model."""
        fields = read_generate_fields(given, typed=typed)
        slot = self.router.find_generator(fields.model)
        name = slot.model.manifest.name
        record.model = name
        # The languages are the model's.
        job = TranslationRequest(
            request_id,
            fields.texts,
            "",
            "",
            deadline_s,
            fields.requested_options(),
            are_features=fields.features is not None,
        )
        return Asked(
            job, lambda: self.router.generate(job, slot), lambda found: generate_answer(fields, found, name)
        )


def generate_answer(fields: GenerateFields, generation: Translation, model: str) -> dict[str, Any]:
    """Build what `GenerateAnswer` describes in the caller's shape, without what is not asked for."""
    texts = generation.texts
    outputs = shaped(fields, [text.hypotheses[0] for text in texts])
    return {"outputs": outputs, "model": model} | hypotheses_part(fields, texts) | end_part(fields, texts)


def generate_routes(endpoint: GenerateEndpoint) -> APIRouter:
    """Build the route, which FastAPI documents."""
    routes = APIRouter(tags=["generate"])

    @routes.post(
        GENERATE_PATH,
        summary="Give texts, or features, to a model of another task than translation",
        response_model=GenerateAnswer,
        responses=ERRORS,
        openapi_extra=documented(GENERATE_SCHEMA),
    )
    async def generate(request: Request) -> Response:
        """JSON, urlencoded form or query string; decoding options as in `POST /translate`."""
        return await endpoint.answer(request.scope, request.receive)

    return routes
