"""A training run, described in one TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

ScheduleName = Literal["inverse_square_root", "constant"]
Precision = Literal["fp32", "bf16", "fp16"]
VocabularyKind = Literal["unigram", "bpe", "word", "character"]

LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$"
TASK_NAME = r"^[a-z][a-z0-9-]{0,39}$"


class RecipeError(ValueError):
    """A recipe cannot be used; the message names the file, the setting and what is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DirectionText(_Section):
    """Text of one direction; paths are relative to the recipe's folder. Several files a side are joined.

    Sources may be feature vectors instead: .npz files, see `model.features.files`.
    """

    source_language: str = Field(pattern=LANGUAGE)
    target_language: str = Field(pattern=LANGUAGE)
    train_source: list[Path]
    train_target: list[Path]
    dev_source: list[Path]
    dev_target: list[Path]
    train_origin: list[Path] = Field(
        default_factory=list, description="the origin of each line, for [corpus.sampling]"
    )

    @model_validator(mode="after")
    def _in_step(self) -> DirectionText:
        if self.train_origin and len(self.train_origin) != len(self.train_source):
            raise PydanticCustomError("train_origin", "train_origin needs a file for each of train_source")
        if len({path.suffix == ".npz" for path in (*self.train_source, *self.dev_source)}) > 1:
            raise PydanticCustomError("features", "either all sources are .npz files, or none")
        return self

    @property
    def name(self) -> str:
        """The two languages: ``en-de``."""
        return f"{self.source_language}-{self.target_language}"


class Sampling(_Section):
    """How often an epoch reads the pairs of each origin; an epoch stays as large as the corpus.

    Shares are proportional to ``weight * pairs ** (1 / temperature)`` (Arivazhagan et al., 2019): above 1
    small origins come more often than their size says.
    """

    temperature: float = Field(default=1.0, ge=1)
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="by origin or pattern (ms-*), the first that fits; 1 otherwise"
    )
    most: float = Field(default=4.0, ge=1, description="times that an epoch reads a pair at most, on average")

    @property
    def is_used(self) -> bool:
        """Whether it changes anything."""
        return self.temperature > 1 or bool(self.weights)


