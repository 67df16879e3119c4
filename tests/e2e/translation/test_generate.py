"""A real server with models of other tasks than translation, and `dragoman generate`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.service.translation.file_translation import translate_lines
from tests.support.factories import parallel_text, renamed
from tests.support.server_process import RunningServer, command, serving

SENTENCES, _ = parallel_text(20, seed=3)
TASK = "everyday-german"


def of_task(bundle: Path, to: Path, name: str) -> Path:
    """Copy a bundle, and say that its task is another."""
    return renamed(bundle, to, name, "en-de", task=TASK, segmentation="none")


@pytest.fixture(scope="module")
def bundles(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("tasks")
    return {
        "translates": renamed(tiny_bundle, directory / "a", "translates", "en-de"),
        "first": of_task(tiny_bundle, directory / "b", "first"),
        "second": of_task(tiny_bundle, directory / "c", "second"),
    }


@pytest.fixture(scope="module")
def server(bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("log") / "log"
    with serving(list(bundles.values()), log, max_kv_cache_mib=200, max_texts=25) as running:
        yield running


def ask(server: RunningServer, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=fields, timeout=60)


def test_texts_go_through_the_model_whole_and_as_they_are(
    server: RunningServer, bundles: dict[str, Path]
) -> None:
    answer = ask(server, "/generate", inputs=SENTENCES, model="first")
    assert answer.status_code == 200
    assert answer.json()["model"] == "first"
    assert answer.json()["outputs"] == translate_lines(bundles["translates"], SENTENCES, split=False)
    assert answer.headers["Server-Timing"].startswith("parse")
    two = " ".join(SENTENCES[:2])
    whole = ask(server, "/generate", inputs=two, model="first").json()["outputs"]
    cut = ask(server, "/translate", q=two, source="en", target="de").json()["translatedText"]
    assert cut == " ".join(answer.json()["outputs"][:2])
    assert isinstance(whole, str)
    assert whole != cut  # nobody cut it into sentences
    assert ask(server, "/generate", inputs=["", SENTENCES[0]], model="first").json()["outputs"] == [
        "",
        answer.json()["outputs"][0],
    ]


def test_decoding_options_are_those_of_translations(server: RunningServer) -> None:
    fields = {"inputs": SENTENCES[:3], "model": "second", "beam_size": 4, "num_hypotheses": 3, "scores": True}
    answer = ask(server, "/generate", **fields).json()
    assert [len(others) for others in answer["alternatives"]] == [2, 2, 2]
    assert [sorted(scores, reverse=True) for scores in answer["scores"]] == answer["scores"]
    assert answer["finishReason"] == ["eos"] * 3
    short = ask(server, "/generate", inputs=SENTENCES[0], model="second", max_decoding_length=2).json()
    assert short["finishReason"] == "length"
    begun = ask(server, "/generate", inputs=SENTENCES[0], model="second", target_prefix="der").json()
    assert begun["outputs"].startswith("der")


@pytest.mark.parametrize(
    ("path", "fields", "code", "message"),
    [
        ("/generate", {"inputs": "x", "model": "translates"}, "invalid_request", "ask POST /translate"),
        ("/generate", {"inputs": "x"}, "invalid_request", "model is missing; there are first, second"),
        (
            "/generate",
            {"inputs": "x", "model": "x"},
            "invalid_request",
            "not served; there are first, second",
        ),
        ("/generate", {"inputs": [], "model": "first"}, "invalid_request", "inputs is an empty array"),
        ("/generate", {"inputs": [1], "model": "first"}, "invalid_request", "inputs must be a string or"),
        ("/generate", {"inputs": 1, "model": "first"}, "invalid_request", "inputs must be a string or"),
        ("/generate", {"model": "first"}, "invalid_request", "inputs: field required"),
        ("/generate", {"inputs": ["x"] * 26, "model": "first"}, "too_many_texts", "at most 25"),
        ("/generate", {"inputs": "the " * 300, "model": "first"}, "text_too_long", "tokens"),
        ("/generate", {"inputs": "x", "model": "first", "beam_size": 3}, "invalid_option", "beam_size must"),
    ],
)
def test_what_cannot_be_served_is_refused(
    server: RunningServer, path: str, fields: dict[str, Any], code: str, message: str
) -> None:
    answer = ask(server, path, **fields)
    assert (answer.status_code // 100, answer.json()["code"]) == (4, code)
    assert message in answer.json()["error"]


def test_translations_know_nothing_of_the_other_models(server: RunningServer) -> None:
    languages = httpx.get(f"{server.url}/languages", timeout=20).json()
    assert [(one["code"], one["targets"]) for one in languages] == [("en", ["de"]), ("de", [])]
    models = httpx.get(f"{server.url}/models", timeout=20).json()["models"]
    assert {one["name"]: (one["task"], one["segmentation"]) for one in models} == {
        "translates": ("translation", "sentences"),
        "first": (TASK, "none"),
        "second": (TASK, "none"),
    }


def test_deadlines_metrics_and_the_log_are_those_of_translations(server: RunningServer) -> None:
    before = server.metrics()
    counted = 'dragoman_model_sentences_total{model="first"}'
    late = httpx.post(
        f"{server.url}/generate",
        json={"inputs": [f"{text} {n}" for n, text in enumerate(SENTENCES)], "model": "first"},
        headers={"X-Request-Timeout-Ms": "1"},
        timeout=60,
    )
    assert late.status_code == 504
    ask(server, "/generate", inputs="the bird sees a bird.", model="first")
    after = server.metrics()
    assert after[counted] > before[counted]
    answered = 'dragoman_http_requests_total{code="200",method="POST",route="/generate"}'
    assert after[answered] == before.get(answered, 0) + 1
    assert '"route": "/generate"' in server.log.read_text(encoding="utf-8")
    assert '"model": "first"' in server.log.read_text(encoding="utf-8")


def test_a_server_without_translation_says_so(bundles: dict[str, Path], tmp_path: Path) -> None:
    with serving(bundles["first"], tmp_path / "log") as alone:
        assert ask(alone, "/generate", inputs=SENTENCES[0]).json()["model"] == "first"
        refused = ask(alone, "/translate", q="x", source="en", target="de")
        assert refused.status_code == 400
        assert "no model here translates" in refused.json()["error"]
        assert httpx.get(f"{alone.url}/languages", timeout=20).json() == []
        assert ask(alone, "/detect", q="the cat").status_code == 200
        assert httpx.get(f"{alone.url}/", timeout=20).status_code == 200


def run(name: str, bundle: Path, text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    asked = command(name, bundle, "--workers", "1", *options)
    return subprocess.run(asked, input=text, capture_output=True, timeout=120)


def test_the_command_writes_one_line_for_each(bundles: dict[str, Path]) -> None:
    text = f"{SENTENCES[0]}\n\n{SENTENCES[1]} {SENTENCES[2]}\r\n".encode()
    ended = run("generate", bundles["first"], text)
    expected = translate_lines(bundles["first"], [SENTENCES[0], f"{SENTENCES[1]} {SENTENCES[2]}"])
    assert ended.stdout.decode() == f"{expected[0]}\n\n{expected[1]}\r\n"
    assert ended.returncode == 0
    listed = run("generate", bundles["first"], text[:10], "--beam-size", "4", "--n-best", "2").stdout
    assert [line.split(b" ||| ")[0] for line in listed.splitlines()] == [b"0", b"0"]


def test_each_command_refuses_the_models_of_the_other(bundles: dict[str, Path]) -> None:
    for name, bundle, message in (
        ("generate", "translates", b"translates translates: dragoman translate"),
        ("translate", "first", b"its task is everyday-german"),
    ):
        ended = run(name, bundles[bundle], b"x\n")
        assert ended.returncode == 2
        assert message in ended.stderr
