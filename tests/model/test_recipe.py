"""The recipes of this repository: readable, with their text held out and their sources named."""

from pathlib import Path

import pytest

from model.cleaning.plan import load_plan
from model.recipe import RecipeError, load_recipe
from tests.support.toy_training import write_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
PLANS = sorted(RECIPES.glob("*.corpus.toml"))


@pytest.mark.parametrize("path", sorted(set(RECIPES.glob("*.toml")) - set(PLANS)), ids=lambda path: path.stem)
def test_every_recipe_can_be_read(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.corpus.attribution or "multi30k" in path.stem


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_holds_out_what_its_recipes_measure(path: Path) -> None:
    plan = load_plan(path)
    held_out = {file.name for text in plan.held_out for file in (*text.first, *text.second)}
    for language in plan.languages:
        assert {f"{part}.{language}.gz" for part in ("dev", "test", "other")} <= held_out
    files = {file.resolve() for text in plan.held_out for file in (*text.first, *text.second)}
    first, second = plan.languages
    for name in (f"{first}-{second}", f"{second}-{first}"):
        (text,) = load_recipe(RECIPES / f"broad-{name}.toml").corpus.directions
        assert {file.resolve() for file in (*text.dev_source, *text.dev_target)} <= files
        assert len(text.train_origin) == len(text.train_source)


def test_an_attribution_may_lie_beside_the_recipe(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, max_updates=1)
    file.write_text(
        file.read_text().replace("[corpus]", '[corpus]\nattribution = "One."\nattribution_file = "a"')
    )
    (tmp_path / "a").write_text("Two.\n")
    assert load_recipe(file).corpus.attribution == "One.\nTwo."
    (tmp_path / "a").unlink()
    with pytest.raises(RecipeError, match="attribution_file cannot be read"):
        load_recipe(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[corpus]", 'task = "Summarize!"\n[corpus]', "task: String should match"),
        ("[vocabulary]", '[vocabulary]\ntarget_kind = "word"', "a joint vocabulary has one kind"),
    ],
)
def test_what_a_task_or_a_vocabulary_cannot_be_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = write_recipe(tmp_path, max_updates=1)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(RecipeError, match=message):
        load_recipe(file)


def test_a_folder_is_no_recipe() -> None:
    with pytest.raises(RecipeError, match="recipes: cannot be read: Is a directory"):
        load_recipe(RECIPES)
