"""A smaller model out of a larger one: which layers stay, what new pieces start as, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.checkpoint import Checkpoint, CheckpointError, load_checkpoint, model_tensors
from model.recipe import RecipeError, load_recipe
from model.training.trainer import Trainer
from model.training.transfer import kept_layers, shrunk_tensors, spelling
from tests.support.toy_training import losses


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (2, 1, [0]), (6, 1, [0]), (6, 2, [0, 5]), (6, 3, [0, 2, 5]), (6, 5, [0, 1, 2, 4, 5]),
        (12, 3, [0, 6, 11]), (4, 4, [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_layers_are_kept_at_even_distances(before: int, after: int, kept: list[int]) -> None:
    assert kept_layers(before, after) == kept


def test_a_piece_is_spelled_with_the_longest_pieces_there_are() -> None:
    ids = {"<unk>": 1, "▁": 2, "▁Haus": 3, "▁Hau": 4, "tür": 5, "t": 6, "<0xC3>": 7, "<0xA9>": 8}
    assert spelling("▁Haus", ids) == [3]
    assert spelling("▁Haustür", ids) == [3, 5]
    assert spelling("▁té", ids) == [2, 6, 7, 8]
    assert spelling("q", ids) == [1]  # no such byte, as in a vocabulary of words


def change(file: Path, *replacements: tuple[str, str]) -> Path:
    text = file.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def train_larger(
    recipe: Callable[..., Path], folder: Path, joint: bool = True, updates: int = 1
) -> Checkpoint:
    file = recipe(max_updates=updates, average_checkpoints=0)
    change(file, ("decoder_layers = 1", "decoder_layers = 2"), ("size = 345", sized(300, joint)))
    return load_checkpoint(Trainer(file, folder / "larger", quiet=True).run())


def smaller(recipe: Callable[..., Path], joint: bool = True, **training: object) -> Path:
    file = recipe(initialise_from="larger/best", shrink=True, average_checkpoints=0, **training)
    return change(file, ("size = 345", sized(310, joint)))


def sized(size: int, joint: bool) -> str:
    return f"size = {size}\njoint = {json.dumps(joint)}"


@pytest.mark.parametrize("joint", [True, False])
def test_a_smaller_model_starts_from_a_larger_one(
    recipe: Callable[..., Path], tmp_path: Path, joint: bool
) -> None:
    larger = train_larger(recipe, tmp_path, joint)
    assert larger.config.model.decoder_layers == 2
    trainer = Trainer(smaller(recipe, joint, max_updates=2), tmp_path / "small", quiet=True)
    assert trainer.config.decoder_layers == 1
    before, after = larger.model.state_dict(), trainer.model.state_dict()
    tables = {name for name in after if name.endswith(("tokens.weight", "projection.weight"))}
    for name in after.keys() - tables:
        assert torch.equal(after[name], before[name]), name
    for side in ("source", "target"):
        ids = {piece: id for id, piece in enumerate(getattr(larger.tokenizer, f"{side}_pieces")())}
        pieces = getattr(trainer.tokenizer, f"{side}_pieces")()
        assert len(pieces) == 310
        assert 256 < len(ids.keys() & set(pieces)) < 310
        for name in (f"{side}_embedding.tokens.weight", *(["projection.weight"] * (side == "target"))):
            for row, piece in zip(after[name], pieces, strict=True):
                assert torch.allclose(row, before[name][spelling(piece, ids)].mean(0)), piece

    trainer.run()
    (tmp_path / "larger").rename(tmp_path / "moved")  # a run that goes on does not read it again
    again = Trainer(smaller(recipe, joint, max_updates=4), tmp_path / "small", quiet=True)
    assert again.progress.update == 2
    assert load_checkpoint(again.run()).config.joint_vocabulary is joint


def test_biases_of_distances_stay_with_their_layers(recipe: Callable[..., Path], tmp_path: Path) -> None:
    biases = "relative_distances = 4\nrelative_every_layer = true"
    file = change(
        recipe(max_updates=1, average_checkpoints=0), ("decoder_layers = 1", f"decoder_layers = 3\n{biases}")
    )
    before = load_checkpoint(Trainer(file, tmp_path / "larger", quiet=True).run()).model.state_dict()
    file = change(smaller(recipe, max_updates=1), ("decoder_layers = 1", f"decoder_layers = 2\n{biases}"))
    after = Trainer(file, tmp_path / "small", quiet=True).model.state_dict()
    for kept, layer in enumerate((0, 2)):
        assert torch.equal(after[f"decoder_biases.{kept}.table"], before[f"decoder_biases.{layer}.table"])


@pytest.mark.parametrize("joint", [True, False])
def test_what_stays_the_same_need_not_be_said(
    recipe: Callable[..., Path], tmp_path: Path, joint: bool
) -> None:
    larger = train_larger(recipe, tmp_path, joint)
    file = smaller(recipe, joint, max_updates=2)
    file.write_text(re.sub(r"(?s)\[model\].*?\n\[", "[model]\ndecoder_layers = 1\n[", file.read_text()))
    config = Trainer(file, tmp_path / "small", quiet=True).config
    assert (config.decoder_layers, config.d_model) == (1, larger.config.model.d_model)
    assert (config.source_vocab_size, config.share_source_target_embeddings) == (310, joint)


def test_what_a_smaller_model_keeps_is_worth_more_than_a_fresh_start(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    train_larger(recipe, tmp_path, updates=150)
    settings: dict[str, object] = {"max_updates": 30, "validate_every": 30, "warmup_updates": 5}
    Trainer(smaller(recipe, **settings), tmp_path / "small", quiet=True).run()
    Trainer(recipe(**settings, average_checkpoints=0), tmp_path / "fresh", quiet=True).run()
    small, fresh = (losses(tmp_path / name)["valid", 30] for name in ("small", "fresh"))
    assert small < 0.7 * fresh


def test_what_is_no_smaller_model_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    larger = train_larger(recipe, tmp_path)
    file = smaller(recipe, max_updates=1)
    text = file.read_text()
    for setting, other in (("encoder_layers = 1", "encoder_layers = 2"), ("d_model = 64", "d_model = 32")):
        file.write_text(text.replace(setting, other))
        name, value = other.split(" = ")
        with pytest.raises(
            CheckpointError, match=f"larger/best cannot be shrunk to this: {name} is {value} in"
        ):
            Trainer(file, tmp_path / other, quiet=True)
    file.write_text(text.replace('initialise_from = "larger/best"', ""))
    with pytest.raises(RecipeError, match=r"training: shrink needs initialise_from"):
        load_recipe(file)
    same = shrunk_tensors(larger, larger.config.model, larger.tokenizer)
    for name, tensor in model_tensors(larger.model).items():
        assert torch.equal(same[name], tensor), name
