"""Every decoding flag of `dragoman translate`: what the process writes is what the engine says to these options.

The engine is run in this process on the same bundle, with options that are written down here once more.
"""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.engine.sequence import DecodingOptions, NullObserver, SequenceResult
from server.service.loading import load_model
from server.service.model import ServedModel
from server.settings import Settings
from tests.factories import parallel_text
from tests.server_process import command, serving

WAIT_S = 60.0
LONGEST = 60
BASE = DecodingOptions(max_decoding_length=LONGEST)

LINES = [
    *parallel_text(9, seed=21)[0],
    # What the model never saw: it hesitates, so that options show.
    "every tired qux zebra and a bird bird bird knows.",
    "lamp lamp the the city city?",
    "looks for a a small flower knows the clever",
]

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


@pytest.fixture(scope="module")
def plain(run: Run) -> list[SequenceResult]:
    return run(BASE)


def texts(model: ServedModel, results: list[SequenceResult], nth: int = 0) -> list[str]:
    return [model.tokenizer.decode(result.hypotheses[nth].tokens) for result in results]


def translate(bundle: Path, *flags: str) -> list[str]:
    ended = subprocess.run(
        command("translate", bundle, "--workers", "1", "--no-split", *flags),
        input="\n".join(LINES).encode(),
        capture_output=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode().split("\n")


CHANGES: dict[str, dict[str, Any]] = {
    "--beam-size 4": {"beam_size": 4},
    "--beam-size 4 --length-penalty -10": {"beam_size": 4, "length_penalty": -10.0},
    "--beam-size 4 --length-penalty 10": {"beam_size": 4, "length_penalty": 10.0},
    "--beam-size 4 --early-stopping true": {"beam_size": 4, "early_stopping": True},
    "--beam-size 4 --early-stopping false": {"beam_size": 4, "early_stopping": False},
    "--beam-size 4 --early-stopping never": {"beam_size": 4, "early_stopping": "never"},
    "--repetition-penalty 3": {"repetition_penalty": 3.0},
    "--no-repeat-ngram-size 1": {"no_repeat_ngram_size": 1},
    "--min-decoding-length 40": {"min_decoding_length": 40},
    "--sampling-topk 0 --sampling-temperature 2 --seed 7": {
        "sampling_topk": 0,
        "sampling_temperature": 2.0,
        "seed": 7,
    },
    "--sampling-topk 5 --sampling-topp 0.9 --sampling-temperature 2 --seed 7": {
        "sampling_topk": 5,
        "sampling_topp": 0.9,
        "sampling_temperature": 2.0,
        "seed": 7,
    },
}


@pytest.mark.parametrize("flags", CHANGES)
def test_a_flag_does_what_the_option_does(
    tiny_bundle: Path, model: ServedModel, run: Run, plain: list[SequenceResult], flags: str
) -> None:
    results = run(replace(BASE, **CHANGES[flags]))
    longest = ("--max-decoding-length", str(LONGEST))
    assert translate(tiny_bundle, *flags.split(), *longest) == texts(model, results)
    assert [result.hypotheses for result in results] != [result.hypotheses for result in plain]


def test_no_flag_is_greedy_search(
    tiny_bundle: Path, model: ServedModel, run: Run, plain: list[SequenceResult]
) -> None:
    """And flags that say what holds without them change nothing."""
    said = "--beam-size 1 --length-penalty 1 --repetition-penalty 1 --no-repeat-ngram-size 0 --sampling-topk 1"
    written = translate(tiny_bundle, *said.split(), "--max-decoding-length", str(LONGEST))
    assert written == texts(model, plain)


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
    with serving(tiny_bundle, tmp_path / "log") as server:
        with httpx.Client(base_url=server.url, timeout=WAIT_S) as client:
            answer = client.post("/translate", json=body | {"beam_size": 4, "alternatives": 2}).json()
            assert answer["translatedText"] == texts(model, several)
            others = zip(texts(model, several, 1), texts(model, several, 2), strict=True)
            assert answer["alternatives"] == [list(pair) for pair in others]
            answer = client.post("/translate", json=body | {"target_prefix": "Amsel"}).json()
            assert answer["translatedText"] == texts(model, begun)
            assert all(text.startswith("Amsel") for text in answer["translatedText"])
