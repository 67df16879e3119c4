"""Requests name glossaries that were loaded; a bad folder changes nothing."""

from pathlib import Path

import pytest

from server.errors import GlossaryRefusedError, InvalidOptionError
from server.service.text.glossary.store import GlossaryStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tech.en-de.tsv").write_text("board\tPlatine\n", encoding="utf-8")
    return tmp_path


def target(store: GlossaryStore) -> str | None:
    glossary = store.find("tech", "en", "de")
    return glossary and glossary.entries[0].target


def test_codes_are_compared_without_case(folder: Path) -> None:
    (folder / "tech.en-pt-BR.tsv").write_text("board\tplaca\n", encoding="utf-8")
    store = GlossaryStore(folder)
    assert store.find("tech", "EN", "pt_br") is not None
    with pytest.raises(InvalidOptionError, match="none of this name"):
        store.find("Tech", "en", "de")


def test_a_reload_reads_what_is_there_now(folder: Path) -> None:
    store = GlossaryStore(folder)
    (folder / "tech.en-de.tsv").write_text("board\tBrett\n", encoding="utf-8")
    assert target(store) == "Platine"
    store.reload()
    assert target(store) == "Brett"
    (folder / "tech.en-de.tsv").write_text("board", encoding="utf-8")
    with pytest.raises(GlossaryRefusedError):
        store.reload()
    assert target(store) == "Brett"


def test_a_name_is_no_path(folder: Path) -> None:
    store = GlossaryStore(folder)
    for name in ("../tech", "/etc/passwd", "tech.en-de.tsv", "", "\0"):
        with pytest.raises(InvalidOptionError, match="none of this name"):
            store.find(name, "en", "de")


def test_a_pair_that_it_is_not_for_is_an_error_only_if_it_was_stated(folder: Path) -> None:
    store = GlossaryStore(folder)
    with pytest.raises(InvalidOptionError, match="not for de to en"):
        store.find("tech", "de", "en")
    assert store.find("tech", "de", "en", stated=False) is None
    assert store.find("tech", "en", "de") is not None
