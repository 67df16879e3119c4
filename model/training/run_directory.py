"""The directory of a training run: its vocabulary, its checkpoints, and where it stands."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.augmentation.tables import AugmentedTables
from model.checkpoint import (
    Checkpoint,
    CheckpointConfig,
    CheckpointError,
    Direction,
    SpecialTokens,
    load_checkpoint,
    load_model_tensors,
    model_tensors,
    read_config,
    read_tensors,
    write_directory,
)
from model.config import AnyConfig
from model.data.corpus import DescribedFeatures, check_parallel, read_pairs
from model.data.dataset import features_table
from model.data.directions import directions_of
from model.data.token_table import TokenTable
from model.data.tokenization import has_files_of, is_tokenised, made_from, tokenise
from model.encoder_decoder import EncoderDecoder
from model.recipe import Recipe, RecipeError
from model.tokenizer import Tokenizer
from model.training.distributed import Processes, random_states, restore_random_state
from model.training.optimizer import optimizer_tensors, restore_optimizer
from model.training.transfer import check_architecture, shrunk_tensors
from model.vocabulary.provision import TOKENIZER_FILES, check_fit, copy_vocabulary, learn_vocabulary


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint.

    Attributes:
        update: updates made.
        epoch: current epoch, from 0.
        batches_done: batches of this epoch already used.
        best: best value so far of the stop metric, higher is better.
        stale: validations since then.
        kept: names of the checkpoints on disk, oldest first.
        interim: the one of them that an interruption left, between validations; the next one replaces it, so
            that an average is of validated ones.
        last_update: where the run ends because its time does; 0 while that is not known.
    """

    update: int = 0
    epoch: int = 0
    batches_done: int = 0
    best: float | None = None
    stale: int = 0
    kept: list[str] = field(default_factory=list)
    interim: str = ""
    last_update: int = 0


