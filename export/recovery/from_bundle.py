"""Bundle to checkpoint: weights out of ONNX graphs, to be converted, fine-tuned or exported again.

int8 weights come back as the numbers they stand for. Where a table was stored twice (8 bits a row for looking
up, 7 or 8 bits a column for the output projection) a number that both stand for is taken, so that quantising
it again gives the same integers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from export.bundle import Manifest, verify_bundle
from export.graph.graphs import RMS_NORM
from export.graph.products import (
    BIAS,
    FUSED_BIAS,
    FUSED_PRODUCT,
    FUSED_SCALE,
    INTEGER_PRODUCT,
    SCALE,
    WEIGHT,
    GraphIndex,
    find_products,
)
from export.int8.quantized_caches import unit_of
from model.checkpoint import (
    CheckpointConfig,
    Direction,
    Generation,
    Language,
    SpecialTokens,
    build_model,
    model_tensors,
    write_directory,
)
from model.config import TransformerConfig
from model.data.batching import pad_rows
from model.evaluation.evaluation import greedy_decode
from model.transformer import Transformer

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

# Rounding again must meet the same integer: stay this much of a step inside.
_HALF_STEP = 0.499


class RecoveryError(ValueError):
    """A bundle's weights cannot be read back; the message is one line that names the bundle and why."""


def recover_checkpoint(bundle: Path, out: Path) -> CheckpointConfig:
    """Write the checkpoint that a bundle was made of, as far as the bundle's precision keeps it.

    Args:
        bundle: verified before anything in it is parsed.
        out: the checkpoint; replaced if it exists.

    Raises:
        BundleError: the bundle is damaged.
        RecoveryError: its graphs are not those of the architecture it states.
    """
    manifest = verify_bundle(bundle)
    if manifest.architecture.source_features:
        raise RecoveryError(f"{bundle}: reads features; only bundles that read text are read back")
    architecture = _architecture(manifest)
    try:
        weights = _read_weights(bundle, manifest, architecture)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
        model = build_model(architecture, tensors, bundle)
    except (ValueError, StopIteration) as error:
        raise RecoveryError(f"{bundle}: graphs are not those of the stated architecture: {error}") from None
    _check_golden(bundle, manifest, model.eval())
    config = _config(bundle, manifest, model.config)
    stored = config.tokenizer_files.names
    recipe = _recipe(bundle)
    write_directory(
        out,
        {"model.safetensors": model_tensors(model)},
        {"config.json": config.model_dump_json(indent=1) + "\n"}
        | ({"recipe.toml": recipe} if recipe else {}),
        {name: bundle / file for name, file in zip(stored, manifest.tokenizer_files, strict=True)},
    )
    return config


def _config(bundle: Path, manifest: Manifest, model: TransformerConfig) -> CheckpointConfig:
    (source, target), files = next(manifest.pairs), manifest.tokenizer
    directions = [Direction.model_validate(d.model_dump()) for d in manifest.directions]
    plain = [Direction(source=source, target=target)]
    own = files.target_vocabulary if files.kind == "marian" else files.target
    return CheckpointConfig(
        name=manifest.name,
        task=manifest.task,
        model=model,
        special_tokens=SpecialTokens.model_validate(manifest.special_tokens.model_dump()),
        source_language=source,
        target_language=target,
        directions=[] if directions == plain else directions,
        languages=[Language.model_validate(language.model_dump()) for language in manifest.languages],
        tokenizer=files.kind,
        joint_vocabulary=own is None,
        generation=Generation.model_validate(manifest.generation.model_dump()),
        attribution=_attribution(bundle),
        origin=_origin(manifest),
    )


def _architecture(manifest: Manifest) -> TransformerConfig:
    size = manifest.architecture
    # Bundles made before details were stated hold what the recipes of their time made: the defaults.
    details = size.details.model_dump() if size.details else {}
    return TransformerConfig(
        source_vocab_size=size.source_vocab_size,
        target_vocab_size=size.vocab_size,
        d_model=size.d_model,
        encoder_layers=size.encoder_layers,
        decoder_layers=size.decoder_layers,
        encoder_heads=size.encoder_heads,
        decoder_heads=size.decoder_heads,
        encoder_ffn_dim=size.encoder_ffn_dim,
        decoder_ffn_dim=size.decoder_ffn_dim,
        max_positions=manifest.limits.max_source_tokens,
        pad_id=manifest.special_tokens.pad_id,
        **details,
    )


