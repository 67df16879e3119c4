"""The training loop: updates, validation, early stopping, averaging."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from .batching import Batch
from .checkpoint import SpecialTokens, average_tensors, load_model_tensors
from .config import TransformerConfig
from .corpus import read_parallel
from .dataset import TrainingSet
from .evaluation import translate
from .loss import projected_cross_entropy
from .optimizer import build_optimizer
from .recipe import Recipe, RecipeError, load_recipe
from .run_directory import RunDirectory
from .run_log import RunLog
from .schedule import learning_rate_factor
from .scoring import score
from .tokenizer import Tokenizer
from .transformer import Transformer

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Trainer:
    """One run in one directory; a second call with the same recipe continues it. Owned by the calling thread.

    Args:
        recipe_file: TOML, see model/recipe.py.
        out: directory of the run.
        device: overrides the recipe's.
        seed: overrides the recipe's.
        quiet: no progress bar and no messages.

    Raises:
        RecipeError: the recipe cannot be used.
        CorpusError: the corpus is broken; raised before anything is trained.
        CheckpointError: ``out`` holds a checkpoint that is damaged or of another model, or the one to start
            from is.
    """

    def __init__(
        self,
        recipe_file: Path,
        out: Path,
        *,
        device: str | None = None,
        seed: int | None = None,
        quiet: bool = False,
    ) -> None:
        self.recipe: Recipe = load_recipe(recipe_file, seed=seed)
        self.quiet = quiet
        training, corpus = self.recipe.training, self.recipe.corpus
        wanted = device or training.device
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        if wanted == "cuda" and not torch.cuda.is_available():
            raise RecipeError(f"{recipe_file}: device is cuda, but torch sees none; use cpu or auto")
        self.device = torch.device(wanted)
        self.dev = read_parallel(corpus.dev_source, corpus.dev_target)
        text = read_parallel(corpus.train_source, corpus.train_target)
        if training.threads:
            torch.set_num_threads(training.threads)
        torch.manual_seed(training.seed)
        self.run_directory = RunDirectory(out, self.recipe, recipe_file.read_text(encoding="utf-8"))
        self.tokenizer = self.run_directory.tokenizer(text, self._say)
        self.special = SpecialTokens()
        self.config = build_config(
            self.recipe, self.tokenizer, recipe_file, joint=self.run_directory.joint_vocabulary
        )
        self._say(f"tokenising {len(text):,} pairs")
        limit = min(corpus.max_tokens, self.config.max_positions)
        self.data = TrainingSet(
            text, self.tokenizer, self.special, max_tokens=limit, augment=self.recipe.augment
        )
        if not len(self.data):
            raise RecipeError(f"{recipe_file}: no training pair is shorter than {limit} tokens")
        if self.data.left_out:
            self._say(f"{self.data.left_out:,} pairs have {limit} tokens or more: left out")
        positions = self.config.max_positions
        self.dev_data = TrainingSet(self.dev, self.tokenizer, self.special, max_tokens=positions)
        if self.dev_data.left_out:
            raise RecipeError(
                f"{recipe_file}: {self.dev_data.left_out:,} dev pairs have {positions} tokens or more, "
                "the model's max_positions; remove them or raise it"
            )
        self.model = Transformer(self.config).to(self.device)
        self.optimizer = build_optimizer(self.model, training)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=training.precision == "fp16")
        self.progress = self.run_directory.resume(self.model, self.optimizer, self.scaler)
        if self.progress.update:
            self._say(f"resuming {out} after update {self.progress.update:,}")
        self._stop = False

    def _say(self, message: str) -> None:
        if not self.quiet:
            tqdm.write(message, file=sys.stderr)

    @contextlib.contextmanager
    def _compute(self) -> Iterator[None]:
        precision = self.recipe.training.precision
        dtype = _AUTOCAST.get(precision, torch.bfloat16)
        # torch's fused attention for CPUs is slow in the backward pass on short sequences: 40 % of an update
        # at 9 tokens a sentence, against 10 % for the plain form.
        plain = sdpa_kernel(SDPBackend.MATH) if self.device.type == "cpu" else contextlib.nullcontext()
        with plain, torch.autocast(self.device.type, dtype=dtype, enabled=precision in _AUTOCAST):
            yield

    def _loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss and the summed negative log-likelihood of a batch."""
        lengths = batch.source_lengths.to(self.device)
        memory = self.model.encode(batch.source_ids.to(self.device), lengths)
        hidden = self.model.decode_hidden(batch.target_in.to(self.device), memory, lengths)
        targets = batch.target_out.to(self.device)
        real = targets != self.special.pad_id
        dtype = _AUTOCAST.get(self.recipe.training.precision, torch.float32)
        projection = self.model.projection
        return projected_cross_entropy(
            hidden[real].to(dtype), projection.weight, projection.bias, targets[real], smoothing
        )

    def _update(self, batches: list[Batch]) -> tuple[float, float]:
        """Make one update; returns the loss a token and the gradient's norm before clipping."""
        training = self.recipe.training
        number = self.progress.update + 1
        factor = learning_rate_factor(
            number,
            warmup=training.warmup_updates,
            schedule=training.schedule,
            cooldown=training.cooldown_updates,
            max_updates=training.max_updates,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = training.learning_rate * factor
        tokens = sum(batch.target_tokens for batch in batches)
        total = 0.0
        for batch in batches:
            with self._compute():
                loss, _ = self._loss(batch, training.label_smoothing)
            self.scaler.scale(loss / tokens).backward()
            total += float(loss.detach())
        self.scaler.unscale_(self.optimizer)
        limit = training.clip_norm or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.update = number
        return total / tokens, norm

    def _updates(self) -> Iterator[tuple[list[Batch], bool]]:
        """Yield the batches of each update and whether they end the epoch, from where the run stands."""
        training, progress = self.recipe.training, self.progress
        while progress.epoch < training.max_epochs and progress.update < training.max_updates:
            epoch = self.data.epoch(training.seed, progress.epoch, training.batch_tokens)
            batches = itertools.islice(epoch, progress.batches_done, None)
            group = list(itertools.islice(batches, training.accumulate))
            while group and progress.update < training.max_updates:
                following = list(itertools.islice(batches, training.accumulate))
                progress.batches_done += len(group)
                yield group, not following
                group = following
            if not group:
                progress.epoch += 1
                progress.batches_done = 0

    def run(self) -> Path:
        """Train until the recipe says stop.

        Ctrl-C or SIGTERM finishes the update, writes a checkpoint and raises KeyboardInterrupt.

        Returns:
            Directory of the model to use: the best checkpoint, or the average of the last ones if better.
        """
        training, progress = self.recipe.training, self.progress
        log = RunLog(
            self.run_directory.path,
            update=progress.update,
            max_updates=training.max_updates,
            quiet=self.quiet,
        )
        self.model.train()
        validated = progress.update
        with contextlib.closing(log), self._signals():
            for batches, ends_epoch in self._updates():
                loss, norm = self._update(batches)
                log.update_done(
                    progress.update,
                    progress.epoch,
                    loss=loss,
                    tokens=sum(batch.target_tokens for batch in batches),
                    lr=self.optimizer.param_groups[0]["lr"],
                    grad_norm=norm,
                )
                if self._stop:
                    self._save({})
                    raise KeyboardInterrupt
                due = training.validate_every
                if ends_epoch if due == "epoch" else progress.update % due == 0:
                    self._validate_and_save(log)
                    validated = progress.update
                    if training.patience and progress.stale >= training.patience:
                        log.say(f"no better {training.stop_metric} in {progress.stale} validations: stopping")
                        break
            if validated != progress.update:
                self._validate_and_save(log)
            return self._finish(log)

    def validate(self) -> dict[str, Any]:
        """Score the dev set: loss a token, BLEU and chrF of greedy translations."""
        training = self.recipe.training
        self.model.eval()
        smoothed, total, tokens = 0.0, 0.0, 0
        with torch.no_grad():
            for batch in self.dev_data.in_order(training.batch_tokens):
                with self._compute():
                    losses = self._loss(batch, training.label_smoothing)
                smoothed += float(losses[0])
                total += float(losses[1])
                tokens += batch.target_tokens
        stride = max(1, len(self.dev) // (training.validate_sentences or len(self.dev)))
        sources, references = self.dev.sources[::stride], self.dev.targets[::stride]
        result = score(translate(self.model, self.tokenizer, sources, self.special), references)
        self.model.train()
        return {"loss": total / tokens, "smoothed_loss": smoothed / tokens, **result.as_dict()}

    def _validate_and_save(self, log: RunLog) -> None:
        record = self.validate()
        log.record("valid", self.progress.update, self.progress.epoch, record)
        value = self._merit(record)
        better = self.progress.best is None or value > self.progress.best
        if better:
            self.progress.best, self.progress.stale = value, 0
        else:
            self.progress.stale += 1
        self._save(record)
        if better:
            self.run_directory.write_model("best", self.model, self.progress, record)
        log.say(
            f"update {self.progress.update:,}: loss {record['loss']:.3f} BLEU {record['bleu']:.2f} "
            f"chrF {record['chrf']:.2f}{' (best)' if better else ''}"
        )
        log.restart_clock()

    def _merit(self, record: dict[str, Any]) -> float:
        metric = self.recipe.training.stop_metric
        return float(-record[metric] if metric.endswith("loss") else record[metric])

    def _save(self, metrics: dict[str, Any]) -> None:
        self.run_directory.save(self.model, self.optimizer, self.scaler, self.progress, metrics)

    def _finish(self, log: RunLog) -> Path:
        """Average the last checkpoints; the average is the result if it scores better than the best one."""
        best = self.run_directory.path / "best"
        count = self.recipe.training.average_checkpoints
        names = self.progress.kept[-count:] if count else []
        if len(names) < 2:
            return best
        files = [self.run_directory.path / name / "model.safetensors" for name in names]
        load_model_tensors(self.model, average_tensors(files), files[-1])
        record = self.validate()
        average = self.run_directory.write_model("average", self.model, self.progress, record)
        log.record("average", self.progress.update, self.progress.epoch, record)
        log.say(
            f"average of {len(files)}: loss {record['loss']:.3f} BLEU {record['bleu']:.2f} "
            f"chrF {record['chrf']:.2f}"
        )
        return average if self.progress.best is None or self._merit(record) >= self.progress.best else best

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._say("stopping after this update; a checkpoint follows")
            self._stop = True

        numbers = (signal.SIGINT, signal.SIGTERM)
        try:
            before = [signal.signal(number, stop) for number in numbers]
        except ValueError:  # not the main thread: its owner handles signals
            before = []
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=False):
                signal.signal(number, handler)


def build_config(recipe: Recipe, tokenizer: Tokenizer, origin: Path, *, joint: bool) -> TransformerConfig:
    """Complete the recipe's [model] section with the vocabulary.

    Raises:
        RecipeError: a setting is unknown or out of range.
    """
    values: dict[str, Any] = dict(recipe.model.model_extra or {})
    values.setdefault("share_source_target_embeddings", joint)
    values["source_vocab_size"] = tokenizer.source_vocab_size
    values["target_vocab_size"] = tokenizer.target_vocab_size
    try:
        return TransformerConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" {part}:" for part in first["loc"])
        raise RecipeError(f"{origin}: [model]:{where} {first['msg']}") from None
