"""A checkpoint as teacher: a line for each line, and the reference where it fails."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dragoman
from model.evaluation.evaluation import checkpoint_translator
from model.training.trainer import Trainer
from tests.support.toy_training import write_corpus, write_recipe


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    file = write_recipe(tmp_path, max_updates=150, validate_every=150, average_checkpoints=0)
    return Trainer(file, tmp_path / "run", quiet=True).run()


@pytest.fixture
def taught(checkpoint: Path) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        done = CliRunner().invoke(dragoman.app, ["distill", str(checkpoint), *map(str, arguments)])
        return done.output

    return run


def test_every_line_is_translated_or_has_its_reference(
    checkpoint: Path, taught: Callable[..., str], tmp_path: Path
) -> None:
    lines = (tmp_path / "dev.en").read_text().splitlines()
    lines[3] = "cat " * 60  # longer than the model reads
    references = (tmp_path / "dev.de").read_text().splitlines()
    references[5] = "x"  # beside it every translation has run away
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "reference").write_text("".join(f"{line}\n" for line in references))
    found = taught("--source", tmp_path / "source", "--reference", tmp_path / "reference").splitlines()
    assert len(found) == len(lines)
    assert found[3] == references[3]
    short = [line for number, line in enumerate(lines) if number != 3]
    expected = checkpoint_translator(checkpoint)(short)
    same = [one == two for one, two in zip(found[:3] + found[4:], expected, strict=True)]
    assert sum(same) > 0.8 * len(same)


def test_what_is_missing_is_named(taught: Callable[..., str], tmp_path: Path) -> None:
    assert "give the text it is to translate with --source" in taught("--reference", tmp_path / "dev.de")
    (tmp_path / "short").write_text("das\n")
    output = taught("--source", tmp_path / "dev.en", "--reference", tmp_path / "short")
    assert "differ in their number of lines" in output
