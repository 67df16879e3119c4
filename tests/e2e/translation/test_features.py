"""Models whose sources are feature vectors, from a recipe to `POST /generate`, with real sockets."""

import base64
import io
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from export.bundle import load_manifest
from export.graph.runner import GraphRunner
from model.features.encoded import to_base64
from model.features.files import read_features, write_features
from tests.e2e.translation.test_generate import of_task
from tests.support.server_process import RunningServer, command, serving
from tests.support.toy_features import SIZE, described, features_bundle

FEATURES, WORDS = described(24, seed=9)
GIVEN = [to_base64(one) for one in FEATURES]
LONGEST = 32


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return features_bundle(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def bundles(bundle: Path, tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [bundle, of_task(tiny_bundle, tmp_path_factory.mktemp("text") / "b", "text")]


@pytest.fixture(scope="module")
def server(bundles: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("log") / "log"
    with serving(bundles, log, max_kv_cache_mib=200, max_texts=40) as running:
        yield running


def ask(server: RunningServer, path: str = "/generate", **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json={"model": "toy-features"} | fields, timeout=60)


def npy(array: Any, **options: Any) -> str:
    file = io.BytesIO()
    np.save(file, array, **options)
    return base64.b64encode(file.getvalue()).decode()


def with_header(header: str, values: bytes = b"") -> str:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    return base64.b64encode(start + values).decode()


def test_features_become_text(server: RunningServer) -> None:
    answer = ask(server, features=GIVEN)
    assert answer.status_code == 200
    outputs = answer.json()["outputs"]
    assert sum(one == other for one, other in zip(outputs, WORDS, strict=True)) >= 15
    alone = ask(server, features=GIVEN[0]).json()
    assert alone == {"outputs": outputs[0], "model": "toy-features"}
    models = httpx.get(f"{server.url}/models", timeout=20).json()["models"]
    assert {one["name"]: one["source_features"] for one in models} == {"toy-features": SIZE, "text": 0}


def test_a_form_may_bring_features_too(server: RunningServer) -> None:
    form = {"features": GIVEN[0], "model": "toy-features", "beam_size": "2"}
    answer = httpx.post(f"{server.url}/generate", data=form, timeout=60)
    assert answer.json()["outputs"] == ask(server, features=GIVEN[0], beam_size=2).json()["outputs"]


def test_scores_are_the_same_bits_alone_and_with_any_others(server: RunningServer) -> None:
    short = [to_base64(one[:length]) for length, one in enumerate(FEATURES[:6], start=1)]
    given = short + GIVEN
    options = {"scores": True, "cache": False, "beam_size": 2, "num_hypotheses": 2}
    together = ask(server, features=given, **options).json()
    with ThreadPoolExecutor(8) as pool:  # what is on its way at the same time shares steps
        alone = list(pool.map(lambda one: ask(server, features=one, **options).json(), given))
    assert [one["outputs"] for one in alone] == together["outputs"]
    assert [one["scores"] for one in alone] == together["scores"]
    assert len({tuple(scores) for scores in together["scores"]}) > len(given) // 2


def test_the_bundle_says_what_it_reads_and_every_bit_is_the_same_in_a_batch(bundle: Path) -> None:
    manifest = load_manifest(bundle)
    assert (manifest.architecture.source_features, manifest.precision) == (SIZE, "int8")
    assert manifest.batch_invariant
    assert all(one.source_features and not one.source for one in manifest.golden)
    runner = GraphRunner.of_bundle(bundle, manifest)
    some = [one[:length] for length, one in enumerate(FEATURES[:9], start=1)]
    together = runner.encode(some)
    for row, one in enumerate(some):
        for name, alone in runner.encode([one]).items():
            assert np.array_equal(alone[0], together[name][row][:, : len(one)])


def test_the_cache_knows_features_by_their_bytes(bundle: Path, tmp_path: Path) -> None:
    with serving([bundle], tmp_path / "log", cache_bytes=1 << 20) as cached:
        first = ask(cached, features=GIVEN[0])
        again = ask(cached, features=npy(FEATURES[0].astype("<f8")))
        assert [one.headers["X-Cache"] for one in (first, again)] == ["miss", "hit"]
        assert again.json() == first.json()
        other = FEATURES[0].copy()
        other[0, 0] += 1
        assert ask(cached, features=to_base64(other)).headers["X-Cache"] == "miss"


SHAPE = "'fortran_order': False, 'shape': (2, 5), }"
BAD = {
    "nothing": ("", "invalid_request"),
    "not base64": ("###", "invalid_request"),
    "not ASCII": ("é" * 40, "invalid_request"),
    "base64 of something else": ("AAAA" * 40, "invalid_request"),
    "cut within the magic": (GIVEN[0][:8], "invalid_request"),
    "cut within the header": (GIVEN[0][:80], "invalid_request"),
    "cut within the values": (GIVEN[0][:-40], "invalid_request"),
    "more bytes than it says": (
        base64.b64encode(base64.b64decode(GIVEN[0]) + b"more").decode(),
        "invalid_request",
    ),
    "an .npz": (base64.b64encode(b"PK\x03\x04" + bytes(200)).decode(), "invalid_request"),
    "one dimension": (npy(FEATURES[0][0]), "invalid_request"),
    "three dimensions": (npy(FEATURES[0][None]), "invalid_request"),
    "another size": (npy(np.zeros((4, SIZE + 1), np.float32)), "invalid_request"),
    "no vectors": (npy(np.zeros((0, SIZE), np.float32)), "invalid_request"),
    "whole numbers": (npy(np.zeros((4, SIZE), np.int64)), "invalid_request"),
    "big-endian": (npy(np.zeros((4, SIZE), ">f4")), "invalid_request"),
    "complex": (npy(np.zeros((4, SIZE), np.complex64)), "invalid_request"),
    "column by column": (npy(np.asfortranarray(FEATURES[0])), "invalid_request"),
    "pickled objects": (npy(np.array([[{}] * SIZE], object), allow_pickle=True), "invalid_request"),
    "records": (npy(np.zeros(3, [("a", "<f4")])), "invalid_request"),
    "not a number": (npy(np.full((4, SIZE), np.nan)), "invalid_request"),
    "infinity": (npy(np.full((4, SIZE), -np.inf, np.float32)), "invalid_request"),
    "too large for 32 bits": (npy(np.full((4, SIZE), 1e300)), "invalid_request"),
    "a header that asks for all memory": (
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 5), }"),
        "text_too_long",
    ),
    "a header of a negative size": (
        with_header(f"{{'descr': '<f4', {SHAPE}".replace("2", "-2")),
        "invalid_request",
    ),
    "a header that is a program": (with_header("__import__('os').abort()"), "invalid_request"),
    "a header of parentheses": (with_header("(" * 900), "invalid_request"),
    "a header without an end": (with_header("{'descr': " + " " * 900), "invalid_request"),
    "a header of text beyond its bound": (with_header(" " * 1500), "invalid_request"),
    "a header longer than all there is": (
        base64.b64encode(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(90)).decode(),
        "invalid_request",
    ),
    "version 9": (base64.b64encode(b"\x93NUMPY\x09\x00" + bytes(90)).decode(), "invalid_request"),
    "one vector too many": (npy(np.zeros((LONGEST + 1, SIZE), np.float32)), "text_too_long"),
    "a megabyte": (npy(np.zeros((30_000, SIZE), np.float32)), "text_too_long"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_features_are_refused_alone_and_among_good_ones(server: RunningServer, name: str) -> None:
    given, code = BAD[name]
    for features in (given, [GIVEN[0], given, GIVEN[1]]):
        answer = ask(server, features=features)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
        assert answer.json()["error"].startswith("features")
        assert len(answer.content) < 300


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"features": []}, "invalid_request", "features is an empty array"),
        ({"features": 5}, "invalid_request", "features must be a string or an array of strings"),
        ({"features": [1]}, "invalid_request", "features must be a string or an array of strings"),
        ({"features": [[0.5] * SIZE]}, "invalid_request", "features must be a string or an array of strings"),
        ({"features": GIVEN[:1] * 41}, "too_many_texts", "at most 40"),
        ({"features": GIVEN[0], "inputs": "x"}, "invalid_request", "give one of them"),
        ({}, "invalid_request", "inputs: field required"),
        ({"inputs": "sun moon"}, "invalid_request", "toy-features reads features"),
        ({"inputs": ""}, "invalid_request", "toy-features reads features"),
        ({"features": GIVEN[0], "model": "text"}, "invalid_request", "text reads inputs"),
    ],
)
def test_what_cannot_be_served_is_refused(
    server: RunningServer, fields: dict[str, Any], code: str, message: str
) -> None:
    answer = ask(server, **fields)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert message in answer.json()["error"]


