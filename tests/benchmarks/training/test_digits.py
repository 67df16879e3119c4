"""Rows of digits: what is drawn and how it is scored."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.training import digits
from model.features.files import read_features


def test_parts_share_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "_VARIANTS", 0)
    monkeypatch.setattr(digits, "PARTS", {"test": (300, 200), "dev": (200, 100), "train": (1_297, 600)})
    ended = CliRunner().invoke(digits.app, ["prepare", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    seen = {}
    for part in digits.PARTS:
        rows = read_features(tmp_path / f"{part}.npz")
        lines = (tmp_path / f"{part}.words").read_text().splitlines()
        seen[part] = set()
        for row, line in zip(rows, lines, strict=True):
            words = line.split()
            assert 2 <= len(words) <= 4
            assert 0 <= len(row) - 8 * len(words) <= 2 * len(words)
            seen[part] |= {row[start : start + 8].tobytes() for start in range(len(row) - 7)}
    blank_or_common = seen["train"] & seen["dev"] & seen["test"]
    assert not (seen["test"] - blank_or_common) & (seen["train"] - blank_or_common)


def test_a_varied_digit_is_still_a_picture() -> None:
    rng = np.random.default_rng(0)
    image = np.zeros((8, 8), np.float32)
    image[2:6, 3:5] = 1
    made = [digits.varied(image, rng) for _ in range(20)]
    assert all(one.shape == (8, 8) and one.min() >= 0 and one.max() <= 1 for one in made)
    assert all(one[2:6, 2:6].sum() > 0.6 * one.sum() for one in made)
    assert len({one.tobytes() for one in made}) == 20
