"""Tokens per second on a GPU: dragoman, CTranslate2 and transformers, all in fp16, in turns in one run.

The models with random weights (`random_model`): they never end by themselves, so that every translation has
as many tokens as it may. Every system has a process of its own. Ends with code 2 where there is no GPU.

    python -m benchmarks.gpu [--models base tiny] [--sentences 256] [--rounds 7]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import machine, vocabulary
from benchmarks.models import CACHE, RANDOM_SIZES, Model, in_fp16, prepare
from benchmarks.spread import ratios, spread
from benchmarks.turns import TURN_S, Peer, ended_by_signals, wait_for_calm
from benchmarks.workload import BEAMS, FORCED_TOKENS

SYSTEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dragoman": (
        {"device": "cuda", "max_rows": 256, "max_kv_cache_mib": 16384, "max_batch_tokens": 8192},
        {"min_decoding_length": 0},
    ),
    "CTranslate2": (
        {"device": "cuda", "compute_type": "float16"},
        {"min_decoding_length": 1, "max_batch_size": 256},
    ),
    "transformers": ({"device": "cuda"}, {}),
}
"""Settings of each system's process and of its calls."""

_NO_GPU = 2


def missing() -> str | None:
    """Say what of a GPU is missing for any of the systems; None if nothing is."""
    import ctranslate2
    import torch

    from server.errors import SettingError
    from server.runtime.device import cuda

    try:
        cuda()
    except SettingError as error:
        return f"dragoman: {error}"
    if not torch.cuda.is_available():
        return "transformers: this torch sees no GPU"
    if not ctranslate2.get_cuda_device_count():
        return "CTranslate2: sees no GPU"
    return None


def measure(model: Model, sentences: int, rounds: int) -> dict[str, Any]:
    """Let the systems translate the same sentences in turns.

    Args:
        model: with a bundle of precision fp16.
        sentences: of one call.
        rounds: in which each system has one turn.

    Returns:
        By beam, the seconds of every turn and the tokens of one, by system.
    """
    drawn = vocabulary.random_sentences(
        RANDOM_SIZES[model.name].vocabulary, [FORCED_TOKENS] * sentences, 2, ending=False
    )
    folders = json.dumps({key: str(value) for key, value in asdict(model).items()})
    result: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        peers: dict[str, Peer] = {}
        for name, (settings, _) in SYSTEMS.items():
            arguments = [name, folders, json.dumps(settings)]
            peers[name] = Peer(name, "benchmarks.engine_process", arguments, {})
            stack.callback(peers[name].close)
        for beam in BEAMS:
            key, seconds = f"{model.name}-beam{beam}", {name: [] for name in peers}
            tokens: dict[str, int] = {}
            for peer in peers.values():
                peer.ask(op="prepare", key=key, sentences=drawn, beam=beam, length=FORCED_TOKENS)
            for number in range(-1, rounds):  # the first one warms up
                for name, peer in peers.items():
                    wait_for_calm([other for other in peers.values() if other is not peer])
                    answer = peer.ask(op="run", key=key, call=SYSTEMS[name][1], least_s=TURN_S)
                    tokens[name] = answer["tokens"]
                    if number >= 0:
                        seconds[name].append(float(answer["seconds"]))
            result[key] = {"sentences": sentences, "seconds": seconds, "tokens": tokens}
            print(summary(key, result[key]), flush=True)
    return result


def summary(name: str, result: dict[str, Any]) -> str:
    """Put a measurement into a line: tokens/s of each system, and dragoman's ratio to the others."""
    seconds, tokens = result["seconds"], result["tokens"]
    speeds = [f"{system} {tokens[system] / spread(each).median:.0f}" for system, each in seconds.items()]
    against = []
    for system in seconds:
        if system != "dragoman":
            ratio = ratios(seconds[system], seconds["dragoman"])
            against.append(f"{ratio.median:.2f} x {system} ({ratio.least:.2f}-{ratio.most:.2f})")
    return f"{name}: tokens/s {', '.join(speeds)}; dragoman is {', '.join(against)}"


def main() -> int:
    """Run the benchmark and write its JSON; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", choices=tuple(RANDOM_SIZES), default=tuple(RANDOM_SIZES))
    parser.add_argument("--sentences", type=int, default=256, help="of one call")
    parser.add_argument("--rounds", type=int, default=7, help="in which each system has one turn")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    arguments = parser.parse_args()
    lacking = missing()
    if lacking is not None:
        print(f"benchmarks.gpu: there is nothing to measure on: {lacking}", file=sys.stderr)
        return _NO_GPU
    import torch

    result: dict[str, Any] = {
        "machine": machine.describe() | {"gpu": torch.cuda.get_device_name()},
        "rows": {},
    }
    with ended_by_signals():
        for name in arguments.models:
            model = in_fp16(prepare(name, arguments.cache.resolve(), print), print)
            result["rows"] |= measure(model, arguments.sentences, arguments.rounds)
    out = arguments.cache / "results" / "gpu.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
