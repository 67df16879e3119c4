"""Additional pairs on disk: the same for the same seed, whatever the number of processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model.augmentation.tables import AugmentedTables
from model.checkpoint import Direction
from model.data import process_pool, tokenization
from model.data.tokenization import made_from
from model.recipe import Recipe, load_recipe
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from tests.support.toy_training import write_corpus, write_recipe

AUGMENT = """
[augment]
mask_share = 0.3
literal_share = 0.2
tag_share = 0.2
surface_share = 0.2
join_share = 0.1
noise_share = 0.1
variants = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    write_corpus(tmp_path)
    file = write_recipe(tmp_path, max_updates=2)
    file.write_text(file.read_text() + AUGMENT)
    train_sentencepiece(
        (tmp_path / "train.en").read_text().splitlines(), tmp_path / "source.spm", vocab_size=320, kind="bpe"
    )
    return load_recipe(file)


def tables(recipe: Recipe, folder: Path, out: str, tag: int | None = None) -> AugmentedTables:
    directions = [Direction(source="en", target="de", source_prefix_ids=[] if tag is None else [tag])]
    tokenizer = Tokenizer.load(folder / "source.spm")
    description = made_from(recipe.corpus, directions, [folder / "source.spm"], 100)
    return AugmentedTables(recipe, directions, tokenizer, folder / out, description)


def rows(made: AugmentedTables, epoch: int) -> list[tuple[list[int], list[int]]]:
    table = made.table(epoch)
    return [(table.sources.row(i).tolist(), table.targets.row(i).tolist()) for i in range(len(table))]


def test_the_seed_and_the_variant_decide(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenization, "_LINES", 100)
    found = []
    for name, count in (("one", 1), ("two", 2)):
        monkeypatch.setattr(process_pool, "processors", lambda count=count: count)
        found.append([rows(tables(recipe, tmp_path, name), epoch) for epoch in range(3)])
    assert found[0] == found[1]
    first, second, again = found[0]
    assert first != second
    assert first == again  # of two variants the third epoch reads the first one
    assert 400 < len(first) < 800
    other = recipe.model_copy(update={"training": recipe.training.model_copy(update={"seed": 2})})
    assert rows(tables(other, tmp_path, "one"), 0) != first


def test_a_table_is_drawn_once(recipe: Recipe, tmp_path: Path) -> None:
    tables(recipe, tmp_path, "out").write_all()
    ids = tmp_path / "out/augmented-01/source.ids"
    before = ids.stat().st_mtime_ns
    tables(recipe, tmp_path, "out").table(1)
    assert ids.stat().st_mtime_ns == before


def test_every_source_has_its_tag_and_unread_origins_add_nothing(recipe: Recipe, tmp_path: Path) -> None:
    plain, tagged = (rows(tables(recipe, tmp_path, f"tag-{tag}", tag), 0) for tag in (None, 7))
    assert tagged == [([7, *source], target) for source, target in plain]
    none = tables(recipe, tmp_path, "none")
    none._readings = np.zeros(1)
    assert rows(none, 0) == []


@pytest.mark.parametrize("module", ["model.augmentation.drawing", "model.cleaning.clean"])
def test_what_runs_in_many_processes_loads_no_torch(module: str) -> None:
    """Torch takes seconds to load, in every process."""
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
