"""``dragoman export``: options, progress and errors as a person sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import export.cli
from dragoman import app
from export.bundle import load_manifest, verify_bundle
from export.card import About
from export.pipeline import ExportOptions
from tests.support import factories


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_an_export_reports_each_stage_on_standard_error(tmp_path: Path, tiny_checkpoint: Path) -> None:
    source, target = factories.write_text(tmp_path)
    out = tmp_path / "bundle"
    result = invoke(
        tiny_checkpoint,
        "--out",
        out,
        "--dev-source",
        source,
        "--dev-target",
        target,
        "--beam-widths",
        "1,3",
        "--allow-quality-loss",
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    for stage in ("PyTorch", "calibrating", "int8: BLEU", "batch-invariant", f"wrote {out}"):
        assert stage in result.stderr
    assert verify_bundle(out).graphs.beam_widths == (1, 3)


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    result = invoke(tmp_path, "--out", tmp_path / "bundle", "--dev-source", tmp_path / "no.txt")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("dragoman export: ")
    assert "config.json" in result.stderr


def test_a_missing_text_file_is_named(tmp_path: Path, tiny_checkpoint: Path) -> None:
    result = invoke(tiny_checkpoint, "--out", tmp_path / "bundle", "--dev-source", tmp_path / "no.txt")
    assert result.exit_code == 1
    assert "no.txt: no such file" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--precision", "int4"),
        ("--weight-bits", "9"),
        ("--beam-widths", "1,x"),
        ("--beam-widths", "0"),
        ("--beam-widths", ""),
        ("--calibration-sentences", "0"),
        ("--calibration-method", "entropy"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, arguments: tuple[str, str]) -> None:
    assert invoke(tmp_path, "--out", tmp_path / "bundle", *arguments).exit_code == 2


def test_every_option_reaches_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ExportOptions] = []
    monkeypatch.setattr(
        export.cli, "export_bundle", lambda checkpoint, out, options, report: seen.append(options)
    )
    notes = tmp_path / "notes.md"
    notes.write_text("## Weak spots\n", encoding="utf-8")
    result = invoke(
        *("ck", "--out", "o", "--precision", "fp16", "--dev-source", "a", "--dev-target", "b"),
        *("--calibration", "c", "--calibration-sentences", "9", "--calibration-method", "mse"),
        *("--weight-bits", "8", "--beam-widths", "1, 4", "--bundle-version", "3", "--card-notes", notes),
        *("--allow-quality-loss", "--force", "--threads", "2", "--purpose", "Good for laws."),
    )
    assert result.exit_code == 0, result.stderr
    assert seen == [
        ExportOptions(
            precision="fp16",
            dev_source=[Path("a")],
            dev_target=[Path("b")],
            calibration=[Path("c")],
            calibration_sentences=9,
            calibration_method="mse",
            weight_bits=8,
            beam_widths=[1, 4],
            allow_quality_loss=True,
            force=True,
            about=About("3", "Good for laws.", "## Weak spots\n"),
            threads=2,
        )
    ]


def test_help_shows_examples() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "dragoman export checkpoints/en-de/best" in result.stdout


def test_the_manifest_names_the_directions(tiny_bundle: Path) -> None:
    assert [(d.source, d.target) for d in load_manifest(tiny_bundle).directions] == [("en", "de")]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--bundle-version", ""), "--bundle-version '': String should have at least 1 character"),
        (("--golden", "no.txt"), "no.txt: no such file"),
        (("--golden", "blank.txt"), "blank.txt: has no text"),
        (("--calibration", "no.txt"), "no.txt: no such file"),
        (("--calibration", "blank.txt"), "blank.txt: has no text"),
        (("--calibration", "long.txt"), "long.txt: none of 1 lines has at most 128 tokens"),
        (("--lexicon-source", "no.txt", "--lexicon-target", "long.txt"), "no.txt: no such file"),
        (("--lexicon-text", "no.txt"), "no.txt: no such file"),
    ],
)
def test_what_cannot_end_well_is_not_begun(
    tmp_path: Path,
    tiny_checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    message: str,
) -> None:
    source, _ = factories.write_text(tmp_path)
    for name, text in (("blank.txt", "\n \n\n"), ("long.txt", "x" * 400 + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = invoke(tiny_checkpoint, "--out", tmp_path / "out", "--dev-source", source, *flags)
    assert result.exit_code == 1
    assert result.stderr.startswith("dragoman export: ") and result.stderr.count("\n") == 1
    assert message in result.stderr
