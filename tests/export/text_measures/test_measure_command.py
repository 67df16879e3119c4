"""``dragoman measure``, and the flags of ``dragoman export`` that do the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import export.cli
from dragoman import app
from export.bundle import load_manifest, verify_bundle
from export.pipeline import ExportOptions
from export.text_measures.learn_lexicon import LexiconTexts
from export.text_measures.measure import MeasureOptions
from tests.support import factories


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_every_flag_reaches_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Path, MeasureOptions]] = []
    monkeypatch.setattr(
        export.cli, "measure_bundle", lambda bundle, options, report: seen.append((bundle, options))
    )
    result = invoke(
        *("measure", "b", "--dev-source", "a", "--dev-target", "c", "--source", "d", "--target", "e"),
        *("--lexicon-text", "f", "--entries", "16", "--threads", "2", "--attention", "--only", "attention"),
    )
    assert result.exit_code == 0, result.stderr
    texts = LexiconTexts(Path("d"), Path("e"), Path("f"))
    wanted = MeasureOptions(Path("a"), Path("c"), texts, 16, 2, attention=True, only="attention")
    assert seen == [(Path("b"), wanted)]


def test_a_bundle_is_measured_in_its_place(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    bundle, options = tmp_path / "bundle", factories.measure_options(tmp_path)
    shutil.copytree(tiny_bundle_int8, bundle)
    assert options.dev_target is not None
    assert options.lexicon.source is not None
    dev = "--dev-source", options.dev_source, "--dev-target", options.dev_target
    result = invoke("measure", bundle, *dev, "--lexicon-text", options.lexicon.source)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    for stage in ("300 lines as the model translates them", "coverage from -", "mask PH{n}: copied"):
        assert stage in result.stderr
    assert verify_bundle(bundle).text is not None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--source", "train.en"), 1, "give both files or that one"),
        (("--source", "no.en", "--target", "no.de"), 1, "no.en: no such file"),
        (("--lexicon-text", "train.en", "--entries", "33"), 2, "less than or equal to 32"),
        ((), 1, "give both files or that one"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path,
    tiny_bundle_int8: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    factories.measure_options(tmp_path)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bundle_int8, "bundle")
    result = invoke("measure", "bundle", "--dev-source", "dev.en", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert load_manifest(Path("bundle")).text is None
    if code == 1:
        assert len([line for line in result.stderr.splitlines() if not line.startswith("[")]) == 1


def test_a_damaged_bundle_is_refused(tmp_path: Path) -> None:
    result = invoke("measure", tmp_path, "--dev-source", "a", "--lexicon-text", "b")
    assert result.exit_code == 3
    assert result.stderr == "dragoman measure: manifest.json: is missing\n"


@pytest.mark.parametrize("command", [("export", "ck"), ("import", "model")])
def test_an_export_takes_the_same_texts(command: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ExportOptions] = []
    monkeypatch.setattr(
        export.cli, "export_bundle", lambda origin, out, options, report: seen.append(options)
    )
    monkeypatch.setattr(export.cli, "import_model", lambda *arguments: seen.append(arguments[4]))
    texts = "--lexicon-source", "a", "--lexicon-target", "b", "--lexicon-text", "c"
    for given in ((), texts):
        assert invoke(*command, "--out", "o", *given).exit_code == 0
    assert [options.lexicon for options in seen] == [None, LexiconTexts(Path("a"), Path("b"), Path("c"))]


def test_an_export_measures(tmp_path: Path, tiny_checkpoint: Path) -> None:
    options = factories.measure_options(tmp_path)
    assert options.dev_target is not None
    assert options.lexicon.source is not None
    assert options.lexicon.target is not None
    dev = "--dev-source", options.dev_source, "--dev-target", options.dev_target
    quick = "--precision", "fp32", "--beam-widths", "1", "--out", tmp_path / "out"
    wrong = invoke("export", tiny_checkpoint, *quick, *dev, "--lexicon-source", options.lexicon.source)
    assert wrong.exit_code == 1
    assert wrong.stderr.endswith("give both files or that one\n")
    texts = "--lexicon-source", options.lexicon.source, "--lexicon-target", options.lexicon.target
    result = invoke("export", tiny_checkpoint, *quick, *dev, *texts)
    assert result.exit_code == 0, result.stderr
    text = verify_bundle(tmp_path / "out").text
    assert text is not None
    assert text.sentences == 220
