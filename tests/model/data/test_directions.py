"""Models of several directions: recipes, tags, training, export, and the server's engine on the result."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from export.bundle import load_manifest
from export.gate_texts import ExportError
from export.pipeline import ExportOptions, export_bundle
from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.evaluation import checkpoint_translator
from model.recipe import RecipeError, load_recipe
from model.training.trainer import Trainer
from server.errors import UnsupportedLanguageError
from server.service.translation.file_translation import translate_lines
from tests.support.toy_training import PAIRS, write_corpus, write_recipe

NUMBERS = {word: f"n{number}" for number, word in enumerate(PAIRS)}
"""A second target language of the toy: every word is a number."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the toy's corpus in three languages."""
    folder = tmp_path_factory.mktemp("directions")
    write_corpus(folder, train=900, dev=220)
    for part in ("train", "dev"):
        lines = (folder / f"{part}.en").read_text().splitlines()
        said = (" ".join(NUMBERS[word] for word in line.split()) for line in lines)
        (folder / f"{part}.fr").write_text("".join(f"{line}\n" for line in said))
    return folder


def direction(source: str, target: str) -> str:
    files = {
        f"{part}_{side}": [f"{part}.{language}"]
        for part in ("train", "dev")
        for side, language in (("source", source), ("target", target))
    }
    values = {"source_language": source, "target_language": target, **files}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def recipe_of(folder: Path, name: str, *pairs: str, **training: object) -> Path:
    """Write a recipe of several directions."""
    text = write_recipe(folder, **training).read_text()
    head, rest = text.split("[corpus]\n")
    rest = rest[rest.index("[vocabulary]") :]
    sections = "".join(f"[[corpus.directions]]\n{direction(*pair.split('-'))}" for pair in pairs)
    file = folder / f"{name}.toml"
    file.write_text(f"{head}{sections}{rest}".replace("size = 345", "size = 380"))
    return file


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """Train one model for three directions, two of them from the same language."""
    file = recipe_of(
        folder, "three", "en-de", "en-fr", "de-en",
        max_updates=1100, validate_every=300, cooldown_updates=300, average_checkpoints=0,
    )  # fmt: skip
    return Trainer(file, folder / "run", quiet=True).run()


@pytest.fixture(scope="module")
def bundle(folder: Path, trained: Path) -> Path:
    """Export it, with a dev set a direction."""
    options = ExportOptions(
        dev_source=[folder / "dev.en", folder / "dev.en", folder / "dev.de"],
        dev_target=[folder / "dev.de", folder / "dev.fr", folder / "dev.en"],
        calibration=[folder / "train.en", folder / "train.en", folder / "train.de"],
        beam_widths=(1, 2),
        allow_quality_loss=True,
    )
    export_bundle(trained, folder / "bundle", options)
    return folder / "bundle"


def right(folder: Path, pair: str, translate: Callable[[list[str]], list[str]]) -> float:
    """Measure the share of words of a direction's dev set that come out right, each in its place."""
    source, target = ((folder / f"dev.{code}").read_text().splitlines() for code in pair.split("-"))
    found = [one.split() for one in translate(source)]
    words = [one.split() for one in target]
    same = sum(sum(map(str.__eq__, *both)) for both in zip(found, words, strict=True))
    return same / sum(map(len, words))


@pytest.mark.parametrize("pair", ["en-de", "en-fr", "de-en"])
def test_every_direction_is_learnt_and_served(folder: Path, trained: Path, bundle: Path, pair: str) -> None:
    assert right(folder, pair, checkpoint_translator(trained, pair)) > 0.8
    assert right(folder, pair, lambda lines: translate_lines(bundle, lines, direction=pair)) > 0.8


def test_the_tag_is_a_piece_that_no_text_produces(trained: Path) -> None:
    checkpoint = load_checkpoint(trained)
    pieces = checkpoint.tokenizer.source_pieces()
    tags = {pair.name: pair.source_prefix_ids for pair in checkpoint.config.all_directions}
    assert {name: [pieces[id] for id in ids] for name, ids in tags.items()} == {
        "en-de": [">>de<<"],
        "en-fr": [">>fr<<"],
        "de-en": [">>en<<"],
    }
    typed = checkpoint.tokenizer.encode(">>fr<< the cat")
    assert not {id for ids in tags.values() for id in ids} & set(typed)


