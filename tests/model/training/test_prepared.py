"""A run that is prepared on one machine and trained on another, and one that ends by the clock."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dragoman
from model.data.corpus import CorpusError
from model.training import trainer as module
from model.training.trainer import Trainer
from tests.support.toy_training import losses

AUGMENT = "\n[augment]\nmask_share = 0.5\njoin_share = 0.3\nvariants = 2\n"


def test_a_prepared_run_needs_no_training_text(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = recipe(max_updates=30, validate_every=15, average_checkpoints=0)
    file.write_text(file.read_text() + AUGMENT)
    Trainer(file, tmp_path / "whole", quiet=True).run()

    done = CliRunner().invoke(
        dragoman.app, ["train", str(file), "--out", str(tmp_path / "run"), "--prepare-only"]
    )
    assert done.exit_code == 0
    assert f"the run's directory: {tmp_path / 'run'}" in done.output
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"source.spm", "tokens", "augmented-00", "augmented-01"}
    (tmp_path / "train.en").rename(tmp_path / "moved.en")
    (tmp_path / "train.de").rename(tmp_path / "moved.de")
    Trainer(file, tmp_path / "run", quiet=True).run()
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    with pytest.raises(CorpusError, match=r"train\.en: no such file"):
        Trainer(file, tmp_path / "other", quiet=True)


def test_a_run_cools_down_in_time(
    recipe: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second passes with every update."""
    runs: list[Trainer] = []
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: runs[0].progress.update if runs else 0)})
    monkeypatch.setattr(module, "time", clock)
    file = recipe(
        max_updates=10_000, max_minutes=2, cooldown_updates=40, validate_every=50, average_checkpoints=0,
        schedule="constant",
    )  # fmt: skip
    run = Trainer(file, tmp_path / "run", quiet=True)
    runs.append(run)
    run.run()
    assert 115 <= run.progress.update <= 122
    assert run.progress.last_update == run.progress.update
    rates = [
        json.loads(line)["lr"]
        for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        if json.loads(line)["kind"] == "train"
    ]
    assert max(rates) == rates[3]
    assert rates[-1] < rates[3]
    again = Trainer(file, tmp_path / "run", quiet=True)  # is at its end
    assert again._last_update == run.progress.update


def test_the_recipe_names_the_directory(
    recipe: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recipe(max_updates=1)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(dragoman.app, ["train", str(file.name), "--prepare-only"])
    assert "the run's directory: runs/recipe" in done.output
    assert (tmp_path / "runs/recipe/tokens/index.json").exists()
    help_text = " ".join(CliRunner().invoke(dragoman.app, ["train", "--help"]).output.split())
    assert "runs/ and the recipe file's name without .toml" in help_text
