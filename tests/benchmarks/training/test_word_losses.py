"""A student in two of the ways, on a few words of the shipped model's task."""

import gzip
from pathlib import Path

import pytest

from benchmarks.training import word_losses
from export.recovery.from_bundle import recover_checkpoint

WORDS = {"red": "R EH D", "tree": "T R IY", "bat": "B AE T", "cab": "K AE B", "dim": "D IH M"}


def test_each_student_is_trained_once_and_scored(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "dev", "test"):
        for side, lines in (("words", WORDS), ("phonemes", WORDS.values())):
            with gzip.open(tmp_path / f"{part}.{side}.gz", "wt") as file:
                file.writelines(f"{line}\n" for line in lines)
    teacher = tmp_path / "teacher"
    recover_checkpoint(repository / "bundles/tasks/g2p", teacher)
    rows = {name: how for name, how in word_losses.ROWS.items() if name.endswith(("text", "distribution"))}
    monkeypatch.setattr(word_losses, "ROWS", rows)

    word_losses.main(teacher, tmp_path, tmp_path / "runs", updates=2)
    first = capsys.readouterr().out
    shown = [line.split(" | ")[0].removeprefix("| ") for line in first.splitlines() if line.startswith("|")]
    assert shown[2:] == ["(the teacher)", *rows]
    with gzip.open(tmp_path / "runs/train.outputs.gz", "rt") as lines:
        assert [line.strip() for line in lines] == list(WORDS.values())

    word_losses.main(teacher, tmp_path, tmp_path / "runs", updates=2)
    assert capsys.readouterr().out.splitlines()[-4:] == first.splitlines()[-4:]
