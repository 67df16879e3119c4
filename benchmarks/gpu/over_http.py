"""Requests per second and latencies over HTTP on a GPU: dragoman against FastAPI with CTranslate2, in turns.

The shipped model in fp16; texts, client and the server with a dynamic batcher are those of
`benchmarks.over_http`, which says more. Ends with code 2 where there is no GPU.

    python -m benchmarks.gpu.over_http [--clients 1,64,256] [--beam 1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu import offline as gpu
from benchmarks.models import CACHE, prepare_fp16
from benchmarks.over_http import TEXTS, Load, texts_for
from benchmarks.peers import http_servers
from benchmarks.peers.turns import Peer, ended_by_signals
from benchmarks.reporting import machine
from benchmarks.reporting.spread import ratios

BATCHERS = ((64, 2.0), (128, 2.0))
"""Texts of the peer's batches, and milliseconds that it waits for company when it is idle."""

_WARM_S = 5.0
"""Before the rounds: drivers compile CTranslate2's kernels for a GPU that its wheel has none for."""


def summary(load: str, found: dict[str, list[dict[str, Any]]]) -> str:
    """Put a load into a line: of each server the median round, and dragoman's ratios to the others."""
    parts = []
    for name, rounds in found.items():
        middle = sorted(rounds, key=lambda one: float(one["per_s"]))[len(rounds) // 2]
        parts.append(f"{name} {middle['per_s']:.0f}/s p95 {middle['p95_ms'] or 0:.0f} ms")
        if name != gpu.OURS:
            speed = ratios(*([one["per_s"] for one in found[each]] for each in (gpu.OURS, name)))
            parts[-1] += f" (dragoman {speed.median:.2f} x, {speed.least:.2f}-{speed.most:.2f})"
    return f"{load}: {'; '.join(parts)}"


def main() -> int:
    """Run the benchmark and write its JSON; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", default="1,64,256", help="of each load, separated by commas")
    parser.add_argument("--beam", type=int, default=1, help="beams; 1 is greedy search")
    parser.add_argument("--rounds", type=int, default=3, help="in which each server has one turn")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    arguments = parser.parse_args()
    lacking = gpu.missing()
    if lacking is not None:
        print(f"benchmarks.gpu.over_http: there is nothing to measure on: {lacking}", file=sys.stderr)
        return gpu.NO_GPU
    say = functools.partial(print, flush=True)
    model = prepare_fp16("default", arguments.cache.resolve(), say)
    servers = [http_servers.dragoman(model, gpu.OURS, **gpu.SYSTEMS[gpu.OURS])]
    servers += [
        http_servers.ctranslate2(model, f"CTranslate2, {most}", most, wait_ms, {}, "cuda")
        for most, wait_ms in BATCHERS
    ]
    loads: dict[str, Any] = {}
    with ended_by_signals(), contextlib.ExitStack() as running:
        client = Peer("client", "benchmarks.peers.load_client", [], {})
        load = Load(running.enter_context(contextlib.closing(client)))
        load.prepare(texts_for("default", None, TEXTS), beam_size=arguments.beam)
        ports = {one.name: running.enter_context(http_servers.serving(one))[0] for one in servers}
        for clients in map(int, arguments.clients.split(",")):
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in ports}
            for port in ports.values():
                load.closed(port, clients, arguments.seconds, _WARM_S)
            for _ in range(arguments.rounds):
                for name, port in ports.items():
                    found[name].append(load.closed(port, clients, arguments.seconds))
            loads[f"{clients} clients"] = found
            say(summary(f"{clients} clients", found))
    out = arguments.cache / "results" / "gpu-http.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    facts = machine.describe() | {"beam_size": arguments.beam}
    out.write_text(json.dumps({"machine": facts, "loads": loads}, indent=1) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
