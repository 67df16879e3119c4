"""The training loop: updates, validation, early stopping, averaging."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from model.checkpoint import load_model_tensors, new_model
from model.data.batching import Batch, take_share
from model.data.corpus import DescribedFeatures, ParallelText, read_pairs
from model.data.dataset import TrainingSet
from model.data.directions import with_directions
from model.data.prefetch import prefetched
from model.data.sampling import readings
from model.evaluation.run_page import write_run_page
from model.recipe import Recipe, RecipeError, load_recipe
from model.training.architecture import build_config
from model.training.averaging import average_tensors
from model.training.batch_loss import BatchLoss, fast_precision
from model.training.distributed import LostProcessError, Processes
from model.training.optimizer import build_optimizer, freeze
from model.training.run_directory import RunDirectory
from model.training.run_log import RunLog
from model.training.schedule import learning_rate_factor
from model.training.transfer import load_teacher
from model.training.validation import Validation

_FEW_UPDATES = 20
"""The pace is not known before: the first updates compile and warm up."""

_PACE_UPDATES = 200
"""The pace is that of the last so many: a machine that others use, too, is not as fast as it was."""


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
        training = self.recipe.training
        wanted = _device(device or training.device, recipe_file)
        self.processes = Processes.join(wanted)
        self.quiet = quiet or not self.processes.first
        self._say(f"the run's directory: {out}")
        self.device = torch.device(f"cuda:{self.processes.local_rank}" if wanted == "cuda" else wanted)
        # Before anything is written: a broken dev set leaves nothing behind.
        dev = [read_pairs(text.dev_source, text.dev_target) for text in self.recipe.corpus.directions]
        if training.threads:
            torch.set_num_threads(training.threads)
        torch.manual_seed(training.seed)
        self.run_directory = RunDirectory(
            out, self.recipe, recipe_file.read_text(encoding="utf-8"), self.processes, quiet=self.quiet
        )
        self._read_corpus(recipe_file, dev)
        self._build_model(recipe_file)
        self._stop = self._stop_agreed = self._averaged = False
        self._times: deque[float] = deque(maxlen=_PACE_UPDATES)

    def _read_corpus(self, recipe_file: Path, dev: list[ParallelText | DescribedFeatures]) -> None:
        """Read or learn the vocabulary, tokenise the corpus, choose the architecture."""
        corpus = self.recipe.corpus
        with self.processes.watched():
            self.tokenizer = self.run_directory.tokenizer(self._say)
        self.special = self.run_directory.special
        self.config = build_config(
            self.recipe,
            self.tokenizer,
            recipe_file,
            joint=self.run_directory.joint_vocabulary,
            inherited=self.run_directory.inherited_architecture(),
            features=np.shape(dev[0].sources[0])[1] if corpus.has_features else 0,
        )
        limit = min(corpus.max_tokens, self.config.max_positions)
        with self.processes.watched():
            table = self.run_directory.table(self.tokenizer, limit, quiet=self.quiet)
        often = readings(table, corpus.sampling)
        more = self.run_directory.augmented(self.tokenizer, limit, often, quiet=self.quiet)
        self.data = TrainingSet(table, self.special, more, readings=often)
        if not len(self.data):
            raise RecipeError(f"{recipe_file}: no training pair is shorter than {limit} tokens")
        if table.left_out:
            self._say(f"{table.left_out:,} pairs have {limit} tokens or more: left out")
        self.validate = Validation(
            with_directions(self.run_directory.directions, dev),
            self.tokenizer,
            self.special,
            self.recipe.training,
            self.processes,
            max_positions=self.config.max_positions,
        )
        if self.validate.too_long:
            raise RecipeError(
                f"{recipe_file}: {self.validate.too_long:,} dev pairs have {self.config.max_positions} "
                "tokens or more, the model's max_positions; remove them or raise it"
            )

    def _build_model(self, recipe_file: Path) -> None:
        """Make model, loss and optimizer, and take them up where the run's last checkpoint left them."""
        training = self.recipe.training
        if (precision := fast_precision(training.precision, self.device)) != training.precision:
            self._say(f"{training.precision} is slow on this processor: training in {precision}")
        self.model = new_model(self.config).to(self.device)
        try:
            freeze(self.model, training.freeze)
        except ValueError as error:
            raise RecipeError(f"{recipe_file}: training.freeze: {error}") from None
        self.optimizer = build_optimizer(self.model, training)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        self.progress = self.run_directory.resume(self.model, self.tokenizer, self.optimizer, self.scaler)
        if not self.progress.update:
            self.processes.seed(training.seed)  # after the weights, which are the same everywhere
        else:
            self._say(f"resuming {self.run_directory.path} after update {self.progress.update:,}")
        self.batch_loss = BatchLoss(
            self.model,
            precision=precision,
            pad_id=self.special.pad_id,
            compiled=training.compile,
            taught=None
            if self.recipe.distillation is None
            else (
                load_teacher(self.recipe.distillation.teacher, self.tokenizer, self.device),
                self.recipe.distillation,
            ),
        )
        with self.processes.watched():
            self._shared_loss = self.processes.wrap(self.batch_loss)

    def prepare(self) -> Path:
        """Make all that training reads, for another machine without the text; returns the run's directory."""
        self.run_directory.draw_all()
        return self.run_directory.path

    @property
    def _last_update(self) -> int:
        return self.progress.last_update or self.recipe.training.max_updates

    def _time_is_up(self) -> bool:
        """Tell whether the cooldown must begin for the run to end in time, at the pace so far."""
        training, times = self.recipe.training, self._times
        if not training.max_minutes or self.progress.last_update or len(times) <= _FEW_UPDATES:
            return False
        pace = (times[-1] - times[0]) / (len(times) - 1)
        passed = times[-1] - self._started
        return passed + training.cooldown_updates * pace >= 60 * training.max_minutes

    def _say(self, message: str) -> None:
        if not self.quiet:
            tqdm.write(message, file=sys.stderr)

    def _update(self, batches: list[Batch]) -> tuple[float, float]:
        """Make one update; returns the loss a token and the gradient's norm before clipping."""
        training = self.recipe.training
        number = self.progress.update + 1
        factor = learning_rate_factor(
            number,
            warmup=training.warmup_updates,
            schedule=training.schedule,
            cooldown=training.cooldown_updates,
            max_updates=self._last_update,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = training.learning_rate * factor
        processes, total = self.processes, 0.0
        tokens = sum(batch.target_tokens for batch in batches)
        for index, batch in enumerate(batches):
            share = take_share(batch, processes.rank, processes.count, self.special.pad_id)
            last = index == len(batches) - 1
            with contextlib.nullcontext() if last else processes.local(self._shared_loss):
                loss, _ = self._shared_loss(share, training.label_smoothing)
                # Gradients are averaged over the processes; the batch's are their sum.
                self.scaler.scale(loss * (processes.count / tokens)).backward()
            total += float(loss.detach())
        # Signals reach processes at different updates: all stop after the same one.
        total, stops, late = processes.add([total, float(self._stop), float(self._time_is_up())])
        self._stop_agreed = stops > 0
        if late:
            self.progress.last_update = min(training.max_updates, number + training.cooldown_updates)
        self.scaler.unscale_(self.optimizer)
        limit = training.clip_norm or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.update = number
        self._times.append(time.monotonic())
        self.progress.batches_done += len(batches)
        return total / tokens, norm

    def _updates(self) -> Iterator[tuple[list[Batch], bool]]:
        """Yield the batches of each update and whether they end the epoch, from where the run stands."""
        training, progress = self.recipe.training, self.progress
        while progress.epoch < training.max_epochs and progress.update < self._last_update:
            batches = self.data.epoch(
                training.seed, progress.epoch, training.batch_tokens, skip=progress.batches_done
            )
            if self.device.type == "cuda" and self.processes.count == 1:
                batches = prefetched(batches)
            group = list(itertools.islice(batches, training.accumulate))
            while group and progress.update < self._last_update:
                following = list(itertools.islice(batches, training.accumulate))
                yield group, not following
                group = following
            if not group:
                progress.epoch += 1
                progress.batches_done = 0

    def run(self) -> Path:
        """Train until the recipe says stop.

        Ctrl-C or SIGTERM finishes the update, writes a checkpoint and raises KeyboardInterrupt; before the
        first update, and the second time, it raises at once.

        Returns:
            Directory of the model to use: the best checkpoint, or the average of the last ones if better.

        Raises:
            LostProcessError: another process of the run is gone; what was trained is saved.
        """
        with self._signals():
            try:
                with self.processes.watched():
                    return self._run()
            except LostProcessError as error:
                self._save_what_is_left()
                raise LostProcessError(
                    f"{error}; {self.run_directory.path} holds a checkpoint, the same command goes on, with "
                    "any number of processes"
                ) from None

    def _save_what_is_left(self) -> None:
        """Save without the other processes; weights change after their last exchange, so they are whole."""
        saved = f"checkpoint-{self.progress.update:07d}" in self.progress.kept
        if self.processes.first and self.progress.update and not saved and not self._averaged:
            self.run_directory.save(self.model, self.optimizer, self.scaler, self.progress, {}, Processes())

    def _run(self) -> Path:
        training, progress = self.recipe.training, self.progress
        log = RunLog(
            self.run_directory.path,
            update=progress.update,
            max_updates=training.max_updates,
            quiet=self.quiet,
            records=self.processes.first,
        )
        self.model.train()
        self._started = time.monotonic()
        validated = 0 if progress.interim else progress.update  # what an interruption saved was not
        with contextlib.closing(log):
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
                if self._stop_agreed:
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
            chosen = self._finish(log)
            if self.processes.first:
                page = write_run_page(
                    self.run_directory.path,
                    chosen,
                    self.recipe,
                    self.model,
                    self.tokenizer,
                    self.special,
                    self.validate.samples,
                )
                log.say(f"the run as a page: {page}")
            return chosen

    def _validate_and_save(self, log: RunLog) -> None:
        record = self.validate(self.batch_loss)
        log.record("valid", self.progress.update, self.progress.epoch, record)
        log.samples(self.progress.update, self.validate.samples)
        value = self._merit(record)
        better = self.progress.best is None or value > self.progress.best
        if better:
            self.progress.best, self.progress.stale = value, 0
        else:
            self.progress.stale += 1
        if better and self.processes.first:  # before the checkpoint says that it is there
            self.run_directory.write_model("best", self.model, self.progress, record)
        self._save(record)
        parts = ", ".join(f"{name} {bleu:.2f}" for name, bleu in record.get("bleu_by_direction", {}).items())
        log.say(
            f"update {self.progress.update:,}: loss {record['loss']:.3f} BLEU {record['bleu']:.2f} "
            f"{f'({parts}) ' if parts else ''}chrF {record['chrf']:.2f}{' (best)' if better else ''}"
        )
        log.restart_clock()

    def _merit(self, record: dict[str, Any]) -> float:
        metric = self.recipe.training.stop_metric
        return float(-record[metric] if metric.endswith("loss") else record[metric])

    def _save(self, metrics: dict[str, Any]) -> None:
        self.run_directory.save(
            self.model, self.optimizer, self.scaler, self.progress, metrics, self.processes
        )

    def _finish(self, log: RunLog) -> Path:
        """Average the last checkpoints; the average is the result if it scores better than the best one."""
        best = self.run_directory.path / "best"
        count = self.recipe.training.average_checkpoints
        names = self.progress.kept[-count:] if count else []
        if len(names) < 2:
            return best
        files = [self.run_directory.path / name / "model.safetensors" for name in names]
        self._averaged = True
        self.processes.wait()  # until process 0 has written the last of them
        load_model_tensors(self.model, average_tensors(files), files[-1])
        record = self.validate(self.batch_loss)
        average = self.run_directory.path / "average"
        if self.processes.first:
            self.run_directory.write_model("average", self.model, self.progress, record)
        log.record("average", self.progress.update, self.progress.epoch, record)
        log.say(
            f"average of {len(files)}: loss {record['loss']:.3f} BLEU {record['bleu']:.2f} "
            f"chrF {record['chrf']:.2f}"
        )
        return average if self.progress.best is None or self._merit(record) >= self.progress.best else best

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            # torchrun sends on what its processes have had from the terminal: twice is once there.
            if self.processes.count == 1 and (self._stop or not self._times):
                raise KeyboardInterrupt
            self._say("stopping after this update; a checkpoint follows (again: stop at once)")
            self._stop = True

        before: dict[signal.Signals, Any] = {}
        with contextlib.suppress(ValueError):  # not the main thread: its owner handles signals
            before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except LostProcessError:
            if before:  # torchrun sends SIGTERM to the processes left, which have yet to say why they end
                before[signal.SIGTERM] = signal.SIG_IGN
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _device(wanted: str, recipe_file: Path) -> str:
    """Choose between cpu and cuda; ``wanted`` may be auto."""
    has_gpu = torch.cuda.is_available()
    if wanted == "cuda" and not has_gpu:
        raise RecipeError(f"{recipe_file}: device is cuda, but torch sees none; use cpu or auto")
    return wanted if wanted != "auto" else "cuda" if has_gpu else "cpu"