class RunDirectory:
    """Files of one run; process 0 writes them. Owned by the training thread.

    Layout: ``checkpoint-NNNNNNN/`` (weights and everything needed to go on), ``best/`` and ``average/``
    (weights), ``source.spm`` and ``target.spm``, ``tokens/`` (the corpus as ids), ``metrics.jsonl``,
    ``tensorboard/``.

    Attributes:
        directions: of the run, with the ids of their tags; known once ``tokenizer`` was called.
        special: ids that text never produces; features have none around them.

    Raises:
        RecipeError: ``training.initialise_from`` lies inside this run, or has other special ids.
        CheckpointError: it is no checkpoint, or a damaged one.
        CorpusError: the training text is broken; read through once, unless it is tokenised already.
    """

    def __init__(
        self, path: Path, recipe: Recipe, recipe_text: str, processes: Processes, *, quiet: bool
    ) -> None:
        self.path = path
        self._processes = processes
        self._recipe = recipe
        self._recipe_text = recipe_text
        self.special = SpecialTokens(source_suffix_ids=[]) if recipe.corpus.has_features else SpecialTokens()
        self._start = self._read_start()
        self.directions: list[Direction] = []
        self._described: DescribedFeatures | None = None
        self._augmented: AugmentedTables | None = None
        self._pairs = 0
        self._prepared = has_files_of(path / "tokens", recipe.corpus)
        if recipe.corpus.has_features:
            (direction,) = recipe.corpus.directions
            described = read_pairs(direction.train_source, direction.train_target)
            assert isinstance(described, DescribedFeatures)
            self._described, self._pairs = described, len(described)
        elif processes.first and not self._prepared:
            # A broken corpus is found before anything is written.
            for text in recipe.corpus.directions:
                self._pairs += check_parallel(text.train_source, text.train_target, quiet=quiet)
        path.mkdir(parents=True, exist_ok=True)

    def _read_start(self) -> Checkpoint | None:
        """Read the checkpoint that a new run starts from; a run with checkpoints of its own needs none."""
        first = self._recipe.training.initialise_from
        if first is None:
            return None
        if first.resolve().is_relative_to(self.path.resolve()):
            raise RecipeError(f"{self.path}: holds training.initialise_from ({first}); choose another --out")
        if self._checkpoints():
            return None
        start = load_checkpoint(first)
        if start.config.tokenizer != "sentencepiece":
            raise RecipeError(
                f"{first}: came from MarianMT, whose list of ids a recipe cannot use; fine-tune it with "
                "transformers and import it again"
            )
        theirs = start.config.special_tokens.model_dump()
        wrong = [
            f"{name} {theirs[name]} instead of {ours}"
            for name, ours in self.special.model_dump().items()
            if theirs[name] != ours
        ]
        if wrong and self._takes_vocabulary_of_start:
            raise RecipeError(
                f"{first}: has {', '.join(wrong)}, which a recipe cannot use; start from a checkpoint that "
                "dragoman train made, or set training.shrink, which learns a new vocabulary"
            )
        return start

    def _checkpoints(self) -> list[Path]:
        return sorted(self.path.glob("checkpoint-*"))

    @property
    def _takes_vocabulary_of_start(self) -> bool:
        training = self._recipe.training
        return training.initialise_from is not None and not training.shrink

    @property
    def joint_vocabulary(self) -> bool:
        """Whether both sides share one vocabulary; known once ``tokenizer`` was called."""
        if not self._takes_vocabulary_of_start and self._recipe.vocabulary.path is None:
            return self._recipe.vocabulary.joint
        return not (self.path / "target.spm").exists()

    def inherited_architecture(self) -> dict[str, Any]:
        """Give the fields of the architecture that ``[model]`` need not say: all with ``initialise_from``.

        Raises:
            CheckpointError: the run's newest checkpoint is damaged.
        """
        if self._recipe.training.initialise_from is None:
            return {}
        config = self._start.config if self._start else read_config(self._checkpoints()[-1])
        values = config.model.model_dump()
        if not self._takes_vocabulary_of_start:
            del values["share_source_target_embeddings"]
        return values

    def tokenizer(self, say: Callable[[str], None]) -> Tokenizer:
        """Load the run's vocabulary; a new run learns one first, or copies that of ``initialise_from``.

        Raises:
            RecipeError: it cannot be used for these directions.
        """
        if self._processes.first:
            self._provide_vocabulary(say)
        self._processes.wait()
        tokenizer = Tokenizer.load(
            self.path / "source.spm", None if self.joint_vocabulary else self.path / "target.spm"
        )
        self.directions = directions_of(self._recipe.corpus, tokenizer)
        corpus, given = self._recipe.corpus, self._recipe.vocabulary.path
        if self._prepared:
            return tokenizer
        if self._start is not None and self._takes_vocabulary_of_start:
            check_fit(tokenizer, corpus, self._start.directory, "training.initialise_from", say)
        elif given is not None:
            check_fit(tokenizer, corpus, given, "vocabulary.path", say)
        return tokenizer

    def _provide_vocabulary(self, say: Callable[[str], None]) -> None:
        given = self._recipe.vocabulary.path
        if not self._takes_vocabulary_of_start:
            if given is None:
                learn_vocabulary(self._recipe, self.path, self._pairs, say)
            elif not (self.path / "source.spm").exists():
                copy_vocabulary(given, self.path)
        elif self._start is not None:
            copy_vocabulary(self._start.directory, self.path)

    def table(self, tokenizer: Tokenizer, max_tokens: int, *, quiet: bool) -> TokenTable:
        """Map the training text as ids; process 0 tokenises it first if that was not done.

        With features instead, the table lies in the memory of each process.

        Raises:
            CorpusError: the text is broken.
        """
        if self._described is not None:
            return features_table(self._described, tokenizer, max_tokens)
        directory = self.path / "tokens"
        if self._processes.first:
            corpus = self._recipe.corpus
            description = self._description(max_tokens)
            if not is_tokenised(directory, description):
                tokenise(corpus, self.directions, tokenizer, directory, description, quiet=quiet)
        self._processes.wait()
        return TokenTable.open(directory)

    def augmented(
        self, tokenizer: Tokenizer, max_tokens: int, often: NDArray[np.float64] | None, *, quiet: bool
    ) -> Callable[[int], TokenTable] | None:
        """Give what maps the additional pairs of an epoch, drawn by process 0; None if there are none.

        Args:
            tokenizer: of the run.
            max_tokens: pairs of so many are left out.
            often: how often an epoch reads a pair of each origin.
            quiet: no progress bar.
        """
        recipe = self._recipe
        if not recipe.augment.is_used:
            return None
        self._augmented = AugmentedTables(
            recipe,
            self.directions,
            tokenizer,
            self.path,
            self._description(max_tokens),
            readings=often,
            quiet=quiet,
        )
        return self._additional

    def _additional(self, epoch: int) -> TokenTable:
        assert self._augmented is not None
        if self._processes.first:
            self._augmented.write(epoch)
        self._processes.wait()
        return self._augmented.table(epoch)

    def draw_all(self) -> None:
        """Draw the additional pairs of all epochs that are not there yet."""
        if self._augmented is not None and self._processes.first:
            self._augmented.write_all()

    def _description(self, max_tokens: int) -> dict[str, Any]:
        files = [self.path / name for name in TOKENIZER_FILES if (self.path / name).exists()]
        return made_from(self._recipe.corpus, self.directions, files, max_tokens, self.path / "tokens")

    def write_model(
        self,
        name: str,
        model: EncoderDecoder,
        progress: Progress,
        metrics: Mapping[str, Any],
        extra: tuple[Mapping[str, Mapping[str, Tensor]], Mapping[str, str]] = ({}, {}),
    ) -> Path:
        """Write a checkpoint directory that evaluation and export can use on its own.

        Args:
            name: its name inside the run.
            model: the weights.
            progress: says after how many updates.
            metrics: validation result, kept in ``config.json``.
            extra: more tensor files and text files, by name.
        """
        corpus = self._recipe.corpus
        config = CheckpointConfig(
            name=self._recipe.name,
            task=self._recipe.task,
            model=model.config,
            special_tokens=self.special,
            source_language=self.directions[0].source,
            target_language=self.directions[0].target,
            directions=self.directions if len(self.directions) > 1 else [],
            joint_vocabulary=self.joint_vocabulary,
            attribution=corpus.attribution,
            recipe_sha256=hashlib.sha256(self._recipe_text.encode()).hexdigest(),
            updates=progress.update,
            metrics=dict(metrics),
        )
        tensors, texts = extra
        own = {"config.json": config.model_dump_json(indent=1) + "\n", "recipe.toml": self._recipe_text}
        write_directory(
            self.path / name,
            {"model.safetensors": model_tensors(model), **tensors},
            {**own, **texts},
            copies={file: self.path / file for file in TOKENIZER_FILES if (self.path / file).exists()},
        )
        return self.path / name

    def save(
        self,
        model: EncoderDecoder,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        progress: Progress,
        metrics: Mapping[str, Any],
        processes: Processes,
    ) -> None:
        """Write everything needed to go on, then drop the oldest checkpoints.

        Args:
            model: the weights.
            optimizer: and its state.
            scaler: of fp16.
            progress: ``kept`` is brought up to date in every process.
            metrics: validation result, kept in ``config.json``; none if the run was interrupted.
            processes: all of those that call this; the first writes.
        """
        keep = self._recipe.training.keep_checkpoints
        name = f"checkpoint-{progress.update:07d}"
        interim, progress.interim = progress.interim, "" if metrics else name
        names = [*(kept for kept in progress.kept if kept not in (name, interim)), name]
        progress.kept = names[-keep:]
        if not processes.first:
            random_states(processes)
            return
        state = {f"optimizer.{key}": value for key, value in optimizer_tensors(optimizer).items()}
        state.update(random_states(processes))
        standing = json.dumps({"progress": asdict(progress), "scaler": scaler.state_dict()}, indent=1)
        extra = ({"training.safetensors": state}, {"state.json": standing})
        self.write_model(name, model, progress, metrics, extra)
        for old in {*names[:-keep], interim} - {name, ""}:
            shutil.rmtree(self.path / old, ignore_errors=True)

    def resume(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
    ) -> Progress:
        """Put back the newest checkpoint; a new run takes the weights of ``initialise_from``, if any.

        Raises:
            CheckpointError: the newest checkpoint is damaged or belongs to another model, or the one to
                start from does.
        """
        found = self._checkpoints()
        if not found:
            if self._start is not None:
                tensors = self._first_tensors(self._start, model.config, tokenizer)
                load_model_tensors(model, tensors, self._start.directory)
            return Progress()
        directory = found[-1]
        load_model_tensors(model, read_tensors(directory / "model.safetensors"), directory)
        state = read_tensors(directory / "training.safetensors")
        prefix = "optimizer."
        restore_optimizer(optimizer, {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)})
        path = directory / "state.json"
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            if saved["scaler"]:  # nothing of a run in another precision
                scaler.load_state_dict(saved["scaler"])
            known = Progress.__dataclass_fields__
            progress = Progress(**{key: value for key, value in saved["progress"].items() if key in known})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: damaged: {error}") from None
        restore_random_state(self._processes, state, self._recipe.training.seed + progress.update)
        return progress

    def _first_tensors(self, start: Checkpoint, config: AnyConfig, tokenizer: Tokenizer) -> dict[str, Tensor]:
        shrinks = self._recipe.training.shrink
        check_architecture(config, start, shrinks=shrinks)
        return shrunk_tensors(start, config, tokenizer) if shrinks else model_tensors(start.model)