def test_features_that_are_refused_are_not_in_the_log(server: RunningServer) -> None:
    secret = base64.b64encode(b"secret secret").decode()
    assert ask(server, features=secret).status_code == 400
    assert secret not in server.log.read_text(encoding="utf-8")


def test_draws_depend_on_the_features(server: RunningServer) -> None:
    drawn = {"sampling_topk": 0, "sampling_temperature": 3.0, "seed": 7}
    found = [ask(server, features=GIVEN[0], **drawn).json()["outputs"] for _ in range(2)]
    assert found[0] == found[1] != ask(server, features=GIVEN[0], **drawn | {"seed": 8}).json()["outputs"]


def run(name: str, *arguments: Any, text: bytes = b"x\n") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(name, *arguments), input=text, capture_output=True, timeout=120)


def test_the_command_reads_a_file_of_features(
    bundles: list[Path], server: RunningServer, tmp_path: Path
) -> None:
    write_features(tmp_path / "some.npz", FEATURES)
    ended = run("generate", bundles[0], "--features", tmp_path / "some.npz", "--workers", "1")
    assert ended.stdout.decode().splitlines() == ask(server, features=GIVEN).json()["outputs"]
    assert ended.returncode == 0


def test_commands_refuse_what_is_no_text(bundles: list[Path], tmp_path: Path) -> None:
    write_features(tmp_path / "some.npz", FEATURES)
    (tmp_path / "none.npz").write_bytes(b"none")
    for asked, message in (
        (("generate", bundles[0]), b"toy-features reads features: --features FILE.npz"),
        (("generate", bundles[1], "--features", tmp_path / "some.npz"), b"text reads text"),
        (("generate", bundles[0], "--features", tmp_path / "none.npz"), b"none.npz: not an .npz of arrays"),
        (("explain", bundles[0], "x"), b"toy-features does not translate"),
    ):
        ended = run(*asked)
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_features(tmp_path / "some.npz", FEATURES)
    back = read_features(tmp_path / "some.npz")
    assert all(np.array_equal(one, other) for one, other in zip(back, FEATURES, strict=True))
