"""The loop that a good engineer writes in an hour: torch.nn.Transformer, all logits, cross_entropy.

It trains on the batches of a run of `dragoman train`, with the same optimiser, and records with the same
code, so that only model, loss and loop differ.

    python -m benchmarks.training.plain_loop RECIPE RUN OUT
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
from pathlib import Path

import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.data.batching import Batch
from model.positions import sinusoidal_table
from model.training.batch_loss import AUTOCAST
from model.training.optimizer import build_optimizer
from model.training.run_log import RunLog
from model.training.trainer import Trainer


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with one table for source, target and output, and sinusoidal positions."""

    positions: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.pad_id = config.pad_id
        self.embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        table = sinusoidal_table(config.max_positions, config.d_model, "sinusoidal_interleaved")
        self.register_buffer("positions", table, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.d_model,
            config.encoder_heads,
            config.encoder_layers,
            config.decoder_layers,
            config.encoder_ffn_dim,
            config.dropout,
            batch_first=True,
            norm_first=config.norm == "pre",
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Map source ids [N, S] and target ids [N, T], int64, to logits [N, T, V]."""
        padding = source == self.pad_id
        causal = torch.triu(
            torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device), diagonal=1
        )
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return nn.functional.linear(hidden, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])


def train(recipe_file: Path, run: Path, out: Path) -> None:
    """Train as many updates as the recipe says, and record them to ``out``/metrics.jsonl.

    Args:
        recipe_file: as `benchmarks.training.speed` writes it: one vocabulary, a constant learning rate.
        run: its directory, with its tokens.
        out: directory of the records.
    """
    trainer = Trainer(recipe_file, run, quiet=True)
    training, device = trainer.recipe.training, trainer.device
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(training.seed)
    model = PlainTransformer(trainer.config).to(device).train()
    optimizer = build_optimizer(model, training)
    scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "fp16")
    dtype = AUTOCAST.get(training.precision)
    criterion = nn.CrossEntropyLoss(
        ignore_index=trainer.special.pad_id, label_smoothing=training.label_smoothing
    )
    log = RunLog(out, update=0, max_updates=training.max_updates, quiet=True)
    with contextlib.closing(log):
        update = epoch = 0
        while update < training.max_updates:
            for batch in trainer.data.epoch(training.seed, epoch, training.batch_tokens):
                update += 1
                source, target_in, target_out = _on(device, batch)
                with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
                    logits = model(source, target_in)
                    loss = criterion(logits.flatten(0, 1), target_out.flatten())
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm or math.inf)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                log.update_done(
                    update,
                    epoch,
                    loss=float(loss),
                    tokens=batch.target_tokens,
                    lr=training.learning_rate,
                    grad_norm=float(norm),
                )
                if update == training.max_updates:
                    break
            epoch += 1


def _on(device: torch.device, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return batch.source_ids.to(device), batch.target_in.to(device), batch.target_out.to(device)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path, help="that the run was trained with")
    parser.add_argument("run", type=Path, help="its directory")
    parser.add_argument("out", type=Path, help="directory of the records")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    train(chosen.recipe, chosen.run, chosen.out)


if __name__ == "__main__":
    main()
