"""A corpus out of two sources: what is left out, why, and that nothing held out comes through."""

import gzip
import json
from pathlib import Path

import pytest

from model.cleaning import clean as module
from model.cleaning.checks import Reason, key
from model.cleaning.clean import clean
from model.cleaning.plan import PlanError, load_plan
from model.data import process_pool
from model.data.corpus import CorpusError

LONG = "To install the update, restart the server and wait until every service has started again."
LANG = (
    "Um die Aktualisierung einzuspielen, starten Sie den Server neu und warten Sie, bis alle Dienste laufen."
)
FRENCH = (
    "Pour installer la mise à jour, redémarrez le serveur et attendez que tous les services fonctionnent."
)
PAIRS = {
    ("Save", "Speichern"): Reason.KEPT,
    ("SAVE", "SPEICHERN"): Reason.KEPT,
    ("Save.", "Speichern."): Reason.KEPT,
    (LONG, LANG): Reason.KEPT,
    ("I met her in 1998.", "Ich traf sie 1998."): Reason.KEPT,
    ("It costs 12,500 euros.", "Es kostet 12.500 Euro."): Reason.KEPT,
    ("Hello, {name}!", "Hallo {name}!"): Reason.KEPT,
    ("Dev line here", "Eine Übersetzung"): Reason.HELD_OUT,
    ("Another text", "zeile zum testen"): Reason.HELD_OUT,
    ("42", "42"): Reason.NO_LETTERS,
    ("word " * 130, "Wort " * 130): Reason.TOO_LONG,
    ("Yes, of course I will.", "Ja, und dann sagte er noch sehr viel mehr, was hier nicht steht."): (
        Reason.LENGTHS_DIFFER
    ),
    ("Open the Device Manager now", "Open the device manager now"): Reason.UNTRANSLATED,
    ("I met her in 1999.", "Ich traf sie 1989."): Reason.NUMBERS_DIFFER,
    ("Hello, {name} and {user}!", "Hallo {name}!"): Reason.PLACEHOLDERS_DIFFER,
    (LONG.replace("update", "system"), FRENCH): Reason.OTHER_LANGUAGE,
    (LONG.replace("restart the", "Restart the"), LANG): Reason.NEAR_DUPLICATE,
    (
        "Step 3: copy all of the files to this folder.",
        "Schritt 3: Kopieren Sie alle Dateien in diesen Ordner.",
    ): (Reason.NEAR_HELD_OUT),
}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    pairs = [*PAIRS, ("Save", "Speichern"), ("Unwanted text", "Unerwünschter Text")]
    origins = ["docs"] * (len(pairs) - 1) + ["ms-docs"]
    write(tmp_path / "a.en", [first for first, _ in pairs])
    write(tmp_path / "a.de", [second for _, second in pairs])
    write(tmp_path / "a.origins", origins)
    write(tmp_path / "b.en", ["Tom sleeps.", "Save"])
    write(tmp_path / "b.de", ["Tom schläft.", "Speichern"])
    write(tmp_path / "dev.en", ["Dev line, here!", "Step 12: copy all of the files to this folder."])
    write(
        tmp_path / "dev.de", ["Zeile zum Testen.", "Schritt 12: Kopieren Sie alle Dateien in diesen Ordner."]
    )
    path = tmp_path / "plan.toml"
    path.write_text(
        """
        languages = ["en", "de"]
        [[sources]]
        origins = "a.origins"
        first = ["a.en"]
        second = ["a.de"]
        leave_out = ["ms-*"]
        [[sources]]
        name = "tatoeba"
        first = ["b.en"]
        second = ["b.de"]
        [[held_out]]
        first = ["dev.en"]
        second = ["dev.de"]
        """
    )
    return path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def read(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_every_pair_is_kept_or_has_its_reason(plan: Path, tmp_path: Path) -> None:
    report = clean(load_plan(plan), tmp_path / "out", quiet=True)
    dropped = {
        tuple(line.split("\t")[2:]): line.split("\t")[0] for line in read(tmp_path / "out/dropped.tsv.gz")
    }
    found = {pair: dropped.get((pair[0].strip(), pair[1].strip()), "kept") for pair in PAIRS}
    # The other copies of this pair are dropped, the first is not.
    assert found.pop(("Save", "Speichern")) == "duplicate"
    assert found == {
        pair: reason.name.lower() for pair, reason in PAIRS.items() if pair != ("Save", "Speichern")
    }
    sides = [read(tmp_path / f"out/train.{side}.gz") for side in ("en", "de", "origin")]
    kept = [pair for pair, reason in PAIRS.items() if reason is Reason.KEPT]
    assert [*zip(*sides, strict=True)] == [
        *((first, second, "docs") for first, second in kept),
        ("Tom sleeps.", "Tom schläft.", "tatoeba"),
    ]
    assert report.of(["docs"], Reason.DUPLICATE) == report.of(["tatoeba"], Reason.DUPLICATE) == 1
    assert report.of(["ms-docs"], Reason.LEFT_OUT) == 1
    counts = json.loads((tmp_path / "out/report.json").read_text())
    assert counts["tatoeba"] == {"kept": 1, "duplicate": 1}
    assert sum(sum(reasons.values()) for reasons in counts.values()) == len(PAIRS) + 4
    assert "near_duplicate" in report.as_text()


def test_no_line_of_the_held_out_text_is_in_the_corpus(plan: Path, tmp_path: Path) -> None:
    clean(load_plan(plan), tmp_path / "out", quiet=True)
    for language in ("en", "de"):
        held_out = {key(line) for line in (tmp_path / f"dev.{language}").read_text().splitlines()}
        assert held_out.isdisjoint(map(key, read(tmp_path / f"out/train.{language}.gz")))
    # Without the filter they are there: the test can fail.
    plan.write_text(plan.read_text().split("[[held_out]]")[0])
    clean(load_plan(plan), tmp_path / "out", quiet=True)
    assert "Dev line here" in read(tmp_path / "out/train.en.gz")


def test_processes_write_the_same_bytes(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINES", 3)
    for name, count in (("one", 1), ("two", 2)):
        monkeypatch.setattr(process_pool, "processors", lambda count=count: count)
        clean(load_plan(plan), tmp_path / name, quiet=True)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_what_is_wrong_is_named(plan: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.origins", ["docs"])
    with pytest.raises(CorpusError, match=r"a\.origins: has fewer lines than the text"):
        clean(load_plan(plan), tmp_path / "out", quiet=True)
    write(tmp_path / "a.origins", ["docs"] * (len(PAIRS) + 3))
    with pytest.raises(CorpusError, match=r"a\.origins: has more lines than the text"):
        clean(load_plan(plan), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
    plan.write_text(plan.read_text().replace('name = "tatoeba"', ""))
    with pytest.raises(PlanError, match=r"sources.1: needs either a name or a file of origins"):
        load_plan(plan)
    with pytest.raises(PlanError, match="no such plan"):
        load_plan(tmp_path / "none.toml")
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        load_plan(tmp_path)


def test_nothing_but_an_earlier_corpus_is_replaced(plan: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    for out in (tmp_path, plan):
        with pytest.raises(CorpusError, match=f"{out.name}: is there and no earlier corpus"):
            clean(load_plan(plan), out, quiet=True)
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    for out in ("out", "out", "link"):
        clean(load_plan(plan), tmp_path / out, quiet=True)
    assert (tmp_path / "link").is_symlink()
    assert len(list((tmp_path / "out").iterdir())) == 5


def test_a_source_leaves_out_lines_of_its_own_alone(plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text().replace('["ms-*"]', '["ms-*", "tatoeba"]'))
    report = clean(load_plan(plan), tmp_path / "out", quiet=True)
    assert report.of(["ms-docs"], Reason.LEFT_OUT) == 1
    assert report.of(["tatoeba"], Reason.LEFT_OUT) == 0
    assert "Tom sleeps." in read(tmp_path / "out/train.en.gz")


def test_files_are_in_step_one_by_one(plan: Path, tmp_path: Path) -> None:
    write(tmp_path / "c.en", ["One more."])
    write(tmp_path / "c.de", ["Noch einer.", "Und einer."])
    text = plan.read_text().replace('["b.en"]', '["b.en", "c.en"]')
    plan.write_text(text)
    with pytest.raises(PlanError, match=r"sources\.1: needs a file of second for each of first"):
        load_plan(plan)
    plan.write_text(text.replace('["b.de"]', '["b.de", "c.de"]'))
    write(tmp_path / "b.de", ["Tom schläft."])  # as many lines a side
    with pytest.raises(CorpusError, match=r"b\.en, .*b\.de: differ in their number of lines"):
        clean(load_plan(plan), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ('["en", "en"]', "languages: the two must differ"),
        ('["en", "../de"]', r"languages\.1: String should match"),
        ('["en", "origin"]', r"languages\.1: String should match"),
    ],
)
def test_languages_are_two_and_name_files(plan: Path, languages: str, message: str) -> None:
    plan.write_text(plan.read_text().replace('["en", "de"]', languages))
    with pytest.raises(PlanError, match=message):
        load_plan(plan)
