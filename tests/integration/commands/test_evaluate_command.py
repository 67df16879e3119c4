"""`dragoman evaluate` on a checkpoint (PyTorch) and on the bundle made of it (the server's engine)."""

import html
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import dragoman
from export.bundle import load_manifest
from tests.support import factories


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


def test_scores_by_length_add_up_and_ter_is_signed(tiny_checkpoint: Path, text: tuple[Path, Path]) -> None:
    report = evaluate(tiny_checkpoint, text)
    buckets: Any = report["by_length"]
    assert sum(bucket["sentences"] for bucket in buckets) == 60
    assert [bucket["words"] for bucket in buckets] == ["0-5", "6-10", "11-15", "16-25"][: len(buckets)]
    assert min(b["bleu"] for b in buckets) <= float(str(report["bleu"])) <= max(b["bleu"] for b in buckets)
    assert float(str(report["ter"])) >= 0
    assert "|tok:tercom" in str(report["ter_signature"])


def test_noise_costs_something_and_is_the_same_every_time(
    tiny_checkpoint: Path, text: tuple[Path, Path]
) -> None:
    reports: Any = [evaluate(tiny_checkpoint, text, "--robustness") for _ in range(2)]
    assert reports[0] == reports[1]
    found = reports[0]["robustness"]
    assert {"typos", "capitals", "lost spaces", "no-break spaces", "misread", "hasty"} <= set(found)
    assert "lower case" not in found  # it changes no sentence
    assert "robustness_served" not in reports[0]
    assert found["capitals"]["changed_sentences"] == 60
    assert found["capitals"]["bleu_lost"] > 10  # it has never seen a capital
    for name, kind in found.items():
        if name in ("typos", "lost spaces", "misread"):
            assert kind["bleu"] + kind["bleu_lost"] == pytest.approx(reports[0]["bleu"])
        assert 0 < kind["ratio"] < 1.2
        assert 0 < kind["consistency"] <= 100
        assert 0 < kind["changed_sentences"] <= 60
    assert found["typos"]["ratio"] < 1


def test_the_text_layer_undoes_what_no_reader_sees(tiny_bundle: Path, text: tuple[Path, Path]) -> None:
    report: Any = evaluate(tiny_bundle, text, "--robustness")
    assert report["robustness"]["look-alikes"]["consistency"] < 100
    for kind in ("look-alikes", "zero width", "no-break spaces"):
        assert report["robustness_served"][kind]["consistency"] == 100
        assert report["robustness_served"][kind]["ratio"] == 1


def test_another_system_is_compared_by_resampling(
    tiny_checkpoint: Path, tiny_bundle: Path, tmp_path: Path, text: tuple[Path, Path]
) -> None:
    same: Any = evaluate(tiny_checkpoint, text, "--against", str(tiny_bundle))["against"]
    assert same["model"] == str(tiny_bundle)
    assert same["bleu"]["difference"] == 0
    assert same["bleu"]["p_value"] == 1.0
    worse = tmp_path / "worse"
    shutil.copytree(tiny_checkpoint, worse)
    weights = load_file(worse / "model.safetensors")
    noise = torch.Generator().manual_seed(0)
    damaged = {
        name: tensor + 0.2 * torch.randn(tensor.shape, generator=noise) for name, tensor in weights.items()
    }
    save_file(damaged, worse / "model.safetensors")
    better: Any = evaluate(tiny_checkpoint, text, "--against", str(worse))
    for metric in ("bleu", "chrf"):
        found = better["against"][metric]
        assert found["ours"] == better[metric]
        assert found["difference"] == pytest.approx(found["ours"] - found["theirs"], abs=0.011)
        assert found["difference"] > 0
        assert found["p_value"] < 0.05
        assert found["ours_interval"][0] <= found["ours"] + 5
    assert "bs:1000|seed:12345" in better["against"]["bleu"]["signature"]


def test_a_page_shows_what_the_numbers_say(
    tiny_checkpoint: Path, tiny_bundle: Path, tmp_path: Path, text: tuple[Path, Path]
) -> None:
    page = tmp_path / "new" / "page.html"
    options = ["--robustness", "--against", str(tiny_bundle), "--page", str(page)]
    report: Any = evaluate(tiny_checkpoint, text, *options)
    shown = html.unescape(page.read_text(encoding="utf-8"))
    assert shown.count("<svg") == 4  # BLEU and chrF, by length and by damage
    for key in ("bleu", "chrf", "ter"):
        assert f"{report[key]:.2f}" in shown
        assert report[f"{key}_signature"] in shown
    for kind, found in report["robustness"].items():
        assert f"<tr><th>{kind}<td>{found['bleu']:.2f}<td>{found['bleu_lost']:.2f}" in shown
        assert f"<td>{found['ratio']:.3f}<td>{found['changed_sentences']:,}" in shown
    assert report["against"]["bleu"]["signature"] in shown
    assert len(report["weakest"]) == 10
    chrf = [weak["chrf"] for weak in report["weakest"]]
    assert chrf == sorted(chrf)
    assert chrf[0] <= report["chrf"]
    for weak in report["weakest"]:
        assert weak["source"] in shown
        assert weak["translation"] in shown
    assert "<script" not in shown


def test_a_page_is_written_of_scores_alone(
    tiny_checkpoint: Path, tmp_path: Path, text: tuple[Path, Path]
) -> None:
    evaluate(tiny_checkpoint, text, "--page", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == 2


@pytest.mark.parametrize("broken", ["reference", "model", "bundle", "beam", "page"])
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
    elif broken == "page":
        options = ["--page", str(tmp_path)]  # a directory
    else:
        reference = tmp_path / "short.de"
        reference.write_text("eine Zeile\n", encoding="utf-8")
    command = ["evaluate", str(model), "--source", str(text[0]), "--reference", str(reference), *options]
    result = CliRunner().invoke(dragoman.app, command)
    assert result.exit_code == (3 if broken == "bundle" else 1)
    assert result.stderr.startswith("dragoman evaluate: ")
    assert result.stderr.count("\n") == 1


def test_fairness_needs_no_other_text(tiny_bundle: Path, tiny_checkpoint: Path, tmp_path: Path) -> None:
    sets, page = tmp_path / "sets", tmp_path / "page.html"
    sets.mkdir()
    source, target = next(iter(load_manifest(tiny_bundle).pairs))
    for gender, word in (("feminine", "her"), ("masculine", "his")):
        for code in (source, target):
            name = f"geneval-sentences-{gender}-test.{source}_{target}.{code}"
            (sets / name).write_text(f"the cat sees {word} dog\n", encoding="utf-8")
    command = ["evaluate", str(tiny_bundle), "--fairness", str(sets), "--page", str(page)]
    result = CliRunner().invoke(dragoman.app, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["fairness"]["mt_geneval"]
    assert found["sentences"] == 2
    assert "MT-GenEval" in page.read_text(encoding="utf-8")
    empty = tmp_path / "empty"
    empty.mkdir()
    result = CliRunner().invoke(dragoman.app, [*command[:3], str(empty)])
    assert result.exit_code == 1
    assert "neither MT-GenEval" in result.output
    result = CliRunner().invoke(dragoman.app, ["evaluate", str(tiny_checkpoint), "--fairness", str(sets)])
    assert "needs --direction" in result.output
    result = CliRunner().invoke(dragoman.app, ["evaluate", str(tiny_bundle)])
    assert result.exit_code == 2
