"""``dragoman shortlist``: flags, progress and errors as a person sees them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import export.cli
from dragoman import app
from export.bundle import load_manifest, verify_bundle
from export.shortlist.build import ShortlistOptions
from export.shortlist.lexical_table import LexicalTable
from export.shortlist.marian import MAGIC
from model.tokenizer import Tokenizer
from tests.support import factories
from tests.support.vmaps import write_vmap


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["shortlist", *map(str, arguments)])


def texts(directory: Path, pairs: int = 300) -> list[str | Path]:
    """Write a dev set and a training text; give the flags that name them."""
    dev = factories.write_text(directory, count=40)
    train = directory / "train.en", directory / "train.de"
    for file, lines in zip(train, factories.parallel_text(pairs, seed=3), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--dev-source", dev[0], "--dev-target", dev[1], "--source", train[0], "--target", train[1]]


def refusal(*arguments: str | Path, code: int = 1) -> str:
    """Run the command, which must end with `code` and one line; give the line without its beginning."""
    result = invoke(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("[")]  # stages
    assert len(lines) == 1
    assert lines[0].startswith("dragoman shortlist: ")
    return str(lines[0]).removeprefix("dragoman shortlist: ")


@pytest.mark.parametrize("flags", [("--allow-quality-loss", "--allow-wide", "--force"), ()])
def test_every_flag_reaches_the_pipeline(flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Path, Path, ShortlistOptions, bool]] = []
    monkeypatch.setattr(
        export.cli,
        "shortlist_bundle",
        lambda bundle, out, options, *, force, report: seen.append((bundle, out, options, force)),
    )
    result = invoke(
        *("in", "--out", "o", "--dev-source", "a", "--dev-target", "b", "--source", "c", "--target", "d"),
        *("--vmap", "e", "--per-piece", "7", "--frequent", "0", "--threads", "2", *flags),
    )
    assert result.exit_code == 0, result.stderr
    expected = ShortlistOptions(
        dev_source=Path("a"),
        dev_target=Path("b"),
        source=Path("c"),
        target=Path("d"),
        vmap=Path("e"),
        per_piece=7,
        frequent=0,
        allow_quality_loss=bool(flags),
        allow_wide=bool(flags),
        threads=2,
    )
    assert seen == [(Path("in"), Path("o"), expected, bool(flags))]


def test_defaults_are_those_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ShortlistOptions] = []
    monkeypatch.setattr(
        export.cli, "shortlist_bundle", lambda bundle, out, options, *, force, report: seen.append(options)
    )
    assert invoke("in", "--out", "o", "--dev-source", "a", "--dev-target", "b").exit_code == 0
    assert seen == [ShortlistOptions(Path("a"), Path("b"))]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--per-piece", "0"),
        ("--frequent", "-1"),
        ("--threads", "0"),
        ("--per-piece", "many"),
        ("--candidates", "5"),
    ],
)
def test_wrong_flags_are_usage_errors(arguments: tuple[str, str]) -> None:
    complete = ("in", "--out", "o", "--dev-source", "a", "--dev-target", "b")
    assert invoke(*complete, *arguments).exit_code == 2
    assert invoke(*complete[:-2]).exit_code == 2  # no reference to measure with


def test_a_table_learnt_from_a_text(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    out, flags = tmp_path / "bundle", texts(tmp_path)
    result = invoke(tiny_bundle_int8, "--out", out, *flags, "--allow-quality-loss", "--allow-wide")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    for stage in ("learning which words become which", "translating 40 dev sentences", "candidates a sent"):
        assert stage in result.stderr
    found = verify_bundle(out).shortlist
    assert found is not None
    assert (found.origin, found.sentences) == ("train.en, 300 sentence pairs", 40)
    before = (out / "manifest.json").read_bytes()
    assert refusal(tiny_bundle_int8, "--out", out, *flags) == f"{out} exists already; --force replaces it"
    assert (out / "manifest.json").read_bytes() == before
    again = invoke(
        tiny_bundle_int8,
        "--out",
        out,
        *flags,
        "--allow-quality-loss",
        "--allow-wide",
        "--per-piece",
        "4",
        "--frequent",
        "5",
        "--force",
    )
    assert again.exit_code == 0, again.stderr
    replaced = verify_bundle(out).shortlist
    assert replaced is not None
    assert (replaced.per_piece, replaced.frequent) == (4, 5)
    assert (found.per_piece, found.frequent) == (100, 200)
    assert replaced.mean_candidates < found.mean_candidates


def test_a_table_read_from_a_map(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    """A map that allows everything costs nothing."""
    tokenizer = Tokenizer.load(*load_manifest(tiny_bundle_int8).tokenizer.paths(tiny_bundle_int8))
    sides = tokenizer.source_pieces(), tokenizer.target_pieces()
    everything = [i for i, piece in enumerate(sides[1]) if piece]
    write_vmap(tmp_path / "vmap.txt", LexicalTable.from_rows(everything, {}), *sides)
    dev = texts(tmp_path)[:4]
    asked = (tiny_bundle_int8, "--out", tmp_path / "out", *dev, "--vmap", tmp_path / "vmap.txt")
    assert "more than 33%" in refusal(*asked)
    result = invoke(*asked, "--allow-wide")
    assert result.exit_code == 0, result.stderr
    found = verify_bundle(tmp_path / "out").shortlist
    assert found is not None
    assert (found.origin, found.per_piece, found.bleu_loss) == ("vmap.txt", None, 0)
    head = (MAGIC, 0, len(sides[1]), 0, 2, 0, 0, 0)  # of Marian: the first words are always candidates
    (tmp_path / "lex.bin").write_bytes(struct.pack("<8Q", *head))
    asked = (tiny_bundle_int8, "--out", tmp_path / "out", *dev, "--vmap", tmp_path / "lex.bin")
    result = invoke(*asked, "--allow-wide", "--force")
    assert result.exit_code == 0, result.stderr
    found = verify_bundle(tmp_path / "out").shortlist
    assert found is not None
    assert (found.origin, found.per_piece, found.bleu_loss) == ("lex.bin", None, 0)


def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    tmp_path: Path, tiny_bundle: Path, tiny_bundle_int8: Path
) -> None:
    out, (*dev, _, source, _, target) = tmp_path / "out", texts(tmp_path, pairs=5)
    short, vmap = ("--out", out, *dev), tmp_path / "vmap.txt"
    learn = ("--source", source, "--target", target)
    assert "precision int8, this bundle is fp32" in refusal(tiny_bundle, *short, *learn)
    neither = "a shortlist is learnt from a text and its translation, or read from a vmap"
    for given in ((), ("--source", source), ("--target", target)):
        assert refusal(tiny_bundle_int8, *short, *given) == neither
    assert "vmap.txt" in refusal(tiny_bundle_int8, *short, "--vmap", vmap)
    vmap.write_text("no tab here\n", encoding="utf-8")
    assert "vmap.txt" in refusal(tiny_bundle_int8, *short, "--vmap", vmap)
    missing = tmp_path / "no.txt"
    assert "no.txt: no such file" in refusal(
        tiny_bundle_int8, *short, "--source", missing, "--target", target
    )
    assert "manifest.json" in refusal(tmp_path, *short, *learn, code=3)
    vmap.write_text("\t.\n", encoding="utf-8")
    assert "the shortlist loses" in refusal(tiny_bundle_int8, *short, "--vmap", vmap, "--allow-wide")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "dev.de",
        "dev.en",
        "train.de",
        "train.en",
        "vmap.txt",
    ]


def test_help_shows_an_example() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "dragoman shortlist bundles/en-de" in result.stdout