def _read_weights(bundle: Path, manifest: Manifest, config: TransformerConfig) -> Weights:
    """Read both graphs and name what they hold, in the order in which a model computes."""
    encoder = _Graph(bundle / manifest.graphs.encoder)
    decoder = _Graph(bundle / manifest.graphs.decoders["1"])
    weights: Weights = {}
    for side, graph, products in (
        ("encoder", encoder, _encoder_products(config)),
        ("decoder", decoder, _decoder_products(config)),
    ):
        norms = _norms(config, side)
        for name, (weight, bias) in zip(products, graph.products(), strict=True):
            weights[f"{name}.weight"] = weight
            if bias is not None:
                weights[f"{name}.bias"] = bias
        for name, (weight, bias) in zip(norms, graph.norms(), strict=True):
            weights[f"{name}.weight"] = weight
            if bias is not None:
                weights[f"{name}.bias"] = bias
        for i, table in enumerate(graph.relative_biases()):
            weights[f"{side}_biases.{i}.table"] = table
    for name, factors in _units(encoder, decoder, config):
        for part in (f"{name}.weight", f"{name}.bias"):
            if part in weights:
                weights[part] = (weights[part].T * factors).T
    scale = np.float32(np.sqrt(config.d_model)) if config.scale_embeddings else np.float32(1)
    weights["source_embedding.tokens.weight"] = encoder.embedding(scale)
    if not config.share_source_target_embeddings:
        weights["target_embedding.tokens.weight"] = decoder.embedding(scale)
    if config.positions == "learned":
        shape = (config.max_positions + config.position_offset, config.d_model)
        weights["source_embedding.positions.table"] = encoder.positions(shape)
        weights["target_embedding.positions.table"] = decoder.positions(shape)
    if config.tie_output:
        projection = weights.pop("projection.weight")
        side = "source" if config.share_source_target_embeddings else "target"
        rows = weights[f"{side}_embedding.tokens.weight"]
        weights[f"{side}_embedding.tokens.weight"] = _meet(rows, projection, decoder.last_scales)
    return weights


def _units(encoder: _Graph, decoder: _Graph, config: TransformerConfig) -> Iterator[tuple[str, Floats]]:
    """Name products whose results are in units of scales, and what their weights are multiplied by, [O]."""
    for i in range(config.decoder_layers):
        units = [unit_of(f"self_{part}_{i}") for part in ("key", "value")]
        if decoder.has(units[0]):
            of_key, of_value = map(decoder.floats, units)
            yield f"decoder.{i}.self_attention.qkv", np.concatenate([1 / of_key, of_key, of_value])
        scales = [f"cross_{part}_{i}.scale" for part in ("key", "value")]
        # Encoders of older bundles have a multiplication behind the product instead.
        if decoder.has(scales[0]) and not encoder.has(f"cross_key_{i}.inverse_scale"):
            factors = np.concatenate([decoder.floats(name) for name in scales])
            yield f"decoder.{i}.cross_attention.key_value", factors


def _meet(rows: Floats, projection: Floats, steps: Floats | None) -> Floats:
    """Return the number nearest to ``rows`` that rounds to ``projection``, both [V, E], at steps [V]."""
    if steps is None:
        return rows
    reach = (np.float32(_HALF_STEP) * steps)[:, None]
    return np.clip(rows, projection - reach, projection + reach)


def _encoder_products(config: TransformerConfig) -> list[str]:
    kinds = ("self_attention.qkv", "self_attention.output", "feed_forward.expand", "feed_forward.contract")
    names = [f"encoder.{i}.{kind}" for i in range(config.encoder_layers) for kind in kinds]
    return names + [f"decoder.{i}.cross_attention.key_value" for i in range(config.decoder_layers)]


def _decoder_products(config: TransformerConfig) -> list[str]:
    own = (
        ("self_attention.qkv", "self_attention.output")
        if config.decoder_mixer == "attention"
        else ("recurrence.gates",)
    )
    kinds = (
        *own,
        "cross_attention.query",
        "cross_attention.output",
        "feed_forward.expand",
        "feed_forward.contract",
    )
    return [f"decoder.{i}.{kind}" for i in range(config.decoder_layers) for kind in kinds] + ["projection"]


def _norms(config: TransformerConfig, side: str) -> list[str]:
    kinds = ("self", "feed_forward") if side == "encoder" else ("self", "cross", "feed_forward")
    layers = config.encoder_layers if side == "encoder" else config.decoder_layers
    embedding = "source_embedding" if side == "encoder" else "target_embedding"
    names = [f"{side}.{i}.{kind}_residual.norm" for i in range(layers) for kind in kinds]
    names = [f"{embedding}.norm", *names] if config.embedding_norm else names
    return [*names, f"{side}_norm"] if config.final_norm else names


