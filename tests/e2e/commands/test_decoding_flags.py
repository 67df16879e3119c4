"""Every decoding flag of `dragoman translate`: the process writes what the engine says to these options.

The engine is run in this process on the same bundle, with options that are written down here once more.
"""

import random
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel
from server.settings import Settings
from tests.support.factories import parallel_text
from tests.support.server_process import command, serving

WAIT_S = 60.0
LONGEST = 60
BASE = DecodingOptions(max_decoding_length=LONGEST)


def confused(count: int) -> list[str]:
    """Words in no order: the model never saw such lines and hesitates, so that options show."""
    draw = random.Random(5)
    words = sorted({word for line in parallel_text(50, seed=22)[0] for word in line.rstrip(".?!").split()})
    return [" ".join(draw.choices(words, k=draw.randint(4, 12))) + "." for _ in range(count)]


LINES = [*parallel_text(6, seed=21)[0], *confused(26)]

Run = Callable[[DecodingOptions], list[SequenceResult]]


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Iterator[ServedModel]:
    model = load_model(Settings(bundle=tiny_bundle, workers=1), NullObserver())
    yield model
    model.engine.close(WAIT_S)


@pytest.fixture(scope="module")
def run(model: ServedModel) -> Run:
    """Run the engine on the lines."""
    suffix = model.manifest.special_tokens.source_suffix_ids
    sources = [(*model.tokenizer.encode(line), *suffix) for line in LINES]

    def run(options: DecodingOptions) -> list[SequenceResult]:
        return [future.result(WAIT_S) for future in model.engine.submit("lines", sources, options)]

    return run


def texts(model: ServedModel, results: list[SequenceResult], nth: int = 0) -> list[str]:
    found = [model.tokenizer.decode(result.hypotheses[nth].tokens) for result in results]
    # A line for a line, whatever bytes are drawn, and no half characters or controls.
    return [re.sub("[\ufffd\x00-\x08\x0e-\x1f]", "", text).replace("\n", " ") for text in found]


def translate(bundle: Path, *flags: str) -> list[str]:
    ended = subprocess.run(
        command("translate", bundle, "--workers", "1", "--no-split", "--guard", "off", *flags),
        input="\n".join(LINES).encode(),
        capture_output=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode().split("\n")


BEAMS = {"beam_size": 4}
PENALISED: dict[str, Any] = {"beam_size": 4, "length_penalty": 5.0}
PATIENT = PENALISED | {"early_stopping": "never"}
HOT = {"sampling_topk": 0, "sampling_temperature": 2.0, "seed": 7}

FLAGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "--beam-size 4": ({}, BEAMS),
    "--beam-size 4 --length-penalty -10": (BEAMS, {"length_penalty": -10.0}),
    "--beam-size 4 --length-penalty 5": (BEAMS, {"length_penalty": 5.0}),
    "--beam-size 4 --length-penalty 5 --early-stopping true": (PATIENT, {"early_stopping": True}),
    "--beam-size 4 --length-penalty 5 --early-stopping false": (PENALISED, {"early_stopping": False}),
    "--beam-size 4 --length-penalty 5 --early-stopping never": (PENALISED, {"early_stopping": "never"}),
    "--repetition-penalty 3": ({}, {"repetition_penalty": 3.0}),
    "--no-repeat-ngram-size 1": ({}, {"no_repeat_ngram_size": 1}),
    "--min-decoding-length 40": ({}, {"min_decoding_length": 40}),
    "--sampling-topk 0 --sampling-temperature 2 --seed 7": ({}, HOT),
    "--sampling-topk 5 --sampling-temperature 2 --seed 7": (HOT, {"sampling_topk": 5}),
    "--sampling-topk 0 --sampling-topp 0.8 --sampling-temperature 2 --seed 7": (HOT, {"sampling_topp": 0.8}),
    "--sampling-topk 0 --sampling-temperature 0.5 --seed 7": (HOT, {"sampling_temperature": 0.5}),
}
"""Flags -> the options of some of them, and the option that is looked at: with it the texts are others."""


@pytest.mark.parametrize("flags", FLAGS)
def test_a_flag_does_what_the_option_does(
    tiny_bundle: Path, model: ServedModel, run: Run, flags: str
) -> None:
    without, option = FLAGS[flags]
    expected = texts(model, run(replace(BASE, **(without | option))))
    assert translate(tiny_bundle, *flags.split(), "--max-decoding-length", str(LONGEST)) == expected
    assert expected != texts(model, run(replace(BASE, **without)))


def test_no_flag_is_greedy_search(tiny_bundle: Path, model: ServedModel, run: Run) -> None:
    """And flags that say what holds without them change nothing."""
    said = (
        "--beam-size 1 --length-penalty 1 --repetition-penalty 1 --no-repeat-ngram-size 0 --sampling-topk 1"
    )
    written = translate(tiny_bundle, *said.split(), "--max-decoding-length", str(LONGEST))
    assert written == texts(model, run(BASE))


def test_lengths_are_counted_in_tokens(tiny_bundle: Path, model: ServedModel, run: Run) -> None:
    short = run(replace(BASE, max_decoding_length=3))
    assert {result.target_tokens for result in short} == {3}
    assert translate(tiny_bundle, "--max-decoding-length", "3") == texts(model, short)
    exact = run(replace(BASE, max_decoding_length=50, min_decoding_length=50))
    assert {result.target_tokens for result in exact} == {50}
    flags = ("--max-decoding-length", "50", "--min-decoding-length", "50")
    assert translate(tiny_bundle, *flags) == texts(model, exact)


def test_a_seed_makes_draws_repeatable(tiny_bundle: Path) -> None:
    drawing = ("--max-decoding-length", str(LONGEST), "--sampling-topk", "0", "--sampling-temperature", "2")
    first = translate(tiny_bundle, *drawing, "--seed", "7")
    assert translate(tiny_bundle, *drawing, "--seed", "7") == first
    assert translate(tiny_bundle, *drawing, "--seed", "8") != first
    assert translate(tiny_bundle, *drawing) != translate(tiny_bundle, *drawing)


def test_over_http_there_are_alternatives_and_prefixes_too(
    tiny_bundle: Path, model: ServedModel, run: Run, tmp_path: Path
) -> None:
    """The two options that the command does not have, because it writes a line for a line."""
    body = {"q": LINES, "source": "en", "target": "de", "max_decoding_length": LONGEST}
    several = run(replace(BASE, beam_size=4, num_hypotheses=3))
    (prefix,) = model.tokenizer.encode_target_batch(["Amsel"])
    begun = run(replace(BASE, target_prefix=tuple(prefix)))
    with (
        serving(tiny_bundle, tmp_path / "log") as server,
        httpx.Client(base_url=server.url, timeout=WAIT_S) as client,
    ):
        answer = client.post("/translate", json=body | {"beam_size": 4, "alternatives": 2}).json()
        assert answer["translatedText"] == texts(model, several)
        others = zip(texts(model, several, 1), texts(model, several, 2), strict=True)
        assert answer["alternatives"] == [list(pair) for pair in others]
        answer = client.post("/translate", json=body | {"target_prefix": "Amsel"}).json()
        assert answer["translatedText"] == texts(model, begun)
        assert all(text.startswith("Amsel") for text in answer["translatedText"])
