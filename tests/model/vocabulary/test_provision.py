"""A run takes its vocabulary from another run, a checkpoint or a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece

from model.recipe import RecipeError, load_recipe
from model.training.trainer import Trainer
from tests.support.toy_training import write_corpus, write_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., Path]:
    write_corpus(tmp_path)

    def written(vocabulary: str = "", **training: object) -> Path:
        file = write_recipe(tmp_path, max_updates=2, validate_every=2, average_checkpoints=0, **training)
        if vocabulary:
            file.write_text(file.read_text().replace("[vocabulary]", f"[vocabulary]\n{vocabulary}"))
        return file

    return written


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("place", ["", "best", "source.spm"])
def test_the_vocabulary_of_another_run_is_taken(
    recipe: Callable[..., Path], tmp_path: Path, place: str, joint: bool
) -> None:
    file = recipe("" if joint else "joint = false")
    if not joint:
        file.write_text(file.read_text().replace("size = 345", "size = 310"))
    Trainer(file, tmp_path / "first", quiet=True).run()
    file = recipe(f'path = "first/{place}"')
    second = Trainer(file, tmp_path / "second", quiet=True)
    # A file is the vocabulary of both languages.
    both = [] if joint or place.endswith(".spm") else ["target.spm"]
    assert sorted(path.name for path in (tmp_path / "second").glob("*.spm")) == ["source.spm", *both]
    for name in ("source.spm", *both):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    assert second.config.share_source_target_embeddings is not bool(both)
    second.run()


def test_what_cannot_be_taken_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none.source\.spm: no such vocabulary|none: no such vocabulary"):
        Trainer(recipe('path = "none"'), tmp_path / "run", quiet=True)
    with pytest.raises(RecipeError, match=r"comes with training\.initialise_from already"):
        load_recipe(recipe('path = "x.spm"', initialise_from="first/best"))
    Trainer(recipe(), tmp_path / "first", quiet=True)
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("γλώσσα και λέξεις\n" * 100)
    with pytest.raises(
        RecipeError, match=r"vocabulary\.path: the vocabulary of .*first was learnt for other"
    ):
        Trainer(recipe('path = "first"'), tmp_path / "run", quiet=True)


def test_a_vocabulary_with_other_special_ids_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "train.en"), model_prefix=str(tmp_path / "plain"), vocab_size=30, minloglevel=2
    )
    with pytest.raises(
        RecipeError, match=r"plain\.model: has pad_id -1, unk_id 0, .*, but a run needs pad_id 0, unk_id 1, "
    ):
        Trainer(recipe('path = "plain.model"'), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "source.spm").exists()


def test_a_start_with_other_special_ids_is_refused(recipe: Callable[..., Path], tmp_path: Path) -> None:
    best = Trainer(recipe(), tmp_path / "first", quiet=True).run()
    values = json.loads((best / "config.json").read_text())
    values["special_tokens"] |= {"eos_id": 1, "decoder_start_id": 0, "source_suffix_ids": [1]}  # as in T5
    (best / "config.json").write_text(json.dumps(values))
    with pytest.raises(RecipeError, match=r"first/best: has eos_id 1 instead of 3, decoder_start_id 0 inst"):
        Trainer(recipe(initialise_from="first/best"), tmp_path / "second", quiet=True)
    assert not (tmp_path / "second").exists()
    # A new vocabulary has its own.
    Trainer(recipe(initialise_from="first/best", shrink=True), tmp_path / "second", quiet=True)
