"""The same pair with another case or final mark on both sides: `Save`, `SAVE`, `Save.`, `Save…` differ.

A corpus of sentences teaches a model to end everything with a full stop and to begin it with a capital. What
both sides change together it learns to follow.
"""

from __future__ import annotations

import re

import numpy as np

_FINAL = re.compile(r"(?<=[^\W_])(?:\.|!|:|…)$")
_MARKS = (".", "!", ":", "…", "...", ";", "")
_FEW_WORDS = 8
"""Titles and labels are written in capitals, longer text hardly ever."""

_TURNED = ("¿", "¡")


def surface(pair: tuple[str, str], rng: np.random.Generator) -> tuple[str, str] | None:
    """Change case or final mark of both sides alike; None if there is nothing to change."""
    changed = _in_capitals(pair) if rng.random() < 0.25 else _with_mark(pair, rng)
    return None if changed == pair else changed


def _in_capitals(pair: tuple[str, str]) -> tuple[str, str]:
    if pair[0].count(" ") >= _FEW_WORDS:
        return pair
    return pair[0].upper(), pair[1].upper()


def _with_mark(pair: tuple[str, str], rng: np.random.Generator) -> tuple[str, str]:
    ends = [_FINAL.search(side) for side in pair]
    if any(side.endswith("?") or any(mark in side for mark in _TURNED) for side in pair):
        return pair
    if [end and end[0] for end in ends].count(None) == 1:
        return pair  # one side has a mark that the other lacks: left as people wrote it
    if not all(side[-1:].isalnum() or end for side, end in zip(pair, ends, strict=True)):
        return pair
    # Most often none: what has no final mark is what corpora of sentences lack.
    mark = "" if ends[0] and rng.random() < 0.5 else _MARKS[int(rng.integers(len(_MARKS)))]
    first, second = (_FINAL.sub("", side) + mark for side in pair)
    return first, second
