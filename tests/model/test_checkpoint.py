"""Directories that replace what was there."""

import json
from pathlib import Path

import pytest

from model.checkpoint import put_in_place, start_aside, write_directory


@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_what_was_there_is_replaced_whatever_it_was(tmp_path: Path, kind: str) -> None:
    real, out = tmp_path / "real", tmp_path / "out"
    (tmp_path / ".real.old").symlink_to(tmp_path)  # as a killed command may leave
    if kind == "file":
        real.write_text("old", encoding="utf-8")
    else:
        real.mkdir()
    if kind == "link":
        out.symlink_to("real")
    else:
        out = real
    aside = start_aside(out)
    (aside / "new").touch()
    put_in_place(aside, out)
    assert out.is_symlink() == (kind == "link")
    assert [path.name for path in real.iterdir()] == ["new"]
    assert {path.name for path in tmp_path.iterdir()} == {"real", out.name}


@pytest.mark.parametrize("kind", ["nothing", "directory", "link", "file"])
def test_a_checkpoint_replaces_what_was_there_whatever_it_was(tmp_path: Path, kind: str) -> None:
    real, out = tmp_path / "real", tmp_path / "real"
    if kind == "file":
        real.write_text("old", encoding="utf-8")
    elif kind != "nothing":
        real.mkdir()
    if kind == "link":
        out = tmp_path / "out"
        out.symlink_to("real")
    write_directory(out, {}, {"config.json": json.dumps("new")})
    assert out.is_symlink() == (kind == "link")
    assert [path.name for path in real.iterdir()] == ["config.json"]
    assert {path.name for path in tmp_path.iterdir()} == {"real", out.name}
