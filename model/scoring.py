"""Corpus scores through sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Score:
    """Corpus scores with what is needed to repeat them."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    sentences: int

    def as_dict(self) -> dict[str, float | int | str]:
        """Return the fields as JSON values."""
        return asdict(self)


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score translations with sacreBLEU (Post, 2018): cased BLEU and chrF2."""
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    return Score(
        bleu=round(bleu_score.score, 2),
        chrf=round(chrf_score.score, 2),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
    )
