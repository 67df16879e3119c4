"""Corpus scores through sacreBLEU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

_CUT = re.compile(r"@@(?: |$)")


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


def check_tokenizer(name: str) -> None:
    """Refuse a tokeniser that sacreBLEU does not have.

    Raises:
        ValueError: it has none of this name; the message lists them.
    """
    if name not in BLEU.TOKENIZERS:
        raise ValueError(f"--tokenize {name}: sacreBLEU has {', '.join(sorted(BLEU.TOKENIZERS))}")


def joined(texts: Sequence[str]) -> list[str]:
    """Join the pieces of words that byte-pair encoding cut (Sennrich et al., 2016): ``lo@@ w`` is ``low``."""
    return [_CUT.sub("", text) for text in texts]


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> Score:
    """Score translations with sacreBLEU (Post, 2018): cased BLEU and chrF2.

    Args:
        hypotheses: the translations.
        references: one for each.
        tokenize: sacreBLEU's tokeniser for BLEU; "none" for text that is tokenised already.
    """
    # force only silences the warning that tokenised text is scored: that is what was asked for.
    bleu, chrf = BLEU(tokenize=tokenize, force=tokenize == "none"), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    return Score(
        bleu=round(bleu_score.score, 2),
        chrf=round(chrf_score.score, 2),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
    )
