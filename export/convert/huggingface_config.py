"""What the JSON files of a model of the BART or T5 family say, in our words.

Two files tell how to decode: ``generation_config.json`` where there is one, ``config.json`` of older models
otherwise, as in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from export.convert.huggingface_files import HuggingFaceError, read_json
from export.convert.huggingface_names import ACTIVATIONS
from export.convert.t5 import T5_TYPES, T5File, t5_architecture
from model.checkpoint import Generation
from model.config import TransformerConfig

T = TypeVar("T", bound=BaseModel)

# Far beyond any model of the family; what is larger is an attack or a mistake, and would take all memory.
_Layers = Annotated[int, Field(ge=1, le=64)]
_Width = Annotated[int, Field(ge=2, le=16384)]
_Entries = Annotated[int, Field(ge=4, le=2_000_000)]
_Id = Annotated[int, Field(ge=0)]

_PRE = {"norm": "pre", "final_norm": True, "embedding_norm": False, "scale_embeddings": False}
_POST = {"norm": "post", "final_norm": False, "embedding_norm": False, "scale_embeddings": False}
_LEARNED = {"positions": "learned", "position_offset": 2, "embedding_norm": True}
# What a family's class computes whatever its config.json says; an unstated scale is the class's default.
_FAMILIES: dict[str, dict[str, Any]] = {
    "marian": {**_POST, "positions": "sinusoidal_halves"},
    "pegasus": {**_PRE, "positions": "sinusoidal_halves"},
    "m2m_100": {**_PRE, "positions": "sinusoidal_t2t", "position_offset": 2, "scale_embeddings": True},
    "mbart": {**_PRE, **_LEARNED},
    "bart": {**_POST, **_LEARNED},
}

# Settings of generate() that change translations, with the values that leave them as they are.
_UNAPPLIED: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "diversity_penalty": (0.0,),
    "num_beam_groups": (1,),
    "penalty_alpha": (),
    "guidance_scale": (1.0,),
    "sequence_bias": (),
    "begin_suppress_tokens": ([],),
    "exponential_decay_length_penalty": (),
}


class _ModelFile(BaseModel):
    """The fields of ``config.json`` that the computation depends on."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model_type: Literal["marian", "pegasus", "m2m_100", "mbart", "bart"]
    vocab_size: _Entries
    decoder_vocab_size: _Entries | None = None
    d_model: _Width
    encoder_layers: _Layers
    decoder_layers: _Layers
    encoder_attention_heads: Annotated[int, Field(ge=1, le=256)]
    decoder_attention_heads: Annotated[int, Field(ge=1, le=256)]
    encoder_ffn_dim: Annotated[int, Field(ge=1, le=131072)]
    decoder_ffn_dim: Annotated[int, Field(ge=1, le=131072)]
    max_position_embeddings: Annotated[int, Field(ge=2, le=65536)]
    activation_function: str
    scale_embedding: bool | None = None
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    activation_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    pad_token_id: _Id


