"""What `dragoman evaluate` tells of a system: scores by length, robustness, and whether another is better."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from model.data.corpus import ParallelText
from model.evaluation.robustness import Translate, robustness
from model.evaluation.scoring import joined, score

_LENGTHS = (5, 10, 15, 25, 50)
"""Longest source of each bucket, in words; a last one holds what is longer."""

_WEAKEST = 10


class Evaluation:
    """Scores systems on one test set. Owned by the calling thread.

    Args:
        text: the test set.
        tokenize: sacreBLEU's tokeniser for BLEU.
        join_bpe: join pieces that end in @@ before scoring.
    """

    def __init__(self, text: ParallelText, *, tokenize: str = "13a", join_bpe: bool = False) -> None:
        self._sources = text.sources
        self._tokenize = tokenize
        self._joined: Callable[[Sequence[str]], list[str]] = joined if join_bpe else list
        self._references = self._joined(text.targets)

    def report(
        self,
        translate: Translate,
        baseline: Translate | None = None,
        *,
        robustness: Mapping[str, Translate] | None = None,
    ) -> dict[str, Any]:
        """Translate the test set and tell everything that is asked for.

        Args:
            translate: the system in question.
            baseline: one to compare it with, if there is one.
            robustness: systems to give damaged sources, by the keys of the report; the same one as
                `translate` translates the sources no second time.

        Returns:
            JSON values: what ``scores`` gives, the ten translations furthest from their references as
            ``weakest``, what ``robustness`` gives under its keys, and ``comparison`` under ``against``.
        """
        lines = self.translations(translate)
        found = {**self.scores(lines), "weakest": self._weakest(lines)}
        for key, system in (robustness or {}).items():
            clean = lines if system is translate else self.translations(system)
            found[key] = self.robustness(system, clean)
        if baseline is not None:
            found["against"] = self.comparison(lines, self.translations(baseline))
        return found

    def translations(self, translate: Translate) -> list[str]:
        """Translate the test set and put it into the form that is scored."""
        return self._joined(translate(self._sources))

    def scores(self, hypotheses: Sequence[str]) -> dict[str, Any]:
        """Score BLEU, chrF and TER with their signatures, and BLEU and chrF by the length of the source."""
        ter = TER()
        result = ter.corpus_score(list(hypotheses), [list(self._references)])
        return {
            **score(hypotheses, self._references, tokenize=self._tokenize).as_dict(),
            "ter": round(result.score, 2),
            "ter_signature": str(ter.get_signature()),
            "by_length": self._by_length(hypotheses),
        }

    def _by_length(self, hypotheses: Sequence[str]) -> list[dict[str, Any]]:
        lengths = np.array([len(source.split()) for source in self._sources])
        buckets = np.searchsorted(_LENGTHS, lengths)
        found = []
        for bucket in np.unique(buckets):
            rows = np.flatnonzero(buckets == bucket).tolist()
            part = score(
                [hypotheses[i] for i in rows], [self._references[i] for i in rows], tokenize=self._tokenize
            )
            lowest = _LENGTHS[bucket - 1] + 1 if bucket else 0
            words = f"{lowest}-{_LENGTHS[bucket]}" if bucket < len(_LENGTHS) else f"over {_LENGTHS[-1]}"
            found.append({"words": words, "sentences": len(rows), "bleu": part.bleu, "chrf": part.chrf})
        return found

    def _weakest(self, hypotheses: Sequence[str]) -> list[dict[str, Any]]:
        chrf = CHRF()
        scored = [
            chrf.sentence_score(hypothesis, [reference]).score
            for hypothesis, reference in zip(hypotheses, self._references, strict=True)
        ]
        return [
            {
                "chrf": round(scored[i], 2),
                "source": self._sources[i],
                "reference": self._references[i],
                "translation": hypotheses[i],
            }
            for i in sorted(range(len(scored)), key=scored.__getitem__)[:_WEAKEST]
        ]

    def robustness(self, translate: Translate, clean: Sequence[str], seed: int = 0) -> dict[str, Any]:
        """Translate the test set with damaged sources and tell what that costs.

        Args:
            translate: the system.
            clean: what it made of the sources as they are.
            seed: of the damage.

        Returns:
            As ``robustness.robustness``.
        """
        return robustness(
            lambda lines: self._joined(translate(lines)),
            self._sources,
            self._references,
            clean,
            tokenize=self._tokenize,
            seed=seed,
        )

    def comparison(
        self, ours: Sequence[str], theirs: Sequence[str], *, samples: int = 1000, seed: int = 12345
    ) -> dict[str, Any]:
        """Compare two systems by paired bootstrap resampling (Koehn, 2004), through sacreBLEU.

        Args:
            ours: translations of the system in question.
            theirs: those of the baseline.
            samples: resampled test sets.
            seed: of the resampling.

        Returns:
            For BLEU and chrF both scores, their 95 % intervals and the p-value of the difference.
        """
        # sacreBLEU takes its seed from the environment alone.
        previous = os.environ.get("SACREBLEU_SEED")
        os.environ["SACREBLEU_SEED"] = str(seed)
        try:
            metrics = {"bleu": BLEU(tokenize=self._tokenize, force=True), "chrf": CHRF()}
            systems: list[tuple[str, Sequence[str]]] = [("theirs", list(theirs)), ("ours", list(ours))]
            test = PairedTest(
                systems, metrics, references=[self._references], test_type="bs", n_samples=samples
            )
            signatures, results = test()
        finally:
            if previous is None:
                del os.environ["SACREBLEU_SEED"]
            else:
                os.environ["SACREBLEU_SEED"] = previous
        report: dict[str, Any] = {}
        for name, (key, values) in zip(metrics, list(results.items())[1:], strict=True):
            baseline, system = cast(list[Any], values)
            report[name] = {
                "ours": _rounded(system.score),
                "theirs": _rounded(baseline.score),
                "difference": _rounded(system.score - baseline.score),
                # Of equal translations no resample differs more than they do: sacreBLEU calls that certain.
                "p_value": 1.0 if list(ours) == list(theirs) else round(float(system.p_value), 4),
                "ours_interval": _interval(system),
                "theirs_interval": _interval(baseline),
                "signature": str(signatures[key]),
            }
        return report


def _rounded(value: Any) -> float:
    return round(float(value), 2)  # sacreBLEU's are numpy's, which JSON does not take


def _interval(result: Any) -> list[float]:
    return [_rounded(result.mean - result.ci), _rounded(result.mean + result.ci)]
