"""Makes a training corpus: reads the sources, leaves out what is unfit or twice there, writes the rest."""

from __future__ import annotations

import contextlib
import fnmatch
import gzip
import hashlib
import io
import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from model.cleaning.checks import PairChecks, Reason, keys
from model.cleaning.duplicates import near_duplicates, signature
from model.cleaning.plan import CorpusPlan, SourceText
from model.cleaning.report import Report
from model.data.corpus import CorpusError, iterate_lines, iterate_parallel
from model.data.process_pool import mapped

_LINES = 1 << 12
"""Pairs that are checked at a time."""


class Line(NamedTuple):
    """A pair and where it is from."""

    first: str
    second: str
    origin: str


class _Found(NamedTuple):
    """What the checks found: reasons uint8 [N], hashes uint64 [N] and signatures uint32 [N, 16]."""

    reasons: NDArray[np.uint8]
    hashes: NDArray[np.uint64]
    signatures: NDArray[np.uint32]


def clean(plan: CorpusPlan, out: Path, *, quiet: bool = False) -> Report:
    """Write ``train.LANGUAGE.gz`` of both sides, ``train.origin.gz``, ``report.json`` and ``dropped.tsv.gz``.

    The same plan and text give the same bytes, whatever the number of processors. The text is read twice; 80
    bytes a pair are kept in between. Written aside, then renamed.

    Args:
        plan: what to read and to leave out.
        out: directory of the corpus; an old one is replaced, and nothing else.
        quiet: no progress bar.

    Raises:
        CorpusError: a file is missing or broken, no pair is left, or ``out`` holds something else.
    """
    out = out.resolve()  # a symbolic link stays: what it leads to is replaced
    _check_replaceable(out)
    unseen = [
        signature(first, second)
        for text in plan.held_out
        for first, second in iterate_parallel(text.first, text.second)
    ]
    held_out = (
        keys(
            itertools.chain.from_iterable(
                iterate_lines(file) for text in plan.held_out for file in text.first
            )
        ),
        keys(
            itertools.chain.from_iterable(
                iterate_lines(file) for text in plan.held_out for file in text.second
            )
        ),
    )
    checks = PairChecks(plan.languages, plan.filters, held_out)
    bar = tqdm(desc="checking pairs", unit="pair", unit_scale=True, disable=quiet or None, dynamic_ncols=True)
    parts: list[_Found] = []
    with bar:
        for found in mapped(_check, checks, _chunks(plan), few=2):
            parts.append(found)
            bar.update(len(found.reasons))
    if not parts:
        raise CorpusError(f"{plan.sources[0].first[0]}: empty file")
    reasons, hashes, signatures = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    _mark_duplicates(reasons, hashes)
    if plan.filters.near_duplicates:
        _mark_near_duplicates(reasons, signatures, unseen, plan.filters.near_duplicates)
    if not (reasons == Reason.KEPT).any():
        raise CorpusError(f"{out}: no pair is left of {len(reasons):,}")
    return _write(plan, out, reasons, quiet=quiet)


def _check_replaceable(out: Path) -> None:
    is_old = all((out / name).is_file() for name in ("report.json", "train.origin.gz"))
    if out.exists() and not is_old and not (out.is_dir() and not any(out.iterdir())):
        raise CorpusError(f"{out}: is there and no earlier corpus; remove it or choose another --out")


def read_lines(text: SourceText) -> Iterator[Line]:
    """Yield all pairs of a source in order.

    Raises:
        CorpusError: a file is missing or broken, or two that belong together are not equally long.
    """
    origins = itertools.repeat(text.name) if text.origins is None else iterate_lines(text.origins)
    for files in zip(text.first, text.second, strict=True):
        for first, second in itertools.zip_longest(*map(iterate_lines, files)):
            if first is None or second is None:
                raise CorpusError(f"{files[0]}, {files[1]}: differ in their number of lines")
            origin = next(origins, None)
            if origin is None:
                raise CorpusError(f"{text.origins}: has fewer lines than the text")
            yield Line(first, second, origin)
    if text.origins is not None and next(origins, None) is not None:
        raise CorpusError(f"{text.origins}: has more lines than the text")


def _chunks(plan: CorpusPlan) -> Iterator[list[tuple[str, str, bool]]]:
    for text in plan.sources:
        unwanted: dict[str, bool] = {}
        lines = read_lines(text)
        while some := list(itertools.islice(lines, _LINES)):
            for line in some:
                if line.origin not in unwanted:
                    unwanted[line.origin] = any(fnmatch.fnmatch(line.origin, name) for name in text.leave_out)
            yield [(line.first, line.second, unwanted[line.origin]) for line in some]


def _check(checks: PairChecks, pairs: list[tuple[str, str, bool]]) -> _Found:
    reasons = [
        Reason.LEFT_OUT if unwanted else checks.check(first, second) for first, second, unwanted in pairs
    ]
    digests = [
        hashlib.blake2b(f"{first}\t{second}".encode(), digest_size=8).digest() for first, second, _ in pairs
    ]
    signatures = [signature(first, second) for first, second, _ in pairs]
    hashes = np.frombuffer(b"".join(digests), "<u8")
    return _Found(np.array(reasons, np.uint8), hashes, np.stack(signatures))


def _mark_duplicates(reasons: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    """Set the reason of pairs that are there already; of equal ones the first is kept."""
    kept = np.flatnonzero(reasons == Reason.KEPT)
    _, firsts = np.unique(hashes[kept], return_index=True)
    repeated = np.ones(len(kept), bool)
    repeated[firsts] = False
    reasons[kept[repeated]] = Reason.DUPLICATE


def _mark_near_duplicates(
    reasons: NDArray[np.uint8],
    signatures: NDArray[np.uint32],
    unseen: Sequence[NDArray[np.uint32]],
    likeness: float,
) -> None:
    """Set the reason of pairs that are like an earlier one, or like a held-out one."""
    kept = np.flatnonzero(reasons == Reason.KEPT)
    earlier = near_duplicates(np.concatenate([*(row[None] for row in unseen), signatures[kept]]), likeness)
    earlier = earlier[len(unseen) :]
    reasons[kept[earlier >= len(unseen)]] = Reason.NEAR_DUPLICATE
    reasons[kept[(earlier >= 0) & (earlier < len(unseen))]] = Reason.NEAR_HELD_OUT


def _write(plan: CorpusPlan, out: Path, reasons: NDArray[np.uint8], *, quiet: bool) -> Report:
    aside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    report = Report()
    with contextlib.ExitStack() as stack:
        names = (
            *(f"train.{language}.gz" for language in plan.languages),
            "train.origin.gz",
            "dropped.tsv.gz",
        )
        first, second, origins, dropped = (stack.enter_context(_gzip(aside / name)) for name in names)
        read = itertools.chain.from_iterable(map(read_lines, plan.sources))
        lines = zip(read, reasons.tolist(), strict=True)
        bar = tqdm(lines, "writing", len(reasons), unit="pair", unit_scale=True, disable=quiet or None)
        for line, number in bar:
            reason = Reason(number)
            report.count(line.origin, reason)
            if reason:
                dropped.write(f"{reason.name.lower()}\t{line.origin}\t{line.first}\t{line.second}\n")
            else:
                first.write(f"{line.first}\n")
                second.write(f"{line.second}\n")
                origins.write(f"{line.origin}\n")
    report.write(aside / "report.json")
    shutil.rmtree(out, ignore_errors=True)
    aside.rename(out)
    return report


@contextlib.contextmanager
def _gzip(path: Path) -> Iterator[TextIO]:
    """Write compressed text that does not hold the time, so that the same text gives the same bytes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        yield text
