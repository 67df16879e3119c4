"""Chooses among a teacher's translations the one closest to the reference, sentence by sentence.

Sequence-level interpolation (Kim and Rush, 2016, "Sequence-Level Knowledge Distillation"): what a teacher
says is easier to learn than what people wrote, and of its n best the one nearest to the reference keeps what
they meant.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.data.corpus import CorpusError, iterate_lines

Metric = Literal["bleu", "chrf"]

_ENTRY = re.compile(r"(\d+) \|\|\|(.*?)(?:\|\|\|.*)?")


def read_n_best(path: Path) -> Iterator[list[str]]:
    """Yield the translations of each line in turn, best first.

    Args:
        path: an n-best list as Moses and `dragoman translate --n-best` write it, plain or .gz: lines of
            ``number ||| translation ||| score``, numbers ascending from 0.

    Raises:
        CorpusError: the file cannot be read, a line is something else, or a number is missing.
    """
    found: list[str] = []
    last = 0
    for line_number, line in enumerate(iterate_lines(path), start=1):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise CorpusError(f"{path}:{line_number}: not of the form: number ||| translation ||| score")
        number = int(entry[1])
        if number != last:
            if number != last + 1 or not found:
                raise CorpusError(
                    f"{path}:{line_number}: number {number} after {last}; they ascend by one from 0"
                )
            yield found
            found, last = [], number
        found.append(entry[2].strip())
    if found:
        yield found


def choose(n_best: Path, reference: Path, metric: Metric = "bleu") -> Iterator[str]:
    """Yield for each line the translation closest to its reference; of equals the teacher's first.

    Args:
        n_best: see ``read_n_best``.
        reference: one line for each number.
        metric: sentence BLEU (smoothed, n-grams up to what there are) or chrF.

    Raises:
        CorpusError: as ``read_n_best``, or the reference has more lines or fewer.
    """
    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()
    for number, (found, line) in enumerate(
        itertools.zip_longest(read_n_best(n_best), iterate_lines(reference)), start=1
    ):
        if found is None or line is None:
            short = reference if line is None else n_best
            raise CorpusError(f"{short}: ends before line {number} of the other file")
        yield max(found, key=lambda text: scorer.sentence_score(text, [line]).score)
