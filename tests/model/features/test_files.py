"""Files of feature vectors, and recipes that name them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.data.corpus import CorpusError, DescribedFeatures, read_lines, read_pairs
from model.features.files import FeaturesError, read_features, write_features
from model.recipe import RecipeError, load_recipe
from model.training.trainer import Trainer
from tests.support.toy_features import RECIPE, SIZE, write_corpus

SEQUENCES = [np.full((length, 2), length, np.float32) for length in (3, 1, 2)]


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_sequences_come_back(tmp_path: Path) -> None:
    write_features(tmp_path / "a.npz", SEQUENCES)
    found = read_features(tmp_path / "a.npz")
    assert all(np.array_equal(one, other) for one, other in zip(found, SEQUENCES, strict=True))
    pixels = save(tmp_path / "b.npz", features=np.ones((6, 2), np.uint8), lengths=[4, 2])
    assert [(one.shape, one.dtype) for one in read_features(pixels)] == [
        ((4, 2), np.float32),
        ((2, 2), np.float32),
    ]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.ones((2, 2))}, "lengths"),
        ({"features": np.ones(2), "lengths": [2]}, "must be numbers"),
        ({"features": np.ones((2, 2), complex), "lengths": [2]}, "must be numbers"),
        ({"features": np.ones((2, 2)), "lengths": [2.0]}, "must be whole numbers"),
        ({"features": np.ones((2, 2)), "lengths": []}, "must be whole numbers"),
        ({"features": np.ones((2, 2)), "lengths": [2, 0]}, "sequence 2 is empty"),
        ({"features": np.ones((2, 2)), "lengths": [3, -1]}, "sequence 2 is empty"),
        ({"features": np.ones((2, 2)), "lengths": [1, 2]}, "add up to 3, but there are 2"),
        ({"features": np.full((2, 2), np.nan), "lengths": [2]}, "not finite"),
        ({"features": np.full((2, 2), 1e300), "lengths": [2]}, "not finite"),
        ({"features": np.array([[{}]], object), "lengths": [1]}, "not an .npz of arrays"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(FeaturesError, match=message):
        read_features(save(tmp_path / "a.npz", **arrays))


def test_other_files_are_refused(tmp_path: Path) -> None:
    one = io.BytesIO()
    np.save(one, np.ones((2, 2)))
    whole = save(tmp_path / "whole.npz", features=np.ones((2, 2)), lengths=[2]).read_bytes()
    write_features(tmp_path / "packed.npz", SEQUENCES)
    damaged = bytearray((tmp_path / "packed.npz").read_bytes())
    damaged[30 + damaged[26] + damaged[28]] = 0xFF  # where compressed data begins, after names of such length
    contents = (b"", b"text", one.getvalue(), whole[: len(whole) // 2], damaged)
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(content)
        with pytest.raises(FeaturesError, match=f"{number}.npz: not an .npz"):
            read_features(path)


def test_pairs_are_in_step(tmp_path: Path) -> None:
    write_features(tmp_path / "a.npz", SEQUENCES)
    write_features(tmp_path / "b.npz", [np.ones((1, 5), np.float32)])
    for name, lines in (("a", "x\ny\nz\n"), ("b", "x\n"), ("gap", "x\n\nz\n")):
        (tmp_path / f"{name}.txt").write_text(lines)
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    found = read_pairs([a, a], [tmp_path / "a.txt"] * 2)
    assert isinstance(found, DescribedFeatures)
    assert (len(found), found.targets[3:]) == (6, ["x", "y", "z"])
    for sources, target, message in (
        ([a], "b", "has 3 sequences, but .* has 1 lines"),
        ([a], "gap", "gap.txt:2: empty line"),
        ([tmp_path / "no.npz"], "a", "no such file"),
    ):
        with pytest.raises(CorpusError, match=message):
            read_pairs(sources, [tmp_path / f"{target}.txt"])
    with pytest.raises(CorpusError, match=r"different sizes: \[2, 5\]"):
        read_pairs([a, b], [tmp_path / "a.txt", tmp_path / "b.txt"])
    with pytest.raises(CorpusError, match="holds feature vectors; text is needed"):
        read_lines(a)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('task = "naming"\n', "", "task translation"),
        ('dev_source = ["dev.npz"]', 'dev_source = ["dev.words"]', "either all sources are .npz files"),
        ('kind = "word"', 'kind = "word"\njoint = false', "the only vocabulary is the target's"),
        ("[training]", "[augment]\nnoise_share = 0.5\n[training]", r"do not go with \[augment\]"),
        ("[training]", '[distillation]\nteacher = "x"\n[training]', r"do not go with \[distillation\]"),
        ("[vocabulary]", "[corpus.sampling]\ntemperature = 2.0\n[vocabulary]", r"with \[corpus.sampling\]"),
    ],
)
def test_a_recipe_of_features_has_no_settings_of_text(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(RecipeError, match=message):
        load_recipe(tmp_path / "recipe.toml")


def test_a_run_goes_on_where_it_stood(tmp_path: Path) -> None:
    write_corpus(tmp_path, train=200, dev=20)
    losses = []
    for name, steps in (("whole", (12,)), ("parts", (6, 12))):
        for updates in steps:
            changed = RECIPE.replace("max_updates = 240", f"max_updates = {updates}")
            changed = changed.replace("cooldown_updates = 100", "cooldown_updates = 0")
            (tmp_path / "recipe.toml").write_text(changed)
            trainer = Trainer(tmp_path / "recipe.toml", tmp_path / name, quiet=True)
            trainer.run()
        losses.append(trainer.validate(trainer.batch_loss)["loss"])
    assert losses[0] == losses[1]
    assert trainer.model.config.source_features == SIZE
    assert not (tmp_path / "whole" / "tokens").exists()


def test_an_rnn_reads_no_features(tmp_path: Path) -> None:
    write_corpus(tmp_path, train=20, dev=5)
    start, end = RECIPE.index("d_model"), RECIPE.index("[training]")
    (tmp_path / "recipe.toml").write_text(f'{RECIPE[:start]}architecture = "rnn"\n{RECIPE[end:]}')
    with pytest.raises(RecipeError, match="source_features"):
        Trainer(tmp_path / "recipe.toml", tmp_path / "run", quiet=True)
