"""Finds CTranslate2's best settings on this machine, for every row of the table, and remembers them.

Tried are instruction sets (its own choice and the other of AVX2 and AVX512), workers against threads,
and how a call is split into batches. MKL is left to its own choice: forced on an AMD machine it was three to
seven times slower. ``int8`` and ``int8_float32`` are the same there; other int8 types are tried if the
processor has them.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.inputs.workload import Row
from benchmarks.peers.turns import TURN_S, Peer, PeerError, wait_for_calm
from benchmarks.reporting import machine

Draw = Callable[[Row], tuple[list[list[str]], int | None]]
"""Gives a row's sentences as pieces, and the target tokens that each is forced to, or None."""

# A candidate this much slower than the best at first sight is not tried again.
_HOPELESS, _SECOND_LOOKS, _FINALISTS = 1.25, 2, 3
_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Settings:
    """One way to run CTranslate2.

    Attributes:
        variables: environment of its process.
        load: arguments of its Translator.
        call: arguments of ``translate_batch``.
    """

    variables: dict[str, str] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)

    @property
    def process(self) -> str:
        """Identifies the process that settings need; calls may differ within one."""
        return json.dumps([self.variables, self.load], sort_keys=True)

    @property
    def label(self) -> str:
        """A few words for a table."""
        isa = self.variables.get("CT2_FORCE_CPU_ISA", "default ISA")
        batch = self.call.get("max_batch_size", 0)
        unit = " tokens" if self.call.get("batch_type") == "tokens" else ""
        split = f", batches of {batch}{unit}" if batch else ""
        return f"{isa}, {self.load['inter_threads']}x{self.load['intra_threads']}{split}"


def candidates(row: Row, source_tokens: int, cores: int, batches: Sequence[int] = ()) -> list[Settings]:
    """List what is worth trying for a row.

    Args:
        row: the row.
        source_tokens: of all its sentences.
        cores: of the machine.
        batches: sizes of batches to try beside the usual ones.
    """
    types = ["int8", *_other_int8_types()]
    threads = {(cores, 1), (1, cores), *([(1, 1)] if row.is_single else [])}
    found = []
    for isa in _instruction_sets():
        for inter, intra in sorted(threads):
            more = [{"max_batch_size": size} for size in batches if size < row.sentences]
            for call in [*_splits(row, source_tokens, inter), *more]:
                for compute_type in types:
                    load = {"inter_threads": inter, "intra_threads": intra, "compute_type": compute_type}
                    found.append(Settings({"CT2_FORCE_CPU_ISA": isa} if isa else {}, load, call))
    return found


def _splits(row: Row, source_tokens: int, workers: int) -> list[dict[str, Any]]:
    if row.is_single:
        return [{}]
    if row.sentences > 64:  # more than one batch a worker: how large is best?
        return [{"max_batch_size": size} for size in (16, 32, 64) if size * workers <= row.sentences]
    if workers == 1:
        return [{}]
    share = math.ceil(row.sentences / workers)
    splits: list[dict[str, Any]] = [{"max_batch_size": share}, {"max_batch_size": math.ceil(share / 2)}]
    if row.model == "default":  # mixed lengths: as many tokens for each worker
        splits.append({"max_batch_size": math.ceil(source_tokens / workers), "batch_type": "tokens"})
    return splits


def _instruction_sets() -> list[str]:
    flags = _CPU_INFO.read_text(encoding="utf-8") if _CPU_INFO.exists() else ""
    # Its own choice is AVX2 on AMD and the widest there is elsewhere: there is no need to ask for that.
    if "avx512f" not in flags:
        return [""]
    return ["", "AVX512" if "AuthenticAMD" in flags else "AVX2"]


def _other_int8_types() -> list[str]:
    import ctranslate2

    supported = ctranslate2.get_supported_compute_types("cpu")
    return sorted(name for name in supported if name.startswith("int8_") and name != "int8_float32")


class Search:
    """Best settings by row, kept in a file. Not thread-safe."""

    def __init__(
        self,
        file: Path,
        start: Callable[[Settings], Peer],
        report: Callable[[str], None],
        batches: Sequence[int] = (),
    ) -> None:
        """Read what was found before.

        Args:
            file: JSON; need not exist.
            start: starts a process for settings; the search ends what it started.
            report: gets a line for every row.
            batches: as `candidates` takes them.
        """
        self._file, self._batches = file, batches
        self._start = start
        self._report = report
        self._known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def known(self, row: Row) -> Settings | None:
        """Give what was found for a row on such a machine, or None."""
        found = self._known.get(self._key(row))
        return None if found is None else Settings(**found)

    def run(self, rows: Sequence[Row], draw: Draw) -> None:
        """Search for rows of one model that are not known yet.

        Args:
            rows: of one model.
            draw: gives a row's sentences and the length they are forced to.
        """
        peers: dict[str, Peer] = {}
        try:
            for row in rows:
                if self.known(row) is None:
                    best, seconds = self._best(row, peers, *draw(row))
                    self._known[self._key(row)] = asdict(best)
                    self._report(f"CTranslate2 on {row.name}: best is {best.label}: {seconds * 1e3:.0f} ms")
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    self._file.write_text(json.dumps(self._known, indent=1) + "\n", encoding="ascii")
        finally:
            for peer in peers.values():
                peer.close()

    def _best(
        self, row: Row, peers: dict[str, Peer], sentences: list[list[str]], length: int | None
    ) -> tuple[Settings, float]:
        """Try all once, the best ones again; returns the best and its seconds."""
        prepared: set[str] = set()

        def measure(settings: Settings) -> float:
            peer = peers[settings.process]
            wait_for_calm(list(peers.values()))
            answer = peer.ask(op="run", key=row.name, alone=row.is_single, call=settings.call, least_s=TURN_S)
            return float(answer["seconds"])

        times: list[tuple[Settings, list[float]]] = []
        tokens = sum(len(sentence) + 1 for sentence in sentences)
        for settings in candidates(row, tokens, os.cpu_count() or 1, self._batches):
            if settings.process not in peers:
                try:
                    peers[settings.process] = self._start(settings)
                except PeerError:
                    continue  # this processor has not got it
            if settings.process not in prepared:
                peers[settings.process].ask(
                    op="prepare", key=row.name, sentences=sentences, beam=row.beam, length=length
                )
                measure(settings)
                prepared.add(settings.process)
            times.append((settings, [measure(settings)]))
        first = min(seconds[0] for _, seconds in times)
        finalists = sorted(
            (entry for entry in times if entry[1][0] <= _HOPELESS * first), key=lambda entry: entry[1]
        )[:_FINALISTS]
        for _ in range(_SECOND_LOOKS):
            for settings, seconds in finalists:
                seconds.append(measure(settings))
        best, seconds = min(finalists, key=lambda entry: statistics.median(entry[1]))
        return best, statistics.median(seconds)

    def _key(self, row: Row) -> str:
        import ctranslate2

        processor = f"{psutil.cpu_count()} x {machine.processor()}"
        return f"{row.name} ctranslate2-{ctranslate2.__version__} {processor}"