class _GenerationFile(BaseModel):
    """The fields of ``generation_config.json`` that are honoured."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    eos_token_id: _Id | list[_Id]
    decoder_start_token_id: _Id | None = None
    num_beams: Annotated[int, Field(ge=1)] | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    max_length: Annotated[int, Field(ge=2)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    min_length: Annotated[int, Field(ge=0, le=65536)] | None = None
    min_new_tokens: Annotated[int, Field(ge=0, le=65536)] | None = None
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=100)] | None = None
    forced_eos_token_id: _Id | list[_Id] | None = None
    forced_bos_token_id: _Id | None = None
    bad_words_ids: list[list[_Id]] | None = None
    suppress_tokens: list[_Id] | None = None
    renormalize_logits: bool | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if isinstance(self.eos_token_id, list) and len(self.eos_token_id) != 1:
            raise ValueError(f"eos_token_id must be one token, not {len(self.eos_token_id)}")
        if self.forced_eos_token_id not in (None, self.eos_id, [self.eos_id]):
            raise ValueError("forced_eos_token_id is not eos_token_id")
        if any(len(word) != 1 for word in self.bad_words_ids or ()):
            raise ValueError("bad_words_ids of more than one token are not supported")
        return self

    @property
    def eos_id(self) -> int:
        return _only(self.eos_token_id)


@dataclass(frozen=True)
class ModelSettings:
    """A directory's settings.

    Attributes:
        model_type: the family, as transformers calls it.
        architecture: without an output bias; that depends on the weights.
        pad_id: fills up sources, and usually starts targets.
        eos_id: ends a target.
        decoder_start_id: starts a target.
        target_prefix_ids: tokens that every target begins with.
        suppressed_ids: tokens that are never written.
        renormalise: whether the probabilities of the other tokens are to sum to one again.
        forced_end: whether a target that reaches its length limit gets the end token.
        generation: defaults of requests that do not choose.
        source_language: as the tokenizer says, or None.
        target_language: likewise.
        tokenizer: what ``tokenizer_config.json`` says.
        t5: what config.json says, of T5 and its kin.
        unapplied: settings that would change translations and are not honoured, as ``name = value``.
    """

    model_type: str
    architecture: TransformerConfig
    pad_id: int
    eos_id: int
    decoder_start_id: int
    target_prefix_ids: list[int]
    suppressed_ids: list[int]
    renormalise: bool
    forced_end: bool
    generation: Generation
    source_language: str | None
    target_language: str | None
    tokenizer: Mapping[str, Any]
    t5: T5File | None = None
    unapplied: list[str] = field(default_factory=list)


def read_settings(directory: Path) -> ModelSettings:
    """Read and check the JSON files of a directory.

    Raises:
        HuggingFaceError: a file is missing or odd, or the model is of another kind.
    """
    path = directory / "config.json"
    values = read_json(path)
    t5 = _validate(T5File, values, path) if values.get("model_type") in T5_TYPES else None
    if t5 is None and values.get("model_type") not in tuple(_FAMILIES):
        kind = ascii(values.get("model_type"))[:60]
        raise HuggingFaceError(
            f"{path}: model_type is {kind}; what is read are models of the types "
            f"{', '.join((*_FAMILIES, *T5_TYPES))}"
        )
    model = _validate(_ModelFile, values, path) if t5 is None else t5
    architecture = (
        _architecture(model, path) if isinstance(model, _ModelFile) else t5_architecture(model, path)
    )
    requested = _generation_values(directory, values)
    generation = _validate(_GenerationFile, requested, directory / "generation_config.json")
    suppressed = sorted(
        {word[0] for word in generation.bad_words_ids or ()} - {generation.eos_id}
        | set(generation.suppress_tokens or ())
    )
    tokenizer = _tokenizer_values(directory)
    return ModelSettings(
        model_type=model.model_type,
        architecture=architecture,
        t5=t5,
        pad_id=model.pad_token_id,
        eos_id=generation.eos_id,
        decoder_start_id=(
            model.pad_token_id
            if generation.decoder_start_token_id is None
            else generation.decoder_start_token_id
        ),
        target_prefix_ids=[] if generation.forced_bos_token_id is None else [generation.forced_bos_token_id],
        suppressed_ids=suppressed,
        renormalise=bool(generation.renormalize_logits),
        forced_end=generation.forced_eos_token_id is not None,
        generation=Generation(
            beam_size=generation.num_beams,
            length_penalty=generation.length_penalty,
            early_stopping=bool(generation.early_stopping)
            if generation.early_stopping != "never"
            else "never",
            max_decoding_length=_steps(generation, architecture.max_positions),
            min_decoding_length=_fewest_tokens(generation, architecture.max_positions),
            no_repeat_ngram_size=generation.no_repeat_ngram_size or None,
        ),
        source_language=tokenizer.get("source_lang") or None,
        target_language=tokenizer.get("target_lang") or None,
        tokenizer=tokenizer,
        unapplied=[
            f"{name} = {ascii(requested[name])[:60]}"
            for name, harmless in _UNAPPLIED.items()
            if requested.get(name) is not None and requested[name] not in harmless
        ],
    )


def _steps(generation: _GenerationFile, positions: int) -> int | None:
    """Most decoder steps; their ``max_length`` counts the start token, too."""
    steps = generation.max_new_tokens
    if steps is None and generation.max_length is not None:
        steps = generation.max_length - 1
    return None if steps is None else min(steps, positions)


def _fewest_tokens(generation: _GenerationFile, positions: int) -> int | None:
    """Fewest tokens before the end; their ``min_length`` counts the start token, too."""
    fewest = generation.min_new_tokens
    if fewest is None and generation.min_length is not None:
        fewest = generation.min_length - 1
    return min(fewest, positions) if fewest is not None and fewest > 0 else None


def _architecture(model: _ModelFile, path: Path) -> TransformerConfig:
    activations = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {"silu": "silu"}
    if model.activation_function not in activations:
        raise HuggingFaceError(
            f"{path}: activation_function {ascii(model.activation_function)[:60]} is not one of "
            f"{', '.join(sorted(activations))}"
        )
    family = _FAMILIES[model.model_type]
    shared = model.share_encoder_decoder_embeddings or model.model_type != "marian"
    scales = family["scale_embeddings"] if model.scale_embedding is None else model.scale_embedding
    try:
        return TransformerConfig(
            source_vocab_size=model.vocab_size,
            target_vocab_size=model.vocab_size if shared else model.decoder_vocab_size or model.vocab_size,
            d_model=model.d_model,
            encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers,
            encoder_heads=model.encoder_attention_heads,
            decoder_heads=model.decoder_attention_heads,
            encoder_ffn_dim=model.encoder_ffn_dim,
            decoder_ffn_dim=model.decoder_ffn_dim,
            activation=activations[model.activation_function],
            max_positions=model.max_position_embeddings,
            share_source_target_embeddings=shared,
            tie_output=model.tie_word_embeddings,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            activation_dropout=model.activation_dropout,
            pad_id=model.pad_token_id,
            **{**family, "scale_embeddings": scales},
        )
    except ValidationError as error:
        raise HuggingFaceError(f"{path}: {error.errors()[0]['msg']}") from None


def _generation_values(directory: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    path = directory / "generation_config.json"
    ids = {name: config.get(name) for name in ("eos_token_id", "decoder_start_token_id")}
    if not path.exists():
        return dict(config)
    return ids | {name: value for name, value in read_json(path).items() if value is not None}


def _tokenizer_values(directory: Path) -> dict[str, Any]:
    path = directory / "tokenizer_config.json"
    if not path.exists():
        return {}
    values = read_json(path)
    for name, expected in (("unk_token", "<unk>"), ("eos_token", "</s>")):
        token = values.get(name, expected)
        text = token.get("content") if isinstance(token, dict) else token
        if text != expected:
            raise HuggingFaceError(f"{path}: {name} is {ascii(text)[:40]}; only {expected} is supported")
    for name in ("source_lang", "target_lang"):
        if not isinstance(values.get(name, ""), str | None):
            raise HuggingFaceError(f"{path}: {name} is not a language code")
    return values


def _only(value: int | list[int]) -> int:
    return value[0] if isinstance(value, list) else value


def _validate(kind: type[T], values: Mapping[str, Any], path: Path) -> T:
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise HuggingFaceError(
            f"{path}: {where}: {first['msg']}" if where else f"{path}: {first['msg']}"
        ) from None