class _Graph:
    """Weights of one ONNX graph as float32, in the order of its nodes."""

    def __init__(self, path: Path) -> None:
        self._graph = onnx.load(path).graph
        for tensor in self._graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT16:
                widened = numpy_helper.to_array(tensor).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(widened, tensor.name))
        self._index = GraphIndex(self._graph)
        self.last_scales: Floats | None = None

    def floats(self, name: str) -> Floats:
        """Return the values of a constant."""
        return np.asarray(self._index.array(name), np.float32)

    def has(self, name: str) -> bool:
        """Tell whether there is such a constant."""
        return name in self._index.initializers

    def products(self) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield weights [O, I] and biases [O] of all products, as torch keeps them."""
        for product in find_products(self._graph, self._index):
            yield product.weight.T, None if product.bias is None else self.floats(product.bias)
        for node in self._graph.node:
            if node.op_type in (INTEGER_PRODUCT, FUSED_PRODUCT):
                fused = node.op_type == FUSED_PRODUCT
                scale, bias_at = (FUSED_SCALE, FUSED_BIAS) if fused else (SCALE, BIAS)
                self.last_scales = self.floats(node.input[scale])
                bias = node.input[bias_at] if len(node.input) > bias_at else ""
                weight = self.floats(node.input[WEIGHT]) * self.last_scales
                yield weight.T, self.floats(bias) if bias else None

    def norms(self) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield weight and bias [E] of all norms; of RMSNorm there is no bias."""
        for node in self._graph.node:
            if node.op_type == "LayerNormalization":
                yield self.floats(node.input[1]), self.floats(node.input[2])
            elif node.op_type == RMS_NORM:
                yield self.floats(node.input[1]), None

    def relative_biases(self) -> Iterator[Floats]:
        """Yield the tables of biases of distances: floats that are looked up by something clipped."""
        clipped = {name for node in self._graph.node if node.op_type == "Clip" for name in node.output}
        shifted = {
            node.output[0]
            for node in self._graph.node
            if node.op_type in ("Add", "Sub") and clipped.intersection(node.input)
        }
        for node in self._graph.node:
            if (
                node.op_type == "Gather"
                and node.input[1] in shifted
                and self._index.is_float(node.input[0], 2)
            ):
                yield self.floats(node.input[0])

    def positions(self, shape: tuple[int, int]) -> Floats:
        """Return the table of learned positions, which nothing else of its shape is looked up in."""
        return next(
            self.floats(node.input[0])
            for node in self._graph.node
            if node.op_type == "Gather"
            and node.input[1] != "input_ids"
            and self._index.is_float(node.input[0], 2)
            and self.floats(node.input[0]).shape == shape
        )

    def embedding(self, factor: np.float32) -> Floats:
        """Return the token table [V, E]; in int8 its scales hold ``factor``."""
        tables = [
            node.input[0]
            for node in self._graph.node
            if node.op_type == "Gather"
            and node.input[1] == "input_ids"
            and node.input[0] in self._index.initializers
        ]
        if len(tables) == 1:
            return self.floats(tables[0])
        rows, scales = (self.floats(name) for name in tables)
        return rows * (scales / factor)


def _check_golden(bundle: Path, manifest: Manifest, model: Transformer) -> None:
    """Refuse a model that does not translate its golden sentences: it would be another architecture."""
    if not manifest.golden:
        return
    sources = [list(golden.source_ids) for golden in manifest.golden]
    targets = [list(golden.target_ids) for golden in manifest.golden]
    special = manifest.special_tokens
    found = greedy_decode(
        model,
        pad_rows(sources, special.pad_id),
        torch.tensor([len(row) for row in sources]),
        bos=special.decoder_start_id,
        eos=special.eos_id,
        max_length=max(len(row) for row in targets) + 1,
        suppressed_ids=special.suppressed_ids,
        prefixes=[golden.target_prefix_ids for golden in manifest.golden],
    )
    same = sum(ours == stated for ours, stated in zip(found, targets, strict=True))
    # Without rounded activations a close call may go the other way, hence not all.
    if 2 * same < len(targets):
        raise RecoveryError(
            f"{bundle}: recovered weights translate {same} of {len(targets)} golden sentences as stated; "
            "the architecture is not the one assumed"
        )


def _origin(manifest: Manifest) -> str:
    stored = f"{manifest.precision} weights"
    if manifest.precision == "int8":
        bits = manifest.calibration.weight_bits if manifest.calibration else 8
        stored = f"int8 weights of {bits} bits, dequantised to fp32"
    return f"Recovered from the bundle {manifest.name} {manifest.version}: {stored}."


def _attribution(bundle: Path) -> str:
    """Take the data's origin from NOTICE: what follows its name and the sentence about the weights."""
    parts = (bundle / "NOTICE").read_text(encoding="utf-8").strip().split("\n\n", 2)
    return parts[2] if len(parts) == 3 else parts[-1]


def _recipe(bundle: Path) -> str | None:
    found = re.search(
        r"^## Recipe\n\n```toml\n(.*?)^```$", (bundle / "MODEL_CARD.md").read_text("utf-8"), re.M | re.S
    )
    return found[1] if found else None
