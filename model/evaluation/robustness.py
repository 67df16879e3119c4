"""What damage in a source costs: scores, their ratio, and how much a translation changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from model.evaluation.damage import KINDS, comparable
from model.evaluation.scoring import score

Translate = Callable[[Sequence[str]], list[str]]


def robustness(
    translate: Translate,
    sources: Sequence[str],
    references: Sequence[str],
    clean: Sequence[str],
    *,
    tokenize: str = "13a",
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Translate damaged sources and tell what that costs.

    Args:
        translate: the system, with its output as it is scored; called once.
        sources: the test set.
        references: of it.
        clean: what the system makes of the sources as they are.
        tokenize: sacreBLEU's tokeniser for BLEU.
        seed: of the damage.

    Returns:
        For each kind of damage that changes a sentence: BLEU and chrF of the whole test set, and how much
        less they are than without, both without what a translation takes over from its source
        (``damage.comparable``); of the sentences that were changed, `ratio`, which is their chrF by that
        without damage, and `consistency`, the chrF of their translations against those without.
    """
    damaged = {}
    for kind, damage in KINDS.items():
        rng = np.random.default_rng(seed)
        damaged[kind] = [damage(source, rng) for source in sources]
    known = dict(zip(sources, clean, strict=True))
    new = list(dict.fromkeys(line for lines in damaged.values() for line in lines if line not in known))
    known |= zip(new, translate(new), strict=True)
    report = {}
    for kind, lines in damaged.items():
        changed = [n for n, line in enumerate(lines) if line != sources[n]]
        if not changed:
            continue
        wanted, before, after = (
            [comparable(text, kind) for text in texts]
            for texts in (references, clean, [known[line] for line in lines])
        )
        report[kind] = {
            **_lost(before, after, wanted, tokenize),
            **_of_changed(*([texts[n] for n in changed] for texts in (before, after, wanted))),
            "changed_sentences": len(changed),
        }
    return report


def _lost(
    before: Sequence[str], after: Sequence[str], references: Sequence[str], tokenize: str
) -> dict[str, float]:
    clean, damaged = (score(lines, references, tokenize=tokenize) for lines in (before, after))
    return {
        "bleu": damaged.bleu,
        "chrf": damaged.chrf,
        "bleu_lost": round(clean.bleu - damaged.bleu, 2),
        "chrf_lost": round(clean.chrf - damaged.chrf, 2),
    }


def _of_changed(before: list[str], after: list[str], references: list[str]) -> dict[str, float]:
    chrf = CHRF()
    clean, damaged, same = (
        chrf.corpus_score(lines, [against]).score
        for lines, against in ((before, references), (after, references), (after, before))
    )
    return {"ratio": round(damaged / clean, 3) if clean else 1.0, "consistency": round(same, 2)}
