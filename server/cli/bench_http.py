"""What `dragoman bench-http` does: makes texts, sends them, prints figures. Imports nothing of a server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from loadgen.connection import Target, TargetError
from loadgen.generator import Generator, Plan
from loadgen.plot import PlotError, draw, require_pyplot
from loadgen.samples import ANSWERED
from loadgen.summary import describe, summarise
from loadgen.texts import DEFAULT_MIX, TextError, compose, make_bodies, parse_mix, read_lines
from server.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, fail, show

_TEXTS = 512
_TICK_S = 0.2
_ASK_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Job:
    """A run as the command line asks for it.

    Attributes:
        url: of the server.
        plan: how much is sent.
        mix: lengths of the texts, see `loadgen.texts.parse_mix`; None for the lines of `text` as they
            are, or without a file the usual mix.
        text: file with sentences, or None for our own.
        array: texts in each request.
        source: language; None asks the server for the first that it serves.
        target: language, likewise.
        fields: more fields of every request.
        api_key: sent as a bearer token, or None.
        json_file: where figures go as JSON; `-` is standard output, in the place of the lines for a person.
        plot_file: where the picture goes.
        progress: whether to draw a progress bar; None if standard error is a terminal.
    """

    url: str
    plan: Plan
    mix: str | None = None
    text: Path | None = None
    array: int = 1
    source: str | None = None
    target: str | None = None
    fields: Mapping[str, Any] | None = None
    api_key: str | None = None
    json_file: Path | None = None
    plot_file: Path | None = None
    progress: bool | None = None


def bench(job: Job) -> int:
    """Load a server and say how it did; gives the exit code.

    It is 1 if no request at all was translated, and 130 after Ctrl-C.
    """
    try:
        if job.plot_file is not None:
            require_pyplot()
        headers = {"User-Agent": "dragoman-bench"}
        if job.api_key is not None:
            headers["Authorization"] = f"Bearer {job.api_key}"
        target = Target.parse(job.url, headers)
        texts = _texts(job)
        source, destination = _languages(job, target)
    except (TargetError, TextError) as error:
        return fail("bench-http", EXIT_USAGE, str(error))
    except (PlotError, _NobodyThereError) as error:
        return fail("bench-http", EXIT_FAILED, str(error))
    fields = {"source": source, "target": destination, **(job.fields or {})}
    generator = Generator(target, make_bodies(texts, fields, job.array), job.plan)
    elapsed_s, interrupted = asyncio.run(_run(generator, job))
    summary = {
        "url": job.url,
        "interrupted": interrupted,
        **summarise(generator.samples, job.plan, elapsed_s if interrupted else None),
    }
    figures, file = json.dumps(summary, indent=1) + "\n", job.json_file
    shown = show("bench-http", figures if str(file) == "-" else describe(summary) + "\n")
    try:
        if file is not None and str(file) != "-":
            file.write_text(figures, encoding="utf-8")
        if job.plot_file is not None:
            draw(generator.samples, job.plan, job.plot_file)
    except (OSError, PlotError) as error:
        return fail("bench-http", EXIT_FAILED, str(error))
    if shown or interrupted:
        return shown or EXIT_INTERRUPTED
    return 0 if summary["answered"] else fail("bench-http", EXIT_FAILED, "no request was translated")


def _texts(job: Job) -> list[str]:
    lines = None if job.text is None else read_lines(job.text)
    if lines is not None and job.mix is None:
        return lines
    mix = parse_mix(job.mix or DEFAULT_MIX)
    return compose(mix, _TEXTS) if lines is None else compose(mix, _TEXTS, lines)


class _NobodyThereError(Exception):
    """No server answers that knows which languages it serves."""


def _languages(job: Job, target: Target) -> tuple[str, str]:
    """Take the languages that were given, and ask the server for those that were not."""
    if job.source is not None and job.target is not None:
        return job.source, job.target
    kind = http.client.HTTPConnection if target.tls is None else http.client.HTTPSConnection
    connection = kind(target.host, target.port, timeout=_ASK_TIMEOUT_S)
    path = target.head.split(b" ")[1].decode("latin-1").removesuffix("/translate")
    try:
        connection.request("GET", f"{path}/languages")
        served = json.loads(connection.getresponse().read())
        found = next(
            (entry["code"], destination)
            for entry in served
            for destination in entry["targets"]
            if job.source in (None, entry["code"])
            and job.target in (None, destination)
            and destination != entry["code"]
        )
    except (OSError, http.client.HTTPException) as error:
        raise _NobodyThereError(f"{job.url}: {error or type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, StopIteration):
        said = f"{job.url} does not say which languages it translates; give --source and --target"
        raise _NobodyThereError(said) from None
    finally:
        connection.close()
    return found


async def _run(generator: Generator, job: Job) -> tuple[float, bool]:
    """Run until it is done or Ctrl-C comes; gives the seconds that it took, and whether that came."""
    interrupted = False
    load = asyncio.create_task(generator.run())

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        load.cancel()

    with contextlib.suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)
    disable = None if job.progress is None else not job.progress
    total_s = round(job.plan.end_s, 1)
    with tqdm(total=total_s, unit="s", desc="sending", file=sys.stderr, disable=disable, leave=False) as bar:
        bar.bar_format = "{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} s{postfix}"
        while not load.done():
            await asyncio.wait({load}, timeout=_TICK_S)
            samples = generator.samples
            answered = samples.counts[ANSWERED]
            bar.set_postfix_str(
                f"{answered} translated, {len(samples) - answered} failed, {generator.under_way} under way",
                refresh=False,
            )
            bar.update(min(generator.elapsed_s, total_s) - bar.n)
    elapsed_s = generator.elapsed_s
    with contextlib.suppress(asyncio.CancelledError):
        await load
    return elapsed_s, interrupted
