"""All parts of the benchmark one after the other, then the page: what `make bench` runs.

Each part is a command of its own whose results stay in the cache folder, so that it can be repeated alone
and the page written again (`--parts offline,report`). A part that fails does not keep the others from
running; the exit code tells. Ctrl-C ends all processes. With --quick everything takes some minutes, its
results lie in a folder of their own, and so does the page.

    python -m benchmarks.everything [--quick] [--parts offline,over_http,report]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models import CACHE, EVERY_NAME, NAMES
from benchmarks.peers.turns import REPOSITORY, ended_by_signals, running
from benchmarks.reporting import progress, results

PAGE = Path("docs/benchmarks.md")
_END_TIMEOUT_S = 30.0
_DURATIONS = "durations.json"


@dataclass(frozen=True)
class Part:
    """One command.

    Attributes:
        name: of the module.
        full_s: seconds that it took on a machine with two cores.
        quick_s: the same with --quick.
    """

    name: str
    full_s: float
    quick_s: float


PARTS = (
    Part("models", 10, 10),
    Part("offline", 1700, 150),
    Part("shortlist", 400, 120),
    Part("over_http", 1200, 110),
    Part("fairness", 110, 40),
    Part("roofline", 10, 10),
    Part("report", 5, 5),
)
_UNMADE_MODELS_S = 330.0
"""To write, import and export the models with random weights once, but for large."""

_UNMADE_LARGE_S = 1300.0


def arguments_of(part: str, cache: Path, *, quick: bool, keep_models: bool) -> list[str]:
    """Give the arguments of a part's command."""
    arguments = ["--cache", str(cache)]
    if part == "models":
        names = NAMES if quick else EVERY_NAME
        return [*arguments, *names, *(["--keep-models"] if keep_models else [])]
    if part == "report":
        return [
            *arguments,
            *(["--quick", "--page", str(results.folder(cache, quick=True) / PAGE.name)] * quick),
        ]
    if quick:
        arguments.append("--quick")
    # They were made or kept a moment ago, by the first part.
    return arguments if part == "roofline" else [*arguments, "--keep-models"]


def expected_s(parts: list[Part], cache: Path, *, quick: bool) -> dict[str, float]:
    """Estimate every part: as long as it took here the last time, else as long as it took elsewhere."""
    known = results.read(cache / _DURATIONS).get("quick" if quick else "full", {})
    found = {part.name: float(known.get(part.name, part.quick_s if quick else part.full_s)) for part in parts}
    unmade = [name for name in EVERY_NAME if not (cache / "models" / name / "ctranslate2").exists()]
    if "models" in found and set(unmade) & set(NAMES):
        found["models"] = _UNMADE_MODELS_S
    if "models" in found and "large" in unmade and not quick:
        found["models"] += _UNMADE_LARGE_S
    return found


def run_part(command: list[str], name: str, expected: float, later_s: float) -> int:
    """Run one part and pass its lines on, with the time that is left of everything.

    Args:
        command: to run.
        name: of the part.
        expected: seconds of it.
        later_s: seconds of the parts behind it.

    Returns:
        Its exit code.
    """
    started_s, share = time.monotonic(), 0.0
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with running(command, _END_TIMEOUT_S, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **piped) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = progress.share_of(line)
            share = share if found is None else found
            passed_s = time.monotonic() - started_s
            left_s = progress.time_left_s(share, passed_s, expected) + later_s
            print(f"{name}, {minutes(left_s)} left {line.rstrip()}", file=sys.stderr, flush=True)
        return process.wait()


def minutes(seconds: float) -> str:
    """Write a duration as one reads it aloud."""
    return f"{max(1, round(seconds / 60))} min" if seconds >= 30 else "less than a minute"


def _remember(cache: Path, name: str, seconds: float, *, quick: bool) -> None:
    file = cache / _DURATIONS
    known = results.read(file)
    known.setdefault("quick" if quick else "full", {})[name] = round(seconds, 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="ascii")


def main() -> int:
    """Run the parts; returns 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = ",".join(part.name for part in PARTS)
    parser.add_argument("--quick", action="store_true", help="for a look; its page is not docs/benchmarks.md")
    parser.add_argument("--parts", default=every, help=f"separated by commas; {every} by default")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for models and results")
    parser.add_argument("--keep-models", action="store_true", help="do not export anew after changes")
    arguments = parser.parse_args()
    wanted = arguments.parts.split(",")
    if unknown := set(wanted) - {part.name for part in PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {every}")
    cache, quick = arguments.cache.resolve(), arguments.quick
    parts = [part for part in PARTS if part.name in wanted]
    expected = expected_s(parts, cache, quick=quick)
    print(f"this takes about {minutes(sum(expected.values()))}", file=sys.stderr, flush=True)
    if quick:
        copy = results.folder(cache, quick=True) / PAGE.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / PAGE, copy)
    failed = []
    with ended_by_signals():
        for place, part in enumerate(parts):
            command = [sys.executable, "-m", f"benchmarks.{part.name}"]
            command += arguments_of(part.name, cache, quick=quick, keep_models=arguments.keep_models)
            later_s = sum(expected[later.name] for later in parts[place + 1 :])
            started_s = time.monotonic()
            if run_part(command, part.name, expected[part.name], later_s) == 0:
                _remember(cache, part.name, time.monotonic() - started_s, quick=quick)
            else:
                failed.append(part.name)
    if failed:
        print(f"failed: {', '.join(failed)}; repeat with --parts {','.join(failed)},report", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
