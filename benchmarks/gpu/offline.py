"""Tokens per second on a GPU: dragoman, CTranslate2 and transformers, all in fp16, in turns in one run.

The models with random weights (`random_model`): they never end by themselves, so that every translation has
as many tokens as it may. Every system has a process of its own; of CTranslate2's settings each row has the
one that is best for it. Ends with code 2 where there is no GPU.

    python -m benchmarks.gpu.offline [--rows base-greedy-256,base-beam4-64] [--rounds 7]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.inputs import vocabulary
from benchmarks.inputs.workload import FORCED_TOKENS, Row, parse_row
from benchmarks.models import CACHE, RANDOM_SIZES, Model, prepare_fp16
from benchmarks.peers.turns import TURN_S, Peer, ended_by_signals
from benchmarks.reporting import machine
from benchmarks.reporting.spread import ratios, spread

OURS, CTRANSLATE2 = "dragoman", "CTranslate2"
SYSTEMS: dict[str, dict[str, Any]] = {
    OURS: {"device": "cuda", "max_rows": 256, "max_kv_cache_mib": 16384, "max_batch_tokens": 8192},
    CTRANSLATE2: {"device": "cuda", "compute_type": "float16"},
    "transformers": {"device": "cuda"},
}
"""Settings of each system's process."""

CALLS: dict[str, Sequence[dict[str, Any]]] = {
    OURS: [{"min_decoding_length": 0}],
    CTRANSLATE2: [{"min_decoding_length": 1, "max_batch_size": size} for size in (0, 128, 64)],
    "transformers": [{}],
}
"""Of each call; the best of several is taken."""

ROWS = tuple(
    f"{name}-{way}-{count}"
    for name in ("base", "tiny")
    for way, counts in (("greedy", (1, 32, 256)), ("beam4", (1, 64)))
    for count in counts
)

NO_GPU = 2
"""Exit code."""

_TRIAL_S = 0.25


def missing() -> str | None:
    """Say what of a GPU is missing for any of the systems; None if nothing is."""
    import ctranslate2
    import torch

    from server.errors import SettingError
    from server.runtime.device.device import cuda

    try:
        cuda()
    except SettingError as error:
        return f"dragoman: {error}"
    if not torch.cuda.is_available():
        return "transformers: this torch sees no GPU"
    if not ctranslate2.get_cuda_device_count():
        return "CTranslate2: sees no GPU"
    return None


def measure(model: Model, rows: Sequence[Row], rounds: int, note: Callable[[str, Any], None]) -> None:
    """Let the systems translate the same sentences in turns.

    Args:
        model: prepared for a GPU.
        rows: of this model.
        rounds: in which each system has one turn.
        note: gets, by the name of each row as soon as it is done, what each system's call was, the seconds of
            every turn and the tokens of one.
    """
    folders = json.dumps({key: str(value) for key, value in asdict(model).items()})
    with contextlib.ExitStack() as stack:
        peers: dict[str, Peer] = {}
        for name, settings in SYSTEMS.items():
            arguments = [name, folders, json.dumps(settings)]
            peers[name] = Peer(name, "benchmarks.peers.engine_process", arguments, {})
            stack.callback(peers[name].close)
        for row in rows:
            note(row.name, _measure_row(peers, row, rounds))


def _measure_row(peers: dict[str, Peer], row: Row, rounds: int) -> dict[str, Any]:
    lengths = [FORCED_TOKENS] * row.sentences
    drawn = vocabulary.random_sentences(RANDOM_SIZES[row.model].vocabulary, lengths, 2, ending=False)
    calls: dict[str, dict[str, Any]] = {}
    for name, peer in peers.items():
        peer.ask(op="prepare", key=row.name, sentences=drawn, beam=row.beam, length=FORCED_TOKENS)
        trials = [(_turn(peer, row, call, _TRIAL_S)["seconds"], call) for call in [*CALLS[name]] * 2]
        calls[name] = min(trials[len(CALLS[name]) :], key=lambda trial: trial[0])[1]  # the first warm up
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    tokens: dict[str, int] = {}
    for _, (name, call) in itertools.product(range(rounds), calls.items()):
        answer = _turn(peers[name], row, call, TURN_S)
        tokens[name] = answer["tokens"]
        seconds[name].append(float(answer["seconds"]))
    return {"sentences": row.sentences, "calls": calls, "seconds": seconds, "tokens": tokens}


def _turn(peer: Peer, row: Row, call: dict[str, Any], least_s: float) -> dict[str, Any]:
    return peer.ask(op="run", key=row.name, call=call, least_s=least_s)


def summary(name: str, result: dict[str, Any]) -> str:
    """Put a measurement into a line: tokens/s of each system, and dragoman's ratio to the others."""
    seconds, tokens = result["seconds"], result["tokens"]
    speeds = [f"{system} {tokens[system] / spread(each).median:.0f}" for system, each in seconds.items()]
    against = []
    for system in seconds:
        if system != OURS:
            ratio = ratios(seconds[system], seconds[OURS])
            against.append(f"{ratio.median:.2f} x {system} ({ratio.least:.2f}-{ratio.most:.2f})")
    return f"{name}: tokens/s {', '.join(speeds)}; dragoman is {', '.join(against)}"


def main() -> int:
    """Run the benchmark and write its JSON; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", default=",".join(ROWS), help="model-greedy|beamK-sentences, separated by commas"
    )
    parser.add_argument("--rounds", type=int, default=7, help="in which each system has one turn")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    arguments = parser.parse_args()
    rows = [parse_row(name) for name in arguments.rows.split(",")]
    if unknown := {row.model for row in rows} - RANDOM_SIZES.keys():
        parser.error(f"no model with random weights: {', '.join(sorted(unknown))}")
    lacking = missing()
    if lacking is not None:
        print(f"benchmarks.gpu.offline: there is nothing to measure on: {lacking}", file=sys.stderr)
        return NO_GPU
    import torch

    done: dict[str, Any] = {}
    result = {"machine": machine.describe() | {"gpu": torch.cuda.get_device_name()}, "rows": done}
    out = arguments.cache / "results" / "gpu.json"
    out.parent.mkdir(parents=True, exist_ok=True)

    def note(name: str, row: Any) -> None:
        done[name] = row
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
        print(summary(name, row), flush=True)

    with ended_by_signals():
        for name, of_model in itertools.groupby(rows, key=lambda row: row.model):
            model = prepare_fp16(name, arguments.cache.resolve(), functools.partial(print, flush=True))
            measure(model, list(of_model), arguments.rounds, note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
