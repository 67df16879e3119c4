"""`dragoman evaluate` on a checkpoint (PyTorch) and on the bundle made of it (the server's engine)."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dragoman
from tests import factories


def evaluate(model: Path, text: tuple[Path, Path], *options: str) -> dict[str, object]:
    command = ["evaluate", str(model), "--source", str(text[0]), "--reference", str(text[1]), *options]
    result = CliRunner().invoke(dragoman.app, command)
    assert result.exit_code == 0, result.output
    report: dict[str, object] = json.loads(result.stdout)
    return report


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return factories.write_text(tmp_path_factory.mktemp("text"), count=60, seed=3)


def test_checkpoint_and_fp32_bundle_score_the_same(
    tiny_checkpoint: Path, tiny_bundle: Path, text: tuple[Path, Path]
) -> None:
    reports = [evaluate(model, text) for model in (tiny_checkpoint, tiny_bundle)]
    for report in reports:
        assert report["sentences"] == 60
        assert str(report["bleu_signature"]).startswith("nrefs:1|case:mixed")
    assert reports[0]["bleu"] == reports[1]["bleu"]
    assert reports[0]["chrf"] == reports[1]["chrf"]


def test_a_bundle_is_scored_with_beam_search_too(tiny_bundle_int8: Path, text: tuple[Path, Path]) -> None:
    report = evaluate(tiny_bundle_int8, text, "--beam-size", "4")
    assert report["beam_size"] == 4
    assert float(str(report["bleu"])) > 50


@pytest.mark.parametrize("broken", ["reference", "model", "bundle", "beam"])
def test_what_is_wrong_is_one_line(
    tiny_checkpoint: Path, tiny_bundle: Path, tmp_path: Path, text: tuple[Path, Path], broken: str
) -> None:
    model, reference = tiny_checkpoint, text[1]
    options: list[str] = []
    if broken == "model":
        model = tmp_path
    elif broken == "bundle":
        model = tmp_path / "bundle"
        shutil.copytree(tiny_bundle, model)
        (model / "encoder.onnx").write_bytes(b"")
    elif broken == "beam":
        model, options = tiny_bundle, ["--beam-size", "7"]
    else:
        reference = tmp_path / "short.de"
        reference.write_text("eine Zeile\n", encoding="utf-8")
    command = ["evaluate", str(model), "--source", str(text[0]), "--reference", str(reference), *options]
    result = CliRunner().invoke(dragoman.app, command)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
