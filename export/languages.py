"""Directions and languages of a bundle, and the ids that ask for them. A leaf, as `export.manifest` is."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

TokenId = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(gt=0)]
BeamWidth = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,2}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Part(BaseModel):
    """A part of a manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Framing(NamedTuple):
    """Ids around a sentence of one direction: the encoder reads prefix, pieces and suffix."""

    source_prefix: tuple[int, ...]
    source_suffix: tuple[int, ...]
    target_prefix: tuple[int, ...]
    """Every target begins with them."""


class Framed(Part):
    """Ids around the sentences of a direction or a language."""

    source_prefix_ids: tuple[TokenId, ...] = Field(
        default=(), description="the encoder reads them after special_tokens.source_prefix_ids"
    )
    source_suffix_ids: tuple[TokenId, ...] = Field(
        default=(), description="the encoder reads them after special_tokens.source_suffix_ids"
    )
    target_prefix_ids: tuple[TokenId, ...] = Field(
        default=(), description="every target begins with them, after special_tokens.target_prefix_ids"
    )


class Direction(Framed):
    """One translation direction, as language codes; a multilingual model is told which by ids."""

    source: str = Field(min_length=1, max_length=40)
    target: str = Field(min_length=1, max_length=40)

    @property
    def name(self) -> str:
        """The two languages: ``en-de``."""
        return f"{self.source}-{self.target}"


class Language(Framed):
    """A language of a model that translates each of its languages into every other.

    The ids are those of a ``Direction``: the first two of one from this language, the last of one to it.
    """

    code: str = Field(min_length=1, max_length=40)
