"""What a run shows and records: a live progress bar, TensorBoard, and one JSON line a measurement."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from model.data.directions import Translated

_RECORD_EVERY = 20


class RunLog:
    """Owned by the training thread; close it when done. One process of a run keeps ``records``."""

    def __init__(
        self, out: Path, *, update: int, max_updates: int, quiet: bool, records: bool = True
    ) -> None:
        self._quiet = quiet
        self._board: SummaryWriter | None = None
        self._lines: TextIO | None = None
        self._samples: TextIO | None = None
        if records:
            # On resume, TensorBoard drops what an interrupted run wrote after its last checkpoint.
            self._board = SummaryWriter(str(out / "tensorboard"), purge_step=update + 1)
            self._lines = (out / "metrics.jsonl").open("a", encoding="utf-8")
            self._samples = (out / "samples.jsonl").open("a", encoding="utf-8")
        self._bar: Any = tqdm(
            total=max_updates,
            initial=update,
            unit="update",
            disable=quiet,
            dynamic_ncols=True,
            smoothing=0.05,
        )
        self._window_loss = 0.0
        self._window_tokens = 0
        self._window_start = time.monotonic()

    def close(self) -> None:
        """Flush and close everything."""
        self._bar.close()
        if self._board is not None:
            self._board.close()
        for lines in (self._lines, self._samples):
            if lines is not None:
                lines.close()

    def say(self, message: str) -> None:
        """Print a line above the progress bar, on stderr."""
        if not self._quiet:
            tqdm.write(message, file=sys.stderr)

    def restart_clock(self) -> None:
        """Leave the time since the last record out of tokens/s, after a validation."""
        self._window_start = time.monotonic()
        self._window_loss, self._window_tokens = 0.0, 0

    def update_done(
        self, update: int, epoch: int, *, loss: float, tokens: int, lr: float, grad_norm: float
    ) -> None:
        """Count an update of ``tokens`` target tokens with ``loss`` a token; record every 20th."""
        self._window_loss += loss * tokens
        self._window_tokens += tokens
        self._bar.update()
        if update % _RECORD_EVERY:
            return
        elapsed = time.monotonic() - self._window_start
        values = {
            "loss": self._window_loss / self._window_tokens,
            "lr": lr,
            "grad_norm": grad_norm,
            "tokens_per_second": self._window_tokens / elapsed,
        }
        self.record("train", update, epoch, values)
        self._bar.set_postfix_str(
            f"epoch {epoch + 1} loss {values['loss']:.3f} lr {lr:.1e} "
            f"{values['tokens_per_second']:,.0f} tokens/s"
        )
        self.restart_clock()

    def record(self, kind: str, update: int, epoch: int, values: dict[str, Any]) -> None:
        """Write numbers to TensorBoard under ``kind/`` and everything to metrics.jsonl."""
        if self._board is None or self._lines is None:
            return
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add_scalar(f"{kind}/{name}", value, update)
        self._lines.write(json.dumps({"kind": kind, "update": update, "epoch": epoch, **values}) + "\n")
        self._lines.flush()

    def samples(self, update: int, samples: Sequence[Translated]) -> None:
        """Write translations to TensorBoard and to samples.jsonl.

        Args:
            update: number of the update after which they were made.
            samples: the sentences.
        """
        if self._board is None or self._samples is None:
            return
        for number, (direction, given, reference, translation) in enumerate(samples, start=1):
            source = given if isinstance(given, str) else f"{len(given)} feature vectors"
            line = {
                "update": update,
                "direction": direction.name,
                "source": source,
                "reference": reference,
                "translation": translation,
            }
            self._samples.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._board.add_text(f"samples/{number}", f"{source}\n\n{reference}\n\n{translation}", update)
        self._samples.flush()
