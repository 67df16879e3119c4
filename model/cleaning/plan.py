"""What `dragoman corpus` makes, described in one TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from model.recipe import LANGUAGE

_NAME = r"^[a-z0-9][a-z0-9.-]*$"


class PlanError(ValueError):
    """A plan cannot be used; the message names the file, the setting and what is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceText(_Section):
    """Parallel text; paths are relative to the plan's folder. Several files a side are joined, in step."""

    name: str = Field(default="", pattern=f"^$|{_NAME}", description="origin of all of its lines")
    first: list[Path] = Field(min_length=1, description="files of the first language")
    second: list[Path] = Field(min_length=1, description="files of the second, line by line")
    origins: Path | None = Field(
        default=None, description="file with the origin of each line, instead of name"
    )
    leave_out: list[str] = Field(
        default_factory=list, description="origins not wanted: patterns such as ms-*"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> SourceText:
        if bool(self.name) == (self.origins is not None):
            raise PydanticCustomError("origin", "needs either a name or a file of origins")
        return self

    @model_validator(mode="after")
    def _in_step(self) -> SourceText:
        if len(self.first) != len(self.second):
            raise PydanticCustomError("files", "needs a file of second for each of first")
        return self


class HeldOut(_Section):
    """Text that no training line may share a sentence with: dev and test sets."""

    first: list[Path] = Field(min_length=1)
    second: list[Path] = Field(min_length=1)


class Filters(_Section):
    """Which pairs are left out; every filter can be turned off."""

    max_words: int = Field(default=120, gt=0, description="on either side")
    max_characters: int = Field(default=800, gt=0, description="on either side")
    max_ratio: float = Field(default=2.5, gt=1, description="of the sides' lengths in characters")
    language: bool = Field(default=True, description="sides of 40 letters or more are in their language")
    numbers: bool = Field(default=True, description="numbers of three digits or more are the same")
    placeholders: bool = Field(default=True, description="{name}, %s and tags are the same on both sides")
    near_duplicates: float = Field(
        default=0.8, ge=0, le=1, description="likeness from which the later pair is left out; 0 keeps all"
    )


class CorpusPlan(_Section):
    """Everything `dragoman corpus` needs."""

    languages: tuple[Annotated[str, Field(pattern=LANGUAGE)], Annotated[str, Field(pattern=LANGUAGE)]]
    sources: list[SourceText] = Field(min_length=1)
    held_out: list[HeldOut] = Field(default_factory=list)
    filters: Filters = Filters()

    @field_validator("languages")
    @classmethod
    def _two_languages(cls, languages: tuple[str, str]) -> tuple[str, str]:
        if languages[0] == languages[1]:
            raise PydanticCustomError("languages", "the two must differ: files are named after them")
        return languages

    def relative_to(self, folder: Path) -> CorpusPlan:
        """Resolve the paths against the folder of the plan."""
        sources = [
            text.model_copy(
                update={
                    "first": [folder / path for path in text.first],
                    "second": [folder / path for path in text.second],
                    "origins": None if text.origins is None else folder / text.origins,
                }
            )
            for text in self.sources
        ]
        held_out = [
            HeldOut(
                first=[folder / path for path in text.first], second=[folder / path for path in text.second]
            )
            for text in self.held_out
        ]
        return self.model_copy(update={"sources": sources, "held_out": held_out})


def load_plan(path: Path) -> CorpusPlan:
    """Read and check a plan; its paths come back resolved.

    Raises:
        PlanError: no readable file, not TOML, or a setting that is unknown or out of range.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return CorpusPlan.model_validate(values).relative_to(path.parent)
    except FileNotFoundError:
        raise PlanError(f"{path}: no such plan") from None
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(f"{path}: {where}: {first['msg']}") from None
