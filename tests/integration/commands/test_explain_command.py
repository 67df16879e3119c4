"""`dragoman explain`, by a shipped model and by one that knows nothing of itself."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from server.cli.explain import written
from tests.support.factories import parallel_text
from tests.support.server_process import command


def explain(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command("explain", bundle, *arguments), capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def found(repository: Path) -> dict[str, Any]:
    ended = explain(repository / "bundles" / "en-de", "Hi {name}. The red car is fast.", "--json")
    assert ended.returncode == 0, ended.stderr
    explained: dict[str, Any] = json.loads(ended.stdout)
    return explained


def test_it_says_what_was_read_and_written(found: dict[str, Any]) -> None:
    assert found["translation"].endswith("Das rote Auto ist schnell.")
    run = found["model_runs"][1]
    assert run["read"] == ["▁The", "▁red", "▁car", "▁is", "▁fast", ".", "</s>"]
    tokens = [step["token"] for step in run["wrote"]]
    assert tokens == ["▁Das", "▁rot", "e", "▁Auto", "▁ist", "▁schnell", ".", "(end)"]
    assert run["ended"] == "eos"
    assert set(run["seconds"]) == {"queue", "encode", "decode"}
    assert ["red", "rote"] in [one["words"] for one in found["alignments"]]
    assert "rote" in [one["text"] for one in found["confidence"]["words"]]


def test_alternatives_have_the_probabilities_that_the_search_saw(found: dict[str, Any]) -> None:
    """Greedy search takes the likeliest; what it might have written instead is less likely."""
    for run in found["model_runs"]:
        for step in run["wrote"]:
            assert len(step["instead"]) >= 3
            likely = [each["probability"] for each in step["instead"]]
            assert likely == sorted(likely, reverse=True)
            assert likely[0] <= step["probability"]
            assert step["probability"] + sum(likely) <= 1.001


def test_what_was_dropped_is_another_translation(found: dict[str, Any]) -> None:
    dropped = found["model_runs"][1]["dropped"]
    assert dropped
    assert "Das rote Auto ist schnell." not in [each["text"] for each in dropped]


def test_people_can_read_it(found: dict[str, Any]) -> None:
    text = written(found)
    assert "The red car is fast." in text
    assert "▁Das" in text
    assert "red -> rote" in text


def test_a_model_that_knows_nothing_of_itself_is_explained_without(tiny_bundle: Path) -> None:
    sources, _ = parallel_text(1)
    ended = explain(tiny_bundle, sources[0], "--json")
    assert ended.returncode == 0, ended.stderr
    explained = json.loads(ended.stdout)
    assert explained["alignments"] == explained["confidence"]["words"] == []
    assert explained["model_runs"]


@pytest.mark.parametrize(
    "arguments", [("text", "--beam-size", "77"), ("text", "--target", "ja"), ("caf\udce9",)]
)
def test_what_does_not_fit_is_said_in_a_line(repository: Path, arguments: tuple[str, ...]) -> None:
    ended = explain(repository / "bundles" / "en-de", *arguments)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1


def test_a_model_of_another_task_is_refused(repository: Path) -> None:
    ended = explain(repository / "bundles" / "tasks" / "g2p", "speech")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.endswith("dragoman generate\n")


def test_a_setting_that_does_not_fit_is_wrong_usage(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_MAX_KV_CACHE_MIB", "1")
    ended = explain(repository / "bundles" / "en-de", "text")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "max_kv_cache_mib" in ended.stderr


def test_people_see_where_the_model_looked(found: dict[str, Any]) -> None:
    """A line for each piece that was written, its darkest square under the piece that it stands for."""
    assert "Where the model looked" not in written({**found, "attention": []})
    assert len(found["attention"]) == 2
    lines = written(found).split("Where the model looked")[2].split("Run 1")[0].splitlines()
    columns = [line.split()[-1] for line in reversed(lines[2:9])]
    assert columns == ["▁The", "▁red", "▁car", "▁is", "▁fast", ".", "</s>"]
    (rote,) = [line for line in lines if line.split()[:1] == ["▁rot"]]
    shades = rote.split()[1:8]
    assert max(range(7), key=lambda place: "·░▒▓█".index(shades[place])) == columns.index("▁red")
    assert rote.endswith("% ▁red")
