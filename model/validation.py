"""Scores of the dev set while training, shared among the processes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .batch_loss import BatchLoss
from .batching import take_share
from .checkpoint import SpecialTokens
from .corpus import ParallelText
from .dataset import TrainingSet, table_of
from .distributed import Processes
from .evaluation import translate
from .recipe import Training
from .scoring import score
from .tokenizer import Tokenizer

_SAMPLES = 6


class Validation:
    """Loss a token, BLEU and chrF of greedy translations of the dev set. Owned by the training thread.

    Attributes:
        samples: source, reference and translation of some of the sentences, the same ones every time; empty
            before the first call.

    Args:
        text: the dev set.
        rows: the same as ids, source and target.
        tokenizer: of the model.
        special: ids of the model.
        training: sizes of batches, label smoothing, and how many sentences are translated.
        processes: each takes its share.
    """

    def __init__(
        self,
        text: ParallelText,
        rows: Sequence[tuple[list[int], list[int]]],
        tokenizer: Tokenizer,
        special: SpecialTokens,
        training: Training,
        processes: Processes,
    ) -> None:
        self._data = TrainingSet(table_of([row[0] for row in rows], [row[1] for row in rows]), special)
        self._tokenizer = tokenizer
        self._special = special
        self._training = training
        self._processes = processes
        stride = max(1, len(text) // (training.validate_sentences or len(text)))
        self._sources, self._references = text.sources[::stride], text.targets[::stride]
        self.samples: list[tuple[str, str, str]] = []

    def __call__(self, batch_loss: BatchLoss) -> dict[str, Any]:
        """Measure; the model is back in training mode afterwards. Every process gets the same numbers."""
        processes, training = self._processes, self._training
        batch_loss.eval()
        smoothed, total, tokens = 0.0, 0.0, 0
        with torch.no_grad():
            for batch in self._data.in_order(training.batch_tokens):
                share = take_share(batch, processes.rank, processes.count, self._special.pad_id)
                losses = batch_loss(share, training.label_smoothing)
                smoothed += float(losses[0])
                total += float(losses[1])
                tokens += batch.target_tokens
        smoothed, total = processes.add([smoothed, total])
        translations = self._translations(batch_loss)
        result = score(translations, self._references)
        found = list(zip(self._sources, self._references, translations, strict=True))
        self.samples = found[:: -(-len(found) // _SAMPLES)]
        batch_loss.train()
        return {"loss": total / tokens, "smoothed_loss": smoothed / tokens, **result.as_dict()}

    def _translations(self, batch_loss: BatchLoss) -> list[str]:
        processes = self._processes
        own = self._sources[processes.rank :: processes.count]
        texts = [""] * len(self._sources)
        shares = processes.gather(translate(batch_loss.model, self._tokenizer, own, self._special))
        for rank, share in enumerate(shares):
            texts[rank :: processes.count] = share
        return texts
