"""Directories that replace what was there."""

from pathlib import Path

import pytest

from model.checkpoint import CheckpointError, replacing, write_directory


@pytest.mark.parametrize("kind", ["nothing", "directory", "link", "file"])
def test_a_checkpoint_replaces_what_was_there_whatever_it_was(tmp_path: Path, kind: str) -> None:
    real, out = tmp_path / "real", tmp_path / "real"
    (tmp_path / ".real.old").symlink_to(tmp_path)  # as a killed command may leave
    if kind == "file":
        real.write_text("old", encoding="utf-8")
    elif kind != "nothing":
        write_directory(real, {}, {"config.json": "old", "more": "old"})
    if kind == "link":
        out = tmp_path / "out"
        out.symlink_to("real")
    write_directory(out, {}, {"config.json": "new"})
    assert out.is_symlink() == (kind == "link")
    assert [path.name for path in real.iterdir()] == ["config.json"]
    assert {path.name for path in tmp_path.iterdir()} - {".real.old"} == {"real", out.name}


def test_a_link_that_is_switched_meanwhile_keeps_what_it_leads_to_now(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_directory(tmp_path / name, {}, {"config.json": name})
    link = tmp_path / "link"
    link.symlink_to("one")
    with replacing(link) as aside:
        (aside / "config.json").write_text("new", encoding="utf-8")
        link.unlink()
        link.symlink_to("two")
    texts = [(tmp_path / name / "config.json").read_text(encoding="utf-8") for name in ("one", "two")]
    assert texts == ["new", "two"]


@pytest.mark.parametrize("out", [".", "..", "link"])
def test_what_dragoman_did_not_write_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    (tmp_path / "here").mkdir()
    for folder in (tmp_path, tmp_path / "here"):
        (folder / "notes.txt").touch()
    monkeypatch.chdir(tmp_path / "here")
    Path("link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match="is there and neither a checkpoint nor a bundle"):
        write_directory(Path(out), {}, {"config.json": "new"})
    assert sorted(tmp_path.rglob("*")) == before


def test_what_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    write_directory(tmp_path / "real", {}, {"config.json": "old"})
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "real") as aside:
        (aside / "config.json").touch()
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["real"]
    assert (tmp_path / "real" / "config.json").read_text(encoding="utf-8") == "old"
