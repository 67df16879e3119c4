"""`architecture = "rnn"` in a recipe: the same trainer, checkpoints and evaluation; no export."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from export.pipeline import ExportOptions, export_bundle
from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.evaluation import checkpoint_translator
from model.recipe import RecipeError
from model.recurrent.rnn import Rnn
from model.training.averaging import average_checkpoints
from model.training.trainer import Trainer
from tests.support.toy_training import losses

TRANSFORMER = """encoder_heads = 2
decoder_heads = 2
encoder_ffn_dim = 128
decoder_ffn_dim = 128
"""


def as_rnn(file: Path, more: str = "") -> Path:
    """Make the recipe one of an RNN."""
    text = file.read_text().replace(TRANSFORMER, f'architecture = "rnn"\nstate_dim = 64\n{more}')
    file.write_text(text)
    return file


def test_trains_resumes_and_translates(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = as_rnn(recipe(max_updates=240, validate_every=60))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    chosen = Trainer(file, whole, quiet=True).run()
    assert isinstance(load_checkpoint(chosen).model, Rnn)
    assert load_checkpoint(chosen).config.metrics["bleu"] > 50
    assert len(checkpoint_translator(chosen)(["the cat sees a dog", "a bird"])) == 2
    assert (whole / "report.html").exists()

    shutil.copytree(whole, broken)
    for number in (120, 180, 240):
        shutil.rmtree(broken / f"checkpoint-{number:07d}")
    Trainer(file, broken, quiet=True).run()
    assert losses(broken) == losses(whole)
    ours, theirs = (load_checkpoint(run / "checkpoint-0000240").model.state_dict() for run in (whole, broken))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)

    with pytest.raises(CheckpointError, match="toy is an RNN, which can be trained and evaluated"):
        export_bundle(
            chosen, tmp_path / "bundle", ExportOptions(precision="fp32", dev_source=[tmp_path / "dev.en"])
        )


def test_is_another_architecture_than_a_transformer(recipe: Callable[..., Path], tmp_path: Path) -> None:
    options = {"max_updates": 2, "validate_every": 2, "average_checkpoints": 0}
    transformer = Trainer(recipe(**options), tmp_path / "transformer", quiet=True).run()
    rnn = Trainer(as_rnn(recipe(**options)), tmp_path / "rnn", quiet=True).run()
    with pytest.raises(CheckpointError, match="architecture is rnn"):
        average_checkpoints([rnn, transformer], tmp_path / "mean")
    second = as_rnn(recipe(**options, initialise_from="transformer/best"), "encoder_layers = 1\n")
    with pytest.raises((CheckpointError, RecipeError)):
        Trainer(second, tmp_path / "second", quiet=True)


def test_unknown_architecture_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    file = as_rnn(recipe(max_updates=2))
    file.write_text(file.read_text().replace('"rnn"', '"mamba"'))
    with pytest.raises(RecipeError, match="architecture mamba is unknown; there are transformer, rnn"):
        Trainer(file, tmp_path / "run", quiet=True)
