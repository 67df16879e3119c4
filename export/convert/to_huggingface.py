"""Checkpoint to a Hugging Face directory that transformers and CTranslate2's converter read.

Post-norm models become ``MarianMTModel``. Pre-norm models with a final norm become
``PegasusForConditionalGeneration``: the same layers with the norm before, the same fixed positions, and no
norm on the embeddings (mBART has one, M2M100 other position frequencies). Both come with a
``MarianTokenizer``, which takes SentencePiece models and a separate list of ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import sentencepiece
import torch
from torch import Tensor

from export.convert.huggingface_files import HuggingFaceError
from export.convert.huggingface_names import ACTIVATIONS, SHARED_EMBEDDING, model_axis, tensor_names
from model.checkpoint import Checkpoint, CheckpointConfig, model_tensors, write_directory
from model.config import TransformerConfig
from model.positions import sinusoidal_table
from model.tokenizer import read_vocabulary

Architecture = Literal["MarianMTModel", "PegasusForConditionalGeneration"]


def write_huggingface(
    checkpoint: Checkpoint, out: Path, report: Callable[[str], None] = lambda line: None
) -> Architecture:
    """Write a checkpoint as a directory for ``transformers``.

    Args:
        checkpoint: model, configuration and the directory of its tokenizer files.
        out: the directory; replaced if it exists.
        report: gets a line for everything that CTranslate2's converter does not take over.

    Returns:
        The class of ``transformers`` that computes what the model does.

    Raises:
        HuggingFaceError: no class does; the message names what does not fit.
    """
    config = checkpoint.config
    architecture = choose_class(config)
    for line in _lost_in_ctranslate2(checkpoint):
        report(line)
    files = config.tokenizer_files
    source = checkpoint.directory / files.source
    target = checkpoint.directory / (files.target or files.source)
    if files.vocabulary is not None:
        lists = {
            name: read_vocabulary(checkpoint.directory / name)
            for name in files.names
            if name.endswith(".json")
        }
    else:
        lists = {"vocab.json": _pieces(source)}
        if not config.joint_vocabulary:
            lists["target_vocab.json"] = _pieces(target)
    texts = {
        "config.json": _model_config(config, architecture),
        "generation_config.json": _generation_config(config),
        "tokenizer_config.json": _tokenizer_config(config, list(lists.values())[-1]),
        **lists,
    }
    write_directory(
        out,
        {"model.safetensors": dict(_their_tensors(checkpoint))},
        {name: json.dumps(values, indent=1, ensure_ascii=False) + "\n" for name, values in texts.items()}
        | {"README.md": f"# {config.name}\n\n{config.attribution}\n\n{config.origin}\n"},
        {"source.spm": source, "target.spm": target},
    )
    return architecture


def choose_class(config: CheckpointConfig) -> Architecture:
    """Find the class of ``transformers`` that computes what this architecture does.

    Raises:
        HuggingFaceError: there is none.
    """
    model, special = config.transformer, config.special_tokens
    pre = model.norm == "pre"
    shared = model.share_source_target_embeddings
    for fits, problem in (
        (not model.source_features, "reads features, not text"),
        (
            model.positions in ("sinusoidal_interleaved", "sinusoidal_halves"),
            f"has {'no' if model.positions == 'none' else model.positions} positions; "
            "MarianMT and Pegasus compute theirs",
        ),
        (
            model.norm_kind == "layer" and model.biases and not model.gated_ffn,
            "has RMSNorm, gates or no biases, as T5",
        ),
        (model.head_dim is None, "says how large its heads are, which MarianMT and Pegasus compute"),
        (
            model.decoder_mixer == "attention",
            "has a recurrence (ssru) instead of the decoder's self-attention",
        ),
        (not model.relative_distances, "has biases of distances, as T5"),
        (model.position_offset == 0, f"counts positions from {model.position_offset}, MarianMT from 0"),
        (not model.embedding_norm, "has a norm on its embeddings, which MarianMT and Pegasus lack"),
        (model.final_norm == pre, "has a final norm only with pre-norm (Pegasus), none with post-norm"),
        (shared or not pre, "is pre-norm with separate embeddings; Pegasus has one table for both sides"),
        (model.layer_norm_eps == 1e-5, f"has layer_norm_eps {model.layer_norm_eps:g}, MarianMT 1e-05"),
        (
            len(special.source_suffix_ids) == 1 and not special.source_prefix_ids,
            "marks its sources otherwise than with one end token, as MarianTokenizer does",
        ),
    ):
        if not fits:
            raise HuggingFaceError(f"{config.name}: no Hugging Face class fits: the model {problem}")
    return "PegasusForConditionalGeneration" if pre else "MarianMTModel"


def _their_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, Tensor]]:
    """Yield weights under their names, packed ones split, features in Marian's order."""
    config = checkpoint.config.transformer
    order = feature_order(config)
    if config.norm == "pre":
        # Marian's class recomputes its positions without a word, Pegasus's warns that they are missing.
        positions = sinusoidal_table(config.max_positions, config.d_model, "sinusoidal_halves")
        yield "model.encoder.embed_positions.weight", positions
        yield "model.decoder.embed_positions.weight", positions
    for name, parts in tensor_names(config).items():
        tensor = model_tensors(checkpoint.transformer)[name].detach()
        axis = model_axis(name)
        if axis is not None:
            tensor = tensor.index_select(axis, order)
        if name == "projection.bias":
            tensor = tensor[None]
        yield from zip(parts, tensor.chunk(len(parts)), strict=True)
        if parts == (SHARED_EMBEDDING,) and not config.tie_output:
            # Without tied words transformers ties no embedding at all.
            yield "model.encoder.embed_tokens.weight", tensor
            yield "model.decoder.embed_tokens.weight", tensor


