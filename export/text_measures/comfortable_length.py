"""Up to which length a model translates a text as well whole as in parts.

Dev sentences that follow each other are joined until they have a certain length, and translated whole and one
by one. A model that was trained on single sentences loses 2 chrF at 16 tokens, 6 at 24 and 30 at 100; one
that was trained on longer texts loses nothing. Real long sentences lose by being cut, too, as clauses lack
their context: cut at commas and conjunctions, those of four models break even at 24 to 32 tokens, where
joined sentences lose 6.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from export.text_measures.dev_translator import DevTranslator
from model.evaluation.scoring import score

MAX_CHRF_LOSS = 6.0
EDGES = (24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 224, 256)
"""Source tokens that one band of lengths ends below and the next begins with; what is shorter is never cut.
Two greetings, joined, say nothing of a sentence: one model would be cut above 7 tokens (BLEU 45 to 31)."""

TEXTS, MIN_TEXTS = 200, 20
"""Texts of a band that are translated, and how many it needs to say anything."""


@dataclass(frozen=True)
class LengthBand:
    """What was found for texts of similar length.

    Attributes:
        from_tokens: of the shortest ones, prefix and suffix included.
        below_tokens: more than the longest ones have.
        texts: how many.
        whole: chrF of them as a whole.
        parts: chrF of their sentences, one by one.
    """

    from_tokens: int
    below_tokens: int
    texts: int
    whole: float
    parts: float

    @property
    def loss(self) -> float:
        """ChrF that is lost by translating whole."""
        return round(self.parts - self.whole, 2)


def measure_bands(
    translator: DevTranslator, texts: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[LengthBand]:
    """Measure bands of lengths, the shortest first, until one loses more than `MAX_CHRF_LOSS`.

    Args:
        translator: of the bundle.
        texts: dev sentences in their order.
        outputs: translations, one by one.
        references: translations by people.
    """
    found: list[LengthBand] = []
    runs = _runs([len(ids) for ids in translator.source_ids(texts)], min(EDGES[-1], translator.limit + 1))
    random.Random(0).shuffle(runs)
    joined = [" ".join(texts[first:last]) for first, last in runs]
    lengths = [len(ids) for ids in translator.source_ids(joined)]
    for low, high in itertools.pairwise(EDGES):
        fits = [i for i, length in enumerate(lengths) if low <= length < high and length <= translator.limit]
        fits = fits[:TEXTS]
        if len(fits) < MIN_TEXTS:
            continue
        whole = translator.translate([joined[i] for i in fits], f"{low} to {high - 1} tokens")
        wanted = [" ".join(references[slice(*runs[i])]) for i in fits]
        parts = [" ".join(outputs[slice(*runs[i])]) for i in fits]
        band = LengthBand(low, high, len(fits), score(whole, wanted).chrf, score(parts, wanted).chrf)
        found.append(band)
        if band.loss > MAX_CHRF_LOSS:
            break
    return found


def comfortable_source_tokens(bands: Sequence[LengthBand]) -> int | None:
    """Tell the length above which texts lose too much, or None if none do."""
    if not bands or bands[-1].loss <= MAX_CHRF_LOSS:
        return None
    return bands[-1].from_tokens - 1


def _runs(lengths: Sequence[int], most: int) -> list[tuple[int, int]]:
    """List runs of two sentences and more, first and one past the last, of fewer than `most` tokens."""
    runs = []
    for first in range(len(lengths)):
        total = lengths[first]
        for last in range(first + 1, len(lengths)):
            total += lengths[last]
            if total >= most:
                break
            runs.append((first, last + 1))
    return runs
