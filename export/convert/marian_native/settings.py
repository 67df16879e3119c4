"""What Marian's YAML files say: the options a model was trained with, and how it is decoded.

All values are read as text: YAML would take a piece ``no`` for false.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError

from export.convert.huggingface_files import HuggingFaceError
from model.checkpoint import Generation
from model.config import Activation, Mixer, TransformerConfig

OPTIONS = "special:model.yml"
DECODER = "decoder.yml"
_MAX_OPTION_BYTES, _MAX_YAML_BYTES = 1 << 20, 1 << 26
_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu"}
_NESTED = "(nested)"
"""In place of a value that is neither text nor a list of text, as none that is asked for."""
_EPS = 1e-9
_POSITIONS = 1024
"""Marian computes positions without end; it is trained with sentences of up to a few hundred tokens."""
_PLAIN: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-no-projection": ("false",),
    "transformer-no-bias": ("false",),
    "transformer-no-affine": ("false",),
    "transformer-rnn-projection": ("false",),
    "transformer-pool": ("false",),
    "transformer-train-position-embeddings": ("false",),
    "transformer-tied-layers": ([],),
    "transformer-postprocess-emb": ("", "d", "n", "nd"),
    "lemma-dim-emb": ("0",),
    "ulr": ("false",),
    "transformer-disable-position-embeddings": ("false",),
    "transformer-alibi-shift": ("false",),
    "output-omit-bias": ("false", "true"),
}
_STYLES = {("n", "da", "n"): "pre", ("", "dan", ""): "post"}
"""Preprocess, postprocess and postprocess-top of the two kinds that are computed here."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, every value as text.

    Raises:
        HuggingFaceError: missing, too large or no such mapping.
    """
    try:
        if path.stat().st_size > _MAX_YAML_BYTES:
            raise HuggingFaceError(f"{path}: more than {_MAX_YAML_BYTES} bytes")
        return _mapping(path.read_bytes(), path)
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such file") from None


def read_options(arrays: Mapping[str, NDArray[Any]], path: Path) -> dict[str, Any]:
    """Read the options that a model carries with it.

    Raises:
        HuggingFaceError: it carries none.
    """
    content = arrays.get(OPTIONS)
    if content is None or content.dtype != np.int8 or content.size > _MAX_OPTION_BYTES:
        raise HuggingFaceError(f"{path}: no model of Marian: it has no {OPTIONS}")
    return _mapping(content.tobytes().rstrip(b"\0"), path)


def _mapping(content: bytes, path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        values = yaml.load(
            content, Loader=loader
        )  # the base loader makes nothing but text, lists and mappings
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise HuggingFaceError(f"{path}: not YAML: {ascii(reason)[1:-1][:200]}") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise HuggingFaceError(f"{path}: not a YAML mapping")
    return {name: value if _is_flat(value) else _NESTED for name, value in values.items()}


def _is_flat(value: object) -> bool:
    """Tell text and lists of text from what aliases would make larger than memory, written out."""
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, str) for part in parts) and sum(map(len, parts)) <= _MAX_OPTION_BYTES


def architecture(
    options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path
) -> TransformerConfig:
    """Describe the model; sizes of its vocabularies are those of its tables.

    Raises:
        HuggingFaceError: it computes what ours cannot.
    """
    mixer = _mixer(options, path)
    for name, known in _PLAIN.items():
        if (value := options.get(name, known[0])) not in known:
            raise HuggingFaceError(f"{path}: {name} {ascii(value)[:60]} is not computed here")
    style = tuple(
        str(options.get(f"transformer-{one}", "")) for one in ("preprocess", "postprocess", "postprocess-top")
    )
    activation = str(options.get("transformer-ffn-activation", "swish"))
    if style not in _STYLES or activation not in _ACTIVATIONS:
        raise HuggingFaceError(
            f"{path}: norms {ascii(style)[:80]} with {ascii(activation)[:40]} are not computed here"
        )
    source, target = tables(arrays, path)
    try:
        heads, width = int(options["transformer-heads"]), int(options["transformer-dim-ffn"])
        return TransformerConfig(
            source_vocab_size=source.shape[0],
            target_vocab_size=target.shape[0],
            d_model=int(options["dim-emb"]),
            encoder_layers=int(options["enc-depth"]),
            decoder_layers=int(options["dec-depth"]),
            encoder_heads=heads,
            decoder_heads=heads,
            encoder_ffn_dim=width,
            decoder_ffn_dim=int(options.get("transformer-decoder-dim-ffn", 0)) or width,
            norm="pre" if _STYLES[style] == "pre" else "post",
            final_norm=_STYLES[style] == "pre",
            decoder_mixer=mixer,
            activation=_ACTIVATIONS[activation],
            positions="sinusoidal_t2t",
            max_positions=_POSITIONS,
            embedding_norm="n" in options.get("transformer-postprocess-emb", ""),
            share_source_target_embeddings=source is target,
            tie_output=not any(name.startswith("decoder_ff_logit_out_W") for name in arrays),
            output_bias="decoder_ff_logit_out_b" in arrays,
            layer_norm_eps=_EPS,
        )
    except KeyError as error:
        raise HuggingFaceError(f"{path}: its options do not state {error.args[0]}") from None
    except (ValidationError, ValueError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise HuggingFaceError(f"{path}: its options are odd: {ascii(reason)[1:-1][:200]}") from None


def tables(arrays: Mapping[str, NDArray[Any]], path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find the embeddings of both sides, which may be one.

    Raises:
        HuggingFaceError: there are none.
    """
    found = [arrays.get(name, arrays.get("Wemb")) for name in ("encoder_Wemb", "decoder_Wemb")]
    source, target = found
    if source is None or target is None or source.ndim != 2 or target.ndim != 2:
        raise HuggingFaceError(f"{path}: has no embeddings of both sides")
    return source, target


def _mixer(options: Mapping[str, Any], path: Path) -> Mixer:
    """Tell what joins the positions of a target."""
    kind = options.get("transformer-decoder-autoreg", "self-attention")
    if kind == "self-attention":
        return "attention"
    cell = options.get("dec-cell", "gru") if kind == "rnn" else kind
    if cell != "ssru":
        raise HuggingFaceError(
            f"{path}: its decoder is a recurrence ({ascii(cell)[1:-1][:40]}) that is not computed here; "
            "only self-attention and the SSRU are"
        )
    if options.get("layer-normalization", "false") != "false":
        raise HuggingFaceError(f"{path}: norms within the recurrence are not computed here")
    return "ssru"


def read_generation(directory: Path) -> Generation:
    """Read beam size and length normalization of decoder.yml, if there is one.

    Raises:
        HuggingFaceError: it is odd.
    """
    if not (directory / DECODER).exists():
        return Generation()
    values = read_yaml(directory / DECODER)
    try:
        beams = int(values["beam-size"]) if "beam-size" in values else None
        penalty = float(values.get("normalize", 0))
    except (TypeError, ValueError):
        raise HuggingFaceError(f"{directory / DECODER}: beam-size or normalize is no number") from None
    if not (beams is None or 1 <= beams <= 32) or not 0 <= penalty <= 10:
        raise HuggingFaceError(f"{directory / DECODER}: beam-size or normalize is out of range")
    return Generation(beam_size=beams, length_penalty=penalty)
