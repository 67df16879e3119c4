"""What an importer finds out about a model's text: how it becomes ids, and which ids ask for a language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from export.convert.huggingface_files import HuggingFaceError
from export.manifest import refusal
from model.checkpoint import Direction, Language

_CODE = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class ImportNames:
    """What a directory may not say of itself; None takes what it says.

    Attributes:
        name: of the model.
        sources: language codes it translates from.
        targets: language codes it translates to; ``fr=fra`` calls the vocabulary's ``>>fra<<`` fr.
        prompt: text that goes before every source, as T5 expects it.
        task: what the model does.
    """

    name: str | None = None
    sources: Sequence[str] | None = None
    targets: Sequence[str] | None = None
    prompt: str | None = None
    task: str | None = None

    def check(self) -> None:
        """Refuse at once what no manifest could state.

        Raises:
            HuggingFaceError: the name, the task or a code is odd.
        """
        given = {"name": self.name, "task": self.task}
        if reason := refusal({field: value for field, value in given.items() if value is not None}):
            raise HuggingFaceError(f"--{reason}")
        for code in (*(self.sources or ()), *(self.targets or ())):
            if not _CODE.fullmatch(code.partition("=")[0]):
                raise HuggingFaceError(f"--source, --target: {ascii(code)[:60]} is not a language code")


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizer of an imported model, and its languages.

    Attributes:
        kind: of the tokenizer's files.
        joint: whether both sides have one list of ids.
        files: name in the checkpoint to what is copied or written there.
        unk_id: of the target side.
        source_prefix_ids: before every source, whatever its language.
        source_suffix_ids: after it.
        task: what models of this kind do, unless the importer says something else.
        directions: the first one first; none if there are ``languages``.
        languages: of a model that translates each into every other.
    """

    kind: Literal["sentencepiece", "marian", "byte_level"]
    joint: bool
    files: Mapping[str, Path | bytes]
    unk_id: int
    source_prefix_ids: list[int] = field(default_factory=list)
    source_suffix_ids: list[int] = field(default_factory=list)
    task: str = "translation"
    directions: list[Direction] = field(default_factory=list)
    languages: list[Language] = field(default_factory=list)


def refuse_prompt(directory: Path, names: ImportNames) -> None:
    """Refuse a prompt for a model of a kind that is not asked by one.

    Raises:
        HuggingFaceError: there is one.
    """
    if names.prompt is not None:
        raise HuggingFaceError(f"{directory}: --prompt is for T5 and its kin, and this is none; leave it out")


def one_direction(
    directory: Path,
    source: str | None,
    target: str | None,
    names: ImportNames,
    task: str = "translation",
) -> Direction:
    """Give the direction of a model of two languages, as it or its importer says.

    Args:
        directory: of the model, for messages.
        source: what the model says.
        target: likewise.
        names: what its importer says.
        task: what models of this kind do; another one than translation may leave the languages open.

    Raises:
        HuggingFaceError: nobody says, or there are several.
    """
    if (names.task or task) != "translation":
        source, target = source or "und", target or "und"
    sources = names.sources or ([source] if source else [])
    targets = names.targets or ([target] if target else [])
    if len(sources) != 1 or len(targets) != 1:
        raise HuggingFaceError(
            f"{directory}: does not name its two languages; give one --source and one --target"
        )
    for code in (*sources, *targets):
        if not _CODE.fullmatch(code):
            raise HuggingFaceError(f"{directory}: {ascii(code)[:60]} is not a language code")
    return Direction(source=sources[0], target=targets[0])


def usable_name(directory: Path) -> str:
    """Name a model after its directory; a snapshot of the hub lies in one called after a commit."""
    path = directory.resolve()
    if path.parent.name == "snapshots":
        path = Path(path.parent.parent.name.split("--")[-1])
    name = re.sub(r"[^A-Za-z0-9._-]", "-", path.name).lstrip("._-")[:100]
    return name or "imported"
