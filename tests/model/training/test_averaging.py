"""The mean of checkpoints, through the command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from dragoman import app
from model.checkpoint import load_checkpoint, read_config

Changed = Callable[..., Path]


@pytest.fixture
def changed(tiny_checkpoint: Path, tmp_path: Path) -> Changed:
    """Copy the tiny checkpoint, with its weights scaled and fields of its ``config.json`` replaced."""

    def change(name: str, scale: float = 1.0, **fields: object) -> Path:
        directory = tmp_path / name
        shutil.copytree(tiny_checkpoint, directory)
        file = directory / "model.safetensors"
        save_file({key: value * scale for key, value in load_file(file).items()}, file)
        config = json.loads((directory / "config.json").read_text())
        config["model"] |= fields.pop("model", {})
        (directory / "config.json").write_text(json.dumps(config | fields))
        return directory

    return change


def average(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["average", *map(str, arguments)])


@pytest.mark.parametrize(("weights", "scale"), [(None, 2.0), ("0.25,0.75", 2.5), ("1,3", 2.5), ("0,5", 3.0)])
def test_the_mean_is_a_checkpoint(
    changed: Changed, tiny_checkpoint: Path, tmp_path: Path, weights: str | None, scale: float
) -> None:
    once = changed("once", metrics={"bleu": 1.0}, updates=7)
    thrice = changed("thrice", 3.0, metrics={"bleu": 2.0}, updates=9, model={"dropout": 0.3})
    (thrice / "recipe.toml").write_text("name = 'x'\n")
    out = tmp_path / "deeper" / "mean"
    done = average(once, thrice, "--out", out, *(["--weights", weights] if weights else []))
    assert (done.exit_code, done.stdout) == (0, f"{out}\n"), done.stderr
    expected = load_file(tiny_checkpoint / "model.safetensors")
    found = load_file(out / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor * scale)
    config = read_config(out)
    assert (config.metrics, config.updates, config.model.dropout) == ({}, 9, 0.3)
    assert (out / "recipe.toml").read_text() == "name = 'x'\n"
    assert load_checkpoint(out).tokenizer.encode("a") == load_checkpoint(once).tokenizer.encode("a")


def test_what_does_not_fit_is_refused_and_nothing_is_written(
    changed: Changed, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    good, out = changed("good"), tmp_path / "mean"
    other = changed("other", model={"decoder_layers": 1})
    words = changed("words")
    (words / "source.spm").write_bytes(b"another")
    torn = changed("torn")
    (torn / "model.safetensors").write_bytes(b"another")
    fewer = changed("fewer")
    tensors = load_file(fewer / "model.safetensors")
    tensors.pop("projection.bias", None) or tensors.popitem()
    save_file(tensors, fewer / "model.safetensors")
    for arguments, message in [
        ((good,), "two checkpoints or more"),
        ((good, tmp_path / "none"), f"{tmp_path / 'none' / 'config.json'}: no such file"),
        ((other, good), f"{other}: decoder_layers is 1, that of {good} is 2"),
        ((words, good), f"{words / 'source.spm'}: another vocabulary"),
        ((good, torn), f"{torn / 'model.safetensors'}: damaged"),
        ((good, fewer), f"{fewer / 'model.safetensors'}: its weights have other names"),
        ((good, good, "--weights", "1"), "1 weights for 2 checkpoints"),
        ((good, good, "--weights", "1,-1"), "weights must be numbers of at least 0"),
        ((good, good, "--weights", "0,0"), "weights must be numbers of at least 0"),
        ((good, good, "--weights", "1,nan"), "weights must be numbers of at least 0"),
        ((good, good, "--weights", "1,inf"), "weights must be numbers of at least 0"),
        ((good, good, "--weights", "1,x"), "--weights 1,x: must be numbers"),
    ]:
        done = average(*arguments, "--out", out)
        assert (done.exit_code, done.stdout) == (1, "")
        assert message in done.stderr
        assert not out.exists()
    before = sorted(path.name for path in good.iterdir())
    done = average(good, good, "--out", good)
    assert done.exit_code == 1
    assert f"{good} exists; remove it or choose another --out" in done.stderr
    assert sorted(path.name for path in good.iterdir()) == before
