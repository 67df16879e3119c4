"""One system behind a pipe: a JSON line in, a JSON line out; idle, it sleeps in a read.

    python -m benchmarks.peers.engine_process SYSTEM MODEL-FOLDERS-AS-JSON SETTINGS-AS-JSON

Questions: ``{"op": "prepare", "key", "sentences", "beam", "length"}``, ``{"op": "run", "key", "alone",
"call", "least_s"}``, ``{"op": "keep", "key", "count", "warm_s", "seconds"}``, ``{"op": "tokens", "key"}`` and
``{"op": "memory"}``. It ends when its standard input does. A run is repeated until it has taken `least_s`
seconds, by default once; what it answers is of one pass.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from benchmarks.models import Model
from benchmarks.peers.engines import ENGINES, Dragoman, Engine, Work
from benchmarks.reporting.machine import peak_memory


def answer(engine: Engine, works: dict[str, Work], question: dict[str, Any]) -> dict[str, Any]:
    """Do what one line asks for.

    Args:
        engine: the system.
        works: prepared so far, by key.
        question: as parsed.
    """
    match question["op"]:
        case "prepare":
            works[question["key"]] = engine.prepare(
                question["sentences"], question["beam"], question["length"]
            )
            return {}
        case "run":
            work, call = works[question["key"]], question.get("call", {})
            parts = engine.split(work) if question.get("alone") else [work]
            passes, spent_s, started_s = 0, 0.0, time.perf_counter()
            while passes == 0 or spent_s < question.get("least_s", 0.0):
                tokens = sum(sum(map(len, engine.translate(part, call))) for part in parts)
                passes, spent_s = passes + 1, time.perf_counter() - started_s
            return {"seconds": spent_s / passes, "tokens": tokens, "passes": passes}
        case "keep":
            assert isinstance(engine, Dragoman)
            flight = question["count"], question["warm_s"], question["seconds"]
            tokens = engine.keep_in_flight(works[question["key"]], *flight)
            return {"tokens_per_s": tokens / question["seconds"]}
        case "tokens":
            return {"tokens": engine.translate(works[question["key"]], {})}
        case "memory":
            return {"peak_bytes": peak_memory(os.getpid())}
        case other:
            return {"error": f"unknown operation {other!r}"}


def serve(engine: Engine, questions: TextIO, answers: TextIO) -> None:
    """Answer lines until there are no more."""
    works: dict[str, Work] = {}
    for line in questions:
        try:
            reply = answer(engine, works, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def main() -> None:
    """Load the system that the command line names, say how long that took, and serve."""
    # Libraries may print: what they print goes to standard error, the pipe is for answers alone.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    system, folders, settings = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    model = Model(folders["name"], *(Path(folders[key]) for key in ("bundle", "huggingface", "ctranslate2")))
    engine = ENGINES[system](model)
    engine.import_library()
    started_s = time.perf_counter()
    engine.load(settings)
    answers.write(json.dumps({"load_s": time.perf_counter() - started_s}) + "\n")
    answers.flush()
    try:
        serve(engine, sys.stdin, answers)
    finally:
        engine.close()


if __name__ == "__main__":
    main()
