"""docs/reliability.md names tests that exist, and leaves no row out."""

import ast
import re
from functools import cache
from pathlib import Path

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PROMISES, INPUTS = 30, 64
CASES = Path("tests/e2e/wire/test_bad_inputs.py")
CASE_TEST = "test_a_bad_input_has_a_defined_answer"


@cache
def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def section(root: Path, title: str) -> list[list[str]]:
    """Cells of the rows of a section's table."""
    text = (root / "docs/reliability.md").read_text(encoding="utf-8")
    lines = text.partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def numbers(rows: list[list[str]]) -> list[int]:
    return [int(number) for row in rows for number in row[0].split(", ")]


def test_every_row_is_there_once(repository: Path) -> None:
    assert numbers(section(repository, "Promises")) == list(range(1, PROMISES + 1))
    assert sorted(numbers(section(repository, "Bad input"))) == list(range(1, INPUTS + 1))
    assert len(section(repository, "Mechanics")) >= 9


def test_every_named_test_exists(repository: Path) -> None:
    for title in ("Promises", "Mechanics", "Bad input"):
        for row in section(repository, title):
            named = NAMED.findall(row[-1])
            assert named, row
            assert len(named) == row[-1].count("::"), row
            missing = [name for file, name in named if name not in functions_of(repository / file)]
            assert missing == [], row


def test_inputs_of_the_table_are_cases_of_the_suite(repository: Path) -> None:
    """A row that points to the table of cases has one with its number."""
    names = re.findall(r'\w+\(\s*f?"(\d+) ', (repository / CASES).read_text(encoding="utf-8"))
    for row in section(repository, "Bad input"):
        if CASE_TEST in row[-1] and row[-1].count("::") == 1:
            assert [number for number in row[0].split(", ") if number not in names] == [], row
