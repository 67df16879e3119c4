"""The docs name functions, files, targets and settings that exist."""

import importlib
import re
from pathlib import Path

import pytest

from server.settings import Settings

ARCHITECTURE = Path(__file__).resolve().parent.parent / "docs/architecture.md"
DOTTED = re.compile(r"`((?:model|export|server|dragoman)(?:\.\w+)+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# Put into the tree by hand, with the model.
SHIPPED = "bundles/"


def named() -> list[str]:
    """Every dotted name in the architecture page."""
    return sorted(set(DOTTED.findall(ARCHITECTURE.read_text(encoding="utf-8"))))


def pages(root: Path) -> list[Path]:
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def find(name: str) -> object:
    """Import the longest prefix of `name` that is a module, and look the rest up in it."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", [name for name in named() if name != "dragoman.py"])
def test_architecture_names_what_exists(name: str) -> None:
    assert find(name)


def test_architecture_tells_a_request_in_numbered_steps() -> None:
    life = ARCHITECTURE.read_text(encoding="utf-8").partition("## A request's life")[2].partition("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", life, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 8


def test_links_lead_somewhere(repository: Path) -> None:
    broken = [
        f"{page.name}: {target}"
        for page in pages(repository)
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists() and SHIPPED not in target
    ]
    assert broken == []


def test_make_targets_in_the_docs_exist(repository: Path) -> None:
    targets = set(
        re.findall(r"^([a-z]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for page in pages(repository):
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:^\$ |`)make ([a-z]+)", text, re.MULTILINE)) <= targets, page.name


def written(value: object) -> str:
    """A default as the page writes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_operations_lists_every_setting_with_its_default(repository: Path) -> None:
    text = (repository / "docs/operations.md").read_text(encoding="utf-8")
    stated = {}
    for names, defaults in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*) \|", text, re.MULTILINE):
        stated |= dict(zip(re.findall(r"\w+", names), defaults.strip().split(", "), strict=True))
    real = {name: field.default for name, field in Settings.model_fields.items()}
    assert stated == {name: written(value) for name, value in real.items()}