def feature_order(config: TransformerConfig) -> Tensor:
    """Tell which of our d_model features comes at each place in Marian's layout of positions, int64 [E].

    Nothing but position vectors orders the features of a Transformer: with all weights permuted alike, sines
    and cosines in two halves give what interleaved ones did, but for rounding.
    """
    features = torch.arange(config.d_model)
    if config.positions != "sinusoidal_interleaved":
        return features
    return torch.cat((features[0::2], features[1::2]))


def _model_config(config: CheckpointConfig, architecture: Architecture) -> dict[str, Any]:
    model = config.transformer
    pre = architecture == "PegasusForConditionalGeneration"
    values: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": "pegasus" if pre else "marian",
        "vocab_size": model.source_vocab_size,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "num_hidden_layers": model.encoder_layers,
        "encoder_attention_heads": model.encoder_heads,
        "decoder_attention_heads": model.decoder_heads,
        "encoder_ffn_dim": model.encoder_ffn_dim,
        "decoder_ffn_dim": model.decoder_ffn_dim,
        "activation_function": ACTIVATIONS[model.activation],
        "scale_embedding": model.scale_embeddings,
        "max_position_embeddings": model.max_positions,
        "tie_word_embeddings": model.tie_output,
        "static_position_embeddings": True,
        "normalize_before": pre,
        "normalize_embedding": False,
        "add_final_layer_norm": pre,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "is_encoder_decoder": True,
        # Both default to ending every cut translation as if it were complete.
        "forced_eos_token_id": None,
        "dtype": "float32",
        **_ids(config),
    }
    if not pre:
        values["decoder_vocab_size"] = model.target_vocab_size
        values["share_encoder_decoder_embeddings"] = model.share_source_target_embeddings
    return values


def _ids(config: CheckpointConfig) -> dict[str, int]:
    special = config.special_tokens
    # Their convention, on which CTranslate2's converter relies: decoding starts with the padding token.
    return {
        "pad_token_id": special.decoder_start_id,
        "decoder_start_token_id": special.decoder_start_id,
        "eos_token_id": special.eos_id,
    }


def _generation_config(config: CheckpointConfig) -> dict[str, Any]:
    special, requested = config.special_tokens, config.generation
    # Their length counts the start token.
    steps = requested.max_decoding_length or config.transformer.max_positions - 1
    values: dict[str, Any] = {
        **_ids(config),
        "max_length": steps + 1,
        "num_beams": requested.beam_size or 1,
        "length_penalty": requested.length_penalty,
        "min_length": requested.min_decoding_length + 1 if requested.min_decoding_length else None,
        "no_repeat_ngram_size": requested.no_repeat_ngram_size,
        "early_stopping": requested.early_stopping,
        "forced_eos_token_id": special.eos_id if special.forced_end else None,
        "forced_bos_token_id": special.target_prefix_ids[0] if special.target_prefix_ids else None,
        "bad_words_ids": [[number] for number in special.suppressed_ids] or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _tokenizer_config(config: CheckpointConfig, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    pieces = {number: piece for piece, number in vocabulary.items()}
    special = config.special_tokens
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "unk_token": pieces[special.unk_id],
        "eos_token": pieces[special.eos_id],
        "pad_token": pieces[special.decoder_start_id],
        "model_max_length": config.transformer.max_positions,
        "separate_vocabs": not config.joint_vocabulary,
    }


def _lost_in_ctranslate2(checkpoint: Checkpoint) -> Iterator[str]:
    """Say what CTranslate2's converter reads otherwise than transformers does."""
    config = checkpoint.config.transformer
    if config.encoder_heads != config.decoder_heads:
        yield (
            f"CTranslate2's converter takes the encoder's {config.encoder_heads} heads for the decoder, "
            f"which has {config.decoder_heads}: translations will differ there"
        )
    start = checkpoint.transformer.target_embedding.tokens.weight[
        checkpoint.config.special_tokens.decoder_start_id
    ]
    if config.norm == "post" and bool(start.any()):
        yield (
            "CTranslate2's converter expects MarianMT's start token to have a zero embedding, which it has "
            "not: translations will differ there"
        )


def _pieces(file: Path) -> dict[str, int]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
