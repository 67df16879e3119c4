"""The field `glossary` of a request, and what an answer says of it."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from server.errors import InvalidOptionError
from server.service.text.glossary.enforcement import TermUse
from server.service.text.glossary.entries import Glossary, make_entry
from server.service.text.glossary.files import first_twice

MAX_INLINE_ENTRIES = 100


class InlineEntry(BaseModel):
    """A term of a glossary that is part of the request."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    source: str = Field(description="The term.", examples=["board"])
    target: str = Field(description="Its translation.", examples=["Platine"])
    forms: list[str] = Field(
        [], description="Other translations that are as good, such as inflected forms.", fail_fast=True
    )


def _check_count(given: object) -> object:
    if isinstance(given, dict | list) and len(given) > MAX_INLINE_ENTRIES:
        raise InvalidOptionError(
            f"glossary has {len(given)} entries; the most is {MAX_INLINE_ENTRIES}, a file may have more"
        )
    return given


# Counted before pydantic looks: it would describe each of a million wrong entries.
InlineGlossary = Annotated[str | dict[str, str] | list[InlineEntry], BeforeValidator(_check_count)]
"""The name of a glossary, translations by term, or entries."""


class UsedTerm(BaseModel):
    """What became of a term."""

    term: str = Field(description="As the glossary has it.")
    target: str = Field(description="Its translation, likewise.")
    satisfied: bool = Field(description="Whether the translation has it wherever the text has the term.")


def read_glossary(given: InlineGlossary) -> str | Glossary | None:
    """Read the field of a request: a name, or the entries; None without any.

    Raises:
        InvalidOptionError: an entry is none; the message says which, without any of its text.
    """
    if isinstance(given, str):
        return given
    rows = (
        [(source, target, ()) for source, target in given.items()]
        if isinstance(given, Mapping)
        else [(one.source, one.target, tuple(one.forms)) for one in given]
    )
    entries = []
    for number, row in enumerate(rows, start=1):
        try:
            entries.append(make_entry(*row))
        except ValueError as error:
            raise InvalidOptionError(f"glossary: entry {number}: {error}") from None
    if twice := first_twice(entries):
        raise InvalidOptionError(f"glossary: entries {twice[0] + 1} and {twice[1] + 1} have the same source")
    return Glossary(entries) if entries else None


def used_terms(terms: Sequence[TermUse]) -> list[dict[str, object]]:
    """Say what became of the terms of a text, each entry once, as `UsedTerm` describes."""
    return [
        {"term": use.entry.source, "target": use.entry.target, "satisfied": use.satisfied} for use in terms
    ]
