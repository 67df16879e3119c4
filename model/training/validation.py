"""Scores of the dev set while training, shared among the processes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from model.checkpoint import SpecialTokens
from model.data.batching import take_share
from model.data.dataset import TrainingSet, table_of
from model.data.directions import DirectedText, Translated
from model.data.token_table import fits
from model.evaluation.evaluation import translate
from model.evaluation.scoring import score
from model.recipe import Training
from model.tokenizer import Tokenizer
from model.training.batch_loss import BatchLoss
from model.training.distributed import Processes

_SAMPLES = 6


class Validation:
    """Loss a token, BLEU and chrF of greedy translations of the dev set. Owned by the training thread.

    Attributes:
        samples: some of the sentences, the same ones every time; empty before the first call.
        too_long: pairs that the model cannot take.

    Args:
        dev: the dev set of every direction.
        tokenizer: of the model.
        special: ids of the model.
        training: sizes of batches, label smoothing, and how many sentences are translated.
        processes: each takes its share.
        max_positions: of the model.
    """

    def __init__(
        self,
        dev: Sequence[DirectedText],
        tokenizer: Tokenizer,
        special: SpecialTokens,
        training: Training,
        processes: Processes,
        *,
        max_positions: int,
    ) -> None:
        sources = [row for part in dev for row in part.source_rows(tokenizer)]
        targets = [row for part in dev for row in tokenizer.encode_target_batch(part.text.targets)]
        lengths = [list(map(len, rows)) for rows in (sources, targets)]
        self.too_long = int((~fits(lengths[0], lengths[1], max_positions)).sum())
        self._data = TrainingSet(table_of(sources, targets), special)
        self._tokenizer = tokenizer
        self._special = special
        self._training = training
        self._processes = processes
        wanted = training.validate_sentences or len(sources)
        self._parts = [
            DirectedText(part.direction, part.text.thinned(max(1, len(sources) // wanted))) for part in dev
        ]
        self.samples: list[Translated] = []

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
        translations = [self._translations(batch_loss, part) for part in self._parts]
        found = [
            Translated(part.direction, *sentence)
            for part, texts in zip(self._parts, translations, strict=True)
            for sentence in zip(list[Any](part.text.sources), part.text.targets, texts, strict=True)
        ]
        result = score([one.translation for one in found], [one.reference for one in found])
        self.samples = found[:: -(-len(found) // _SAMPLES)]
        batch_loss.train()
        record: dict[str, Any] = {
            "loss": total / tokens,
            "smoothed_loss": smoothed / tokens,
            **result.as_dict(),
        }
        if len(self._parts) > 1:
            record["bleu_by_direction"] = {
                part.direction.name: score(texts, part.text.targets).bleu
                for part, texts in zip(self._parts, translations, strict=True)
            }
        return record

    def _translations(self, batch_loss: BatchLoss, part: DirectedText) -> list[str]:
        processes, sources = self._processes, part.text.sources
        own = sources[processes.rank :: processes.count]
        texts = [""] * len(sources)
        found = translate(batch_loss.model, self._tokenizer, own, self._special, part.direction)
        shares = processes.gather(found)
        for rank, share in enumerate(shares):
            texts[rank :: processes.count] = share
        return texts