def test_validation_and_bundle_tell_scores_by_direction(folder: Path, trained: Path, bundle: Path) -> None:
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [record for record in records if record["kind"] == "valid"][-1]["bleu_by_direction"]
    assert set(last) == {"en-de", "en-fr", "de-en"}
    assert min(last.values()) > 50
    samples = [json.loads(line) for line in (folder / "run" / "samples.jsonl").read_text().splitlines()]
    assert {sample["direction"] for sample in samples} == set(last)
    manifest = load_manifest(bundle)
    assert manifest.quality is not None
    assert {name: set(scores) for name, scores in manifest.quality.by_direction.items()} == {
        name: {"fp32", "int8"} for name in last
    }
    assert manifest.quality.sentences == 3 * 220
    assert "| int8, de-en | " in (bundle / "MODEL_CARD.md").read_text()
    tags = {pair.source_prefix_ids for pair in manifest.directions}
    assert {golden.source_ids[:1] for golden in manifest.golden} == tags


def test_one_target_language_needs_no_tag(folder: Path) -> None:
    file = recipe_of(folder, "into", "de-en", "fr-en", max_updates=2, validate_every=2, average_checkpoints=0)
    config = load_checkpoint(Trainer(file, folder / "into", quiet=True).run()).config
    assert [(pair.name, pair.source_prefix_ids) for pair in config.all_directions] == [
        ("de-en", []),
        ("fr-en", []),
    ]
    more = recipe_of(folder, "more", "de-en", "fr-en", "en-de", max_updates=2, initialise_from="into/best")
    with pytest.raises(RecipeError, match=r"has no >>en<<, >>de<<: it was not learnt for these"):
        Trainer(more, folder / "more", quiet=True)
    given = recipe_of(folder, "given", "de-en", "en-de", max_updates=2)
    given.write_text(given.read_text().replace("[vocabulary]", '[vocabulary]\npath = "into/best"'))
    with pytest.raises(RecipeError, match=r"has no >>en<<, >>de<<: .*without .*vocabulary\.path"):
        Trainer(given, folder / "given", quiet=True)


def test_what_is_no_direction_is_refused(folder: Path, trained: Path, bundle: Path) -> None:
    with pytest.raises(CheckpointError, match=r"fr-en is not one of its directions: en-de, en-fr, de-en"):
        checkpoint_translator(trained, "fr-en")
    with pytest.raises(UnsupportedLanguageError, match=r"fr-en is not a direction .*: en-de, en-fr, de-en"):
        translate_lines(bundle, ["n1"], direction="fr-en")
    four = [folder / "dev.en"] * 4
    with pytest.raises(
        ExportError, match=r"4 source files, but toy has 3 direction\(s\): en-de, en-fr, de-en"
    ):
        export_bundle(trained, folder / "four", ExportOptions(dev_source=four))
    options = ExportOptions(dev_source=four[:2], dev_target=[folder / "dev.de"])
    with pytest.raises(ExportError, match=r"2 source files but 1 of translations"):
        export_bundle(trained, folder / "two", options)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[[corpus.directions]]",
            "[corpus]\nsource_language = 'en'\n[[corpus.directions]]",
            "corpus.source_",
        ),
        ('target_language = "fr"', 'target_language = "de"', "en-de is there twice; join its files in one"),
        ("[vocabulary]", "[augment]\nnumber_words.en-es = {}\n[vocabulary]", "en-es is no direction"),
        ('source_language = "en"\n', "", "corpus.directions.0.source_language: Field required"),
    ],
)
def test_recipes_that_contradict_themselves(
    folder: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = recipe_of(folder, "wrong", "en-de", "en-fr", max_updates=1).read_text()
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(RecipeError, match=message):
        load_recipe(file)


def test_a_missing_setting_is_named_where_it_was_expected(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(write_recipe(folder, max_updates=1).read_text().replace('source_language = "en"\n', ""))
    with pytest.raises(RecipeError, match=r"wrong.toml: corpus.source_language: Field required"):
        load_recipe(file)