class Corpus(_Section):
    """Where the text is: of one direction in the section itself, of several in ``[[corpus.directions]]``."""

    directions: list[DirectionText] = Field(min_length=1)
    max_tokens: int = Field(default=128, gt=1, description="longer training pairs are left out")
    attribution: str = Field(default="", description="goes into the bundle's model card and NOTICE")
    attribution_file: Path | None = Field(default=None, description="more of it, beside the recipe")
    sampling: Sampling = Sampling()

    @property
    def has_features(self) -> bool:
        """Whether the sources are feature vectors; only one direction can have such."""
        return any(path.suffix == ".npz" for path in self.directions[0].train_source)

    @model_validator(mode="before")
    @classmethod
    def _one_direction(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "directions" in values:
            return values
        own = {name: value for name, value in values.items() if name in DirectionText.model_fields}
        return {name: value for name, value in values.items() if name not in own} | {"directions": [own]}

    @model_validator(mode="after")
    def _all_different(self) -> Corpus:
        names = [direction.name for direction in self.directions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PydanticCustomError(
                "directions", "{twice} is there twice; join its files in one", {"twice": ", ".join(twice)}
            )
        return self


class Vocabulary(_Section):
    """How text becomes pieces.

    ``word`` takes text that is cut already and never cuts it further; ``character`` makes every character a
    piece, whatever its case.
    """

    kind: VocabularyKind = "unigram"
    target_kind: VocabularyKind | None = Field(
        default=None, description="of the target side, if it differs; then not joint"
    )
    joint: bool = True
    size: int = Field(
        default=8000,
        gt=260,
        description="entries, of each side if not joint; with word or character: at most so many",
    )
    character_coverage: float = Field(default=0.9995, gt=0.9, le=1)
    split_digits: bool = Field(default=False, description="numbers are spelled digit by digit; not with word")
    symbols: bool = Field(
        default=False,
        description="ASCII, signs and accented letters are pieces, see model/vocabulary/symbols.py",
    )
    sentences: int = Field(
        default=1_000_000,
        gt=0,
        description="learn from a sample of so many; a million of 7 words take 0.8 GiB and half a minute",
    )
    path: Path | None = Field(
        default=None, description="take that of a run, a checkpoint, a bundle or a .spm file, learn none"
    )

    @model_validator(mode="after")
    def _one_kind_if_joint(self) -> Vocabulary:
        if self.joint and self.target_kind not in (None, self.kind):
            raise PydanticCustomError("target_kind", "a joint vocabulary has one kind; set joint = false")
        return self


class Model(_Section):
    """Fields of TransformerConfig, or with ``architecture = "rnn"`` of RnnConfig, but vocabulary sizes.

    What is missing comes with initialise_from.
    """

    model_config = ConfigDict(frozen=True, extra="allow")


class Augment(_Section):
    """What a corpus lacks, made from what it has; each share by a file of model/augmentation/."""

    copy_share: float = Field(
        default=0.0, ge=0, le=1, description="of the pairs with a shared name, each epoch"
    )
    number_share: float = Field(default=0.0, ge=0, le=1, description="of the pairs with a number, each epoch")
    copies: int = Field(default=1, ge=1, description="variants of each chosen pair with a number, each epoch")
    name_copies: int = Field(default=1, ge=1, description="variants of each chosen pair with a name alone")
    number_words: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="spelled-out numbers and their translation, by direction: en-de"
    )
    join_share: float = Field(
        default=0.0, ge=0, le=1, description="of all pairs, once more with another behind it, each epoch"
    )
    noise_share: float = Field(
        default=0.0, ge=0, le=1, description="of all pairs, once more with a damaged source, each epoch"
    )
    mask_share: float = Field(
        default=0.0, ge=0, le=1, description="of all pairs, once more with masks for or by aligned words"
    )
    literal_share: float = Field(
        default=0.0, ge=0, le=1, description="likewise with numbers, units, URLs, placeholders, codes"
    )
    tag_share: float = Field(
        default=0.0, ge=0, le=1, description="likewise with tags, quotes or brackets around aligned words"
    )
    surface_share: float = Field(
        default=0.0, ge=0, le=1, description="likewise in capitals or with another final mark, on both sides"
    )
    variants: int = Field(
        default=16, ge=1, description="different epochs of additional pairs; later epochs read them again"
    )

    @property
    def aligns(self) -> bool:
        """Whether words must be aligned."""
        return any((self.mask_share, self.literal_share, self.tag_share))

    @property
    def is_used(self) -> bool:
        """Whether anything is drawn at all."""
        shares = (self.copy_share, self.number_share, self.join_share, self.noise_share, self.surface_share)
        return self.aligns or any(shares)


class Distillation(_Section):
    """A teacher whose distribution over the next word is learned beside the text (Hinton et al., 2015).

    Kim and Rush (2016, section 3.1) call it word-level distillation; their sequence-level one is
    `dragoman distill`, and both go together.
    """

    teacher: Path = Field(description="checkpoint with the vocabulary of the run")
    loss: Literal["cross_entropy", "logits"] = Field(
        default="cross_entropy",
        description="on the teacher's distribution, or squared error of logits (Ba and Caruana, 2014)",
    )
    weight: float = Field(default=0.5, gt=0, le=1, description="of the teacher; the rest is the text's")
    temperature: float = Field(
        default=1.0, gt=0, description="of both distributions; the loss is multiplied by its square"
    )


class Training(_Section):
    """Optimisation and bookkeeping."""

    seed: int = 1
    initialise_from: Path | None = Field(
        default=None, description="checkpoint whose weights and vocabulary a new run starts from"
    )
    shrink: bool = Field(
        default=False,
        description="a larger model at initialise_from: learn [vocabulary]; [model] may have fewer layers",
    )
    freeze: list[str] = Field(
        default_factory=list, description="parts of the model that are not trained: encoder, decoder.0, ..."
    )
    max_updates: int = Field(gt=0)
    max_minutes: float = Field(
        default=0.0,
        ge=0,
        description="of this process: the cooldown begins early enough to end by then; 0 for no limit",
    )
    max_epochs: int = Field(default=10_000, gt=0)
    batch_tokens: int = Field(default=4096, gt=0, description="per batch and side, padding included")
    accumulate: int = Field(default=1, gt=0, description="batches per update")
    optimizer: Literal["adam", "adamw", "sgd", "adagrad"] = "adam"
    learning_rate: float = Field(gt=0, description="peak")
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    momentum: float = Field(default=0.0, ge=0, lt=1, description="sgd only")
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: ScheduleName = "inverse_square_root"
    warmup_updates: int = Field(default=4000, ge=0)
    cooldown_updates: int = Field(default=0, ge=0)
    clip_norm: float = Field(default=1.0, ge=0, description="0 for none")
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    precision: Precision = "fp32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    compile: bool = Field(default=False, description="run the model through torch.compile")
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 leaves it to torch")
    validate_every: Annotated[int, Field(gt=0)] | Literal["epoch"] = Field(
        default=1000, description="updates between validations and checkpoints, or after each epoch"
    )
    validate_sentences: int = Field(default=0, ge=0, description="decoded for BLEU; 0 for the whole dev set")
    patience: int = Field(
        default=0, ge=0, description="validations without a better one; 0 never stops early"
    )
    stop_metric: Literal["loss", "smoothed_loss", "bleu", "chrf"] = Field(
        default="bleu", description="smoothed_loss is the loss that is trained; loss has no label smoothing"
    )
    keep_checkpoints: int = Field(default=5, gt=0)
    average_checkpoints: int = Field(default=5, ge=0, description="averaged at the end; 0 for none")

    @model_validator(mode="after")
    def _something_to_shrink(self) -> Training:
        if self.shrink and self.initialise_from is None:
            raise PydanticCustomError("shrink", "shrink needs initialise_from, the model to start from")
        return self


class Recipe(_Section):
    """Everything `dragoman train` needs."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*$",
        description="of the model; the run's directory is named after the file",
    )
    task: str = Field(
        default="translation",
        pattern=TASK_NAME,
        description="another makes a model for `POST /generate`: its inputs are read whole, as they are",
    )
    corpus: Corpus
    vocabulary: Vocabulary = Vocabulary()
    model: Model = Model()
    augment: Augment = Augment()
    distillation: Distillation | None = None
    training: Training

    @model_validator(mode="after")
    def _one_direction_of_a_task(self) -> Recipe:
        if self.task != "translation" and len(self.corpus.directions) > 1:
            raise PydanticCustomError(
                "task", "task {task}: only translation has several directions", {"task": self.task}
            )
        return self

    @model_validator(mode="after")
    def _features_are_no_text(self) -> Recipe:
        if not self.corpus.has_features:
            return self
        unfit = {
            "task translation; name another": self.task == "translation",
            "[augment]": self.augment.is_used,
            "[corpus.sampling]": self.corpus.sampling.is_used,
            "train_origin": bool(self.corpus.directions[0].train_origin),
            "joint = false: the only vocabulary is the target's": not self.vocabulary.joint,
            "[distillation]": self.distillation is not None,
        }
        for reason in (name for name, is_used in unfit.items() if is_used):
            raise PydanticCustomError("features", "features do not go with {reason}", {"reason": reason})
        return self

    @model_validator(mode="after")
    def _number_words_of_directions(self) -> Recipe:
        names = [direction.name for direction in self.corpus.directions]
        for name in self.augment.number_words:
            if name not in names:
                raise PydanticCustomError(
                    "number_words",
                    "augment.number_words: {name} is no direction of the corpus ({names})",
                    {"name": name, "names": ", ".join(names)},
                )
        return self

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Recipe:
        if self.vocabulary.path is not None and self.training.initialise_from and not self.training.shrink:
            raise PydanticCustomError(
                "vocabulary", "vocabulary.path: the vocabulary comes with training.initialise_from already"
            )
        return self

    def relative_to(self, folder: Path) -> Recipe:
        """Resolve the paths against the folder of the recipe."""
        sides = ("train_source", "train_target", "dev_source", "dev_target", "train_origin")
        directions = [
            text.model_copy(update={side: [folder / path for path in getattr(text, side)] for side in sides})
            for text in self.corpus.directions
        ]
        corpus: dict[str, Any] = {"directions": directions}
        if self.corpus.attribution_file is not None:
            file = folder / self.corpus.attribution_file
            try:
                text = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise RecipeError(f"{file}: corpus.attribution_file cannot be read: {error}") from None
            corpus |= {"attribution": "\n".join(filter(None, (self.corpus.attribution, text)))}
            corpus |= {"attribution_file": file}
        update: dict[str, _Section] = {"corpus": self.corpus.model_copy(update=corpus)}
        if self.vocabulary.path is not None:
            path = folder / self.vocabulary.path
            update["vocabulary"] = self.vocabulary.model_copy(update={"path": path})
        if self.distillation is not None:
            path = folder / self.distillation.teacher
            update["distillation"] = self.distillation.model_copy(update={"teacher": path})
        first = self.training.initialise_from
        if first is not None:
            update["training"] = self.training.model_copy(update={"initialise_from": folder / first})
        return self.model_copy(update=update)


def load_recipe(path: Path, *, seed: int | None = None) -> Recipe:
    """Read and check a recipe; its paths come back resolved.

    Args:
        path: the file.
        seed: replaces that of the recipe.

    Raises:
        RecipeError: no readable file, not TOML, or a setting that is unknown or out of range.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe") from None
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not TOML: {error}") from None
    try:
        if seed is not None and isinstance(values.get("training"), dict):
            values["training"]["seed"] = seed
        return Recipe.model_validate(values).relative_to(path.parent)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        corpus = values.get("corpus")
        if not isinstance(corpus, dict) or "directions" not in corpus:
            where = where.replace("corpus.directions.0.", "corpus.")  # written in the section itself
        raise RecipeError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from None
