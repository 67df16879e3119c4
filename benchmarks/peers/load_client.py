"""The load generator of `dragoman bench-http` in a process of its own: a JSON line in, a JSON line out.

Questions: ``{"op": "prepare", "texts", "fields"}``; ``{"op": "closed", "port", "clients", "warm_s",
"seconds"}``, so many clients, each sending its next request when it has its answer; ``{"op": "open", "port",
"rate", "seconds"}``, requests at times fixed beforehand, whatever the answers; ``{"op": "array", "port"}``,
all texts as one request. Latencies of an open loop count from the time a request was meant to be sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from typing import Any

from loadgen.connection import Connection, Target
from loadgen.generator import Generator, Plan
from loadgen.summary import counted_latencies_s, summarise
from loadgen.texts import make_bodies

_TIMEOUT_S = 10.0


def run(port: int, texts: list[str], fields: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Run a load against a server on loopback.

    Args:
        port: of the server.
        texts: to send.
        fields: of every request.
        plan: how much.
    """
    generator = Generator(Target.parse(f"http://127.0.0.1:{port}"), make_bodies(texts, fields), plan)
    asyncio.run(generator.run())
    summary = summarise(generator.samples, plan)
    return {
        "latencies_s": counted_latencies_s(generator.samples, plan),
        "failures": summary["errors"],
        "per_s": summary["answered_per_s"],
        "words_per_s": summary["words_per_s"],
    }


async def array(port: int, body: bytes) -> dict[str, Any]:
    """Send one request; returns how long it took."""
    connection, loop = Connection(Target.parse(f"http://127.0.0.1:{port}")), asyncio.get_running_loop()
    started_s = loop.time()
    try:
        answer = await connection.send(body)
    except (OSError, EOFError) as error:
        return {"latencies_s": [], "failures": {type(error).__name__: 1}}
    finally:
        connection.close()
    if answer.status != 200:
        return {"latencies_s": [], "failures": {answer.kind: 1}}
    return {"latencies_s": [loop.time() - started_s], "failures": {}}


def answer(question: dict[str, Any], prepared: dict[str, Any]) -> Any:
    """Do what one line asks for.

    Args:
        question: as parsed.
        prepared: texts and fields, kept between questions.
    """
    if question["op"] == "prepare":
        prepared.update(texts=question["texts"], fields=question["fields"])
        return {}
    texts, fields = prepared["texts"], prepared["fields"]
    if question["op"] == "array":
        return asyncio.run(array(question["port"], json.dumps({"q": texts, **fields}).encode()))
    seconds = question["seconds"]
    if question["op"] == "closed":
        plan = Plan(seconds, question["warm_s"], clients=question["clients"])
    else:
        plan = Plan(seconds, rate=question["rate"], timeout_s=seconds + _TIMEOUT_S)
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = run(question["port"], texts, fields, plan)
    after = resource.getrusage(resource.RUSAGE_SELF)
    result["client_cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result


def main() -> None:
    """Answer lines until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write("{}\n")
    answers.flush()
    prepared: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), prepared)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
