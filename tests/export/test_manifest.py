"""Directions of a bundle: a few that are listed, or those between all of its languages."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from export.bundle import Framing, Manifest

LANGUAGES = [
    {"code": "en", "source_prefix_ids": [300], "source_suffix_ids": [301], "target_prefix_ids": [302]},
    {"code": "de", "source_prefix_ids": [310], "target_prefix_ids": [312]},
    {"code": "zh-Hant", "target_prefix_ids": [322]},
]


@pytest.fixture
def values(tiny_bundle: Path) -> dict[str, Any]:
    stated: dict[str, Any] = json.loads((tiny_bundle / "manifest.json").read_text(encoding="utf-8"))
    return stated


def test_a_direction_has_its_ids_around_those_that_all_have(values: dict[str, Any]) -> None:
    values["special_tokens"] |= {"source_prefix_ids": [9], "target_prefix_ids": [8]}
    values["directions"][0] |= LANGUAGES[0] | {"code": None}
    del values["directions"][0]["code"]
    manifest = Manifest.model_validate(values)
    assert manifest.framing("en", "de") == Framing((9, 300), (3, 301), (8, 302))
    assert list(manifest.pairs) == [("en", "de")]
    assert manifest.sources == ("en",)


def test_languages_are_directions_between_all_of_them(values: dict[str, Any]) -> None:
    manifest = Manifest.model_validate(values | {"directions": [], "languages": LANGUAGES})
    assert len(list(manifest.pairs)) == 6
    assert ("zh-Hant", "en") in list(manifest.pairs)
    assert manifest.sources == ("en", "de", "zh-Hant")
    assert manifest.framing("en", "de") == Framing((300,), (3, 301), (312,))
    assert manifest.framing("zh-Hant", "en") == Framing((), (3,), (302,))
    for pair in (("en", "en"), ("en", "fr")):
        with pytest.raises(KeyError):
            manifest.framing(*pair)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"directions": []}, "needs either directions or several languages"),
        ({"languages": LANGUAGES}, "needs either directions or several languages"),
        ({"directions": [], "languages": LANGUAGES[:1]}, "needs either directions or several languages"),
        ({"directions": [], "languages": LANGUAGES[:1] * 2}, "two languages have the same code"),
        (
            {"directions": [], "languages": [*LANGUAGES, {"code": "fr", "target_prefix_ids": [9999]}]},
            "a token id lies outside the vocabulary",
        ),
    ],
)
def test_languages_that_do_not_fit_are_refused(
    values: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Manifest.model_validate(values | changes)


def test_a_golden_sentence_begins_with_its_prefix(values: dict[str, Any]) -> None:
    golden = values["golden"][0]
    golden["target_prefix_ids"] = golden["target_ids"][:1]
    Manifest.model_validate(values)
    golden["target_prefix_ids"] = [golden["target_ids"][0] + 1]
    with pytest.raises(ValidationError, match="does not begin with its target prefix"):
        Manifest.model_validate(values)


def test_a_task_needs_one_direction_and_whole_texts(values: dict[str, Any]) -> None:
    task = {"task": "summarization", "segmentation": "none"}
    manifest = Manifest.model_validate(values | task)
    assert (manifest.translates, Manifest.model_validate(values).translates) == (False, True)
    for wrong in ({"segmentation": "sentences"}, {"directions": [], "languages": LANGUAGES}):
        with pytest.raises(ValidationError, match="a task other than translation needs"):
            Manifest.model_validate(values | task | wrong)
    with pytest.raises(ValidationError, match="task"):
        Manifest.model_validate(values | task | {"task": "Two words"})
