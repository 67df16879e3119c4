"""Variables of CTranslate2's Transformer to weights of ours, int8 and int16 as the numbers they stand for.

A variable that nobody asks for is one that changes what the model computes (relative positions, ALiBi, rotary
positions): such a model is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from export.convert.ctranslate2.binary import Binary
from export.convert.huggingface_files import HuggingFaceError
from model.config import Activation, TransformerConfig

_ACTIVATIONS: dict[int, Activation] = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}
_MAX_POSITIONS = 1024
"""Of models that compute their positions, as long as CTranslate2 takes sources without being asked."""
_HARMLESS = re.compile(
    r"(?:.*/)?(?:alignment_layer|alignment_heads|embeddings_merge|num_heads|pre_norm|activation|"
    r"scale_embeddings|start_from_zero_embedding|multi_query_attention|multiply_by_sqrt_depth|"
    r"with_relative_position|sliding_window|scale_alibi|alibi|alibi_use_positive_positions|model_dim)"
)
_NEVER = -1e9
"""As good as minus infinity for a softmax in float32, and still a number."""
_MUST_BE_OFF = ("alibi", "multi_query_attention", "sliding_window", "with_relative_position")


@dataclass(frozen=True)
class Converted:
    """A model in our words.

    Attributes:
        config: its architecture.
        tensors: weights under our names.
        zero_start: whether decoding starts with an embedding of zeros: the last row of the target's table,
            which no text has.
    """

    config: TransformerConfig
    tensors: dict[str, Tensor]
    zero_start: bool


def convert(binary: Binary, path: Path) -> Converted:
    """Convert all variables.

    Raises:
        HuggingFaceError: one is missing, or the model computes what ours cannot.
    """
    return _Conversion(binary, path).run()


class _Conversion:
    """One model being converted."""

    def __init__(self, binary: Binary, path: Path) -> None:
        self._binary = binary
        self._variables = binary.variables
        self._path = path
        self._taken: set[str] = set()
        self._tensors: dict[str, Tensor] = {}

    def run(self) -> Converted:
        layers = {side: self._layers(side) for side in ("encoder", "decoder")}
        for side, count in layers.items():
            self._side(side, count)
        source, target = (self._tensors[f"{side}_embedding.tokens.weight"] for side in ("source", "target"))
        zero_start = bool(self._setting("decoder/start_from_zero_embedding", 0))
        projection = self._tensors["projection.weight"]
        shared, tied = torch.equal(source, target), torch.equal(target, projection)
        if zero_start:
            self._append_zeros(shared=shared, tied=tied)
        if shared:
            del self._tensors["target_embedding.tokens.weight"]
        if tied:
            del self._tensors["projection.weight"]
        config = self._config(layers, shared=shared, tied=tied, zero_start=zero_start)
        for name in self._variables:
            off = name.rpartition("/")[2] not in _MUST_BE_OFF or not self._setting(name, 0)
            if not (off and (name in self._taken or _HARMLESS.fullmatch(name))):
                raise self._odd(f"has {ascii(name)[:80]}, which is not part of a plain Transformer")
        return Converted(config, self._tensors, zero_start)

    def _odd(self, problem: str) -> HuggingFaceError:
        return HuggingFaceError(f"{self._path}: {problem}")

    def _layers(self, side: str) -> int:
        pattern = re.compile(rf"{side}/layer_(\d+)/self_attention/linear_0/weight")
        found = {int(match[1]) for name in self._variables if (match := pattern.fullmatch(name))}
        if not found or found != set(range(len(found))):
            raise self._odd(f"has no {side} of whole layers; what is read is an encoder-decoder Transformer")
        return len(found)

    def _setting(self, name: str, default: float) -> float:
        values = self._variables.get(name)
        if values is None:
            return default
        if values.size != 1:
            raise self._odd(f"{name} is not one number")
        self._taken.add(name)
        return float(np.asarray(values, np.float32).reshape(()))

    def _of_side(self, side: str, name: str, default: float) -> float:
        """Read a setting of a side; older models have one for both."""
        return self._setting(f"{side}/{name}", self._setting(name, default))

    def _floats(self, name: str) -> Tensor:
        if name not in self._variables:
            raise self._odd(f"{name} is missing")
        self._taken.add(name)
        values: NDArray[Any] = np.asarray(self._variables[name]).astype(np.float32)
        scale = self._variables.get(f"{name}_scale")
        if scale is not None:
            self._taken.add(f"{name}_scale")
            steps = np.asarray(scale, np.float32)
            if steps.shape not in ((), (1,), values.shape[:1]) or not steps.all():
                raise self._odd(f"{name}_scale does not fit")
            values = values / (steps[:, None] if steps.shape == values.shape[:1] else steps)
        if not np.isfinite(values).all():
            raise self._odd(f"{name} holds something else than finite numbers")
        return torch.from_numpy(np.ascontiguousarray(values))

    def _linear(self, ours: str, theirs: str, *others: str) -> None:
        """Take a product; several of theirs are packed in one of ours."""
        parts = [theirs, *others]
        self._tensors[f"{ours}.weight"] = torch.cat([self._floats(f"{part}/weight") for part in parts])
        if all(f"{part}/bias" in self._variables for part in parts):
            self._tensors[f"{ours}.bias"] = torch.cat([self._floats(f"{part}/bias") for part in parts])

    def _norm(self, ours: str, theirs: str) -> None:
        self._tensors[f"{ours}.weight"] = self._floats(f"{theirs}/gamma")
        if f"{theirs}/beta" in self._variables:
            self._tensors[f"{ours}.bias"] = self._floats(f"{theirs}/beta")

    def _side(self, side: str, layers: int) -> None:
        ours = "source" if side == "encoder" else "target"
        first = (
            f"{side}/embeddings_0"
            if f"{side}/embeddings_0/weight" in self._variables
            else f"{side}/embeddings"
        )
        self._tensors[f"{ours}_embedding.tokens.weight"] = self._floats(f"{first}/weight")
        if f"{side}/position_encodings/encodings" in self._variables:
            self._tensors[f"{ours}_embedding.positions.table"] = self._floats(
                f"{side}/position_encodings/encodings"
            )
        if f"{side}/layernorm_embedding/gamma" in self._variables:
            self._norm(f"{ours}_embedding.norm", f"{side}/layernorm_embedding")
        if f"{side}/layer_norm/gamma" in self._variables:
            self._norm(f"{side}_norm", f"{side}/layer_norm")
        for i in range(layers):
            mine, layer = f"{side}.{i}", f"{side}/layer_{i}"
            self._linear(f"{mine}.self_attention.qkv", f"{layer}/self_attention/linear_0")
            self._linear(f"{mine}.self_attention.output", f"{layer}/self_attention/linear_1")
            self._norm(f"{mine}.self_residual.norm", f"{layer}/self_attention/layer_norm")
            if side == "decoder":
                self._linear(f"{mine}.cross_attention.query", f"{layer}/attention/linear_0")
                self._linear(f"{mine}.cross_attention.key_value", f"{layer}/attention/linear_1")
                self._linear(f"{mine}.cross_attention.output", f"{layer}/attention/linear_2")
                self._norm(f"{mine}.cross_residual.norm", f"{layer}/attention/layer_norm")
            gate = [f"{layer}/ffn/linear_0_noact"] * (f"{layer}/ffn/linear_0_noact/weight" in self._variables)
            self._linear(f"{mine}.feed_forward.expand", f"{layer}/ffn/linear_0", *gate)
            self._linear(f"{mine}.feed_forward.contract", f"{layer}/ffn/linear_1")
            self._norm(f"{mine}.feed_forward_residual.norm", f"{layer}/ffn/layer_norm")
        if side == "decoder":
            self._linear("projection", "decoder/projection")

    def _scales(self, d_model: int) -> bool:
        """Tell whether embeddings are multiplied by sqrt(E): a flag says so, or the number itself."""
        names = ("encoder/scale_embeddings", "encoder/embeddings/multiply_by_sqrt_depth")
        name = next((name for name in names if name in self._variables), None)
        if name is None:
            return True
        factor = self._setting(name, 1)
        if self._variables[name].dtype == np.int8:
            return bool(factor)
        if not any(math.isclose(factor, known, rel_tol=1e-5) for known in (1.0, math.sqrt(d_model))):
            raise self._odd(f"multiplies its embeddings by {factor:g}")
        return not math.isclose(factor, 1.0, rel_tol=1e-5)

    def _append_zeros(self, *, shared: bool, tied: bool) -> None:
        """Add a row of zeros for the start, to all tables that are one."""
        # The bias keeps it out of the sum of a softmax: the model has no such token.
        bias = self._tensors.get("projection.bias")
        bias = (
            self._tensors["projection.weight"].new_zeros(len(self._tensors["projection.weight"]))
            if bias is None
            else bias
        )
        self._tensors["projection.bias"] = torch.cat([bias, bias.new_tensor([_NEVER])])
        names = ["target_embedding.tokens.weight", "projection.weight"]
        names += ["source_embedding.tokens.weight"] if shared else []
        for name in names:
            table = self._tensors.get(name)
            if table is not None:
                self._tensors[name] = torch.cat([table, table.new_zeros(1, *table.shape[1:])])

    def _config(
        self, layers: Mapping[str, int], *, shared: bool, tied: bool, zero_start: bool
    ) -> TransformerConfig:
        tensors, d_model = self._tensors, self._tensors["source_embedding.tokens.weight"].shape[1]
        heads = _HEADS.get(self._binary.specification, 8)
        activation = int(self._of_side("decoder", "activation", 0))
        if activation not in _ACTIVATIONS or activation != int(self._of_side("encoder", "activation", 0)):
            raise self._odd(f"its activation {activation} is not one that is computed here")
        learned = tensors.get("source_embedding.positions.table")
        gated = 2 * tensors["encoder.0.feed_forward.contract.weight"].shape[1]
        source = tensors["source_embedding.tokens.weight"].shape[0]
        target = tensors["target_embedding.tokens.weight"].shape[0] if not shared else source
        try:
            return TransformerConfig(
                source_vocab_size=source,
                target_vocab_size=target,
                d_model=d_model,
                encoder_layers=layers["encoder"],
                decoder_layers=layers["decoder"],
                encoder_heads=int(self._of_side("encoder", "num_heads", heads)),
                decoder_heads=int(self._of_side("decoder", "num_heads", heads)),
                encoder_ffn_dim=tensors["encoder.0.feed_forward.contract.weight"].shape[1],
                decoder_ffn_dim=tensors["decoder.0.feed_forward.contract.weight"].shape[1],
                norm="pre" if self._of_side("encoder", "pre_norm", 1) else "post",
                norm_kind="layer" if "encoder.0.self_residual.norm.bias" in tensors else "rms",
                biases="encoder.0.self_attention.qkv.bias" in tensors,
                activation=_ACTIVATIONS[activation],
                gated_ffn=tensors["encoder.0.feed_forward.expand.weight"].shape[0] == gated,
                positions="sinusoidal_t2t" if learned is None else "learned",
                position_offset=1 if learned is None else 0,
                max_positions=_MAX_POSITIONS if learned is None else learned.shape[0],
                scale_embeddings=self._scales(d_model),
                share_source_target_embeddings=shared,
                tie_output=tied,
                embedding_norm="source_embedding.norm.weight" in tensors,
                final_norm="encoder_norm.weight" in tensors,
                output_bias="projection.bias" in tensors,
                dropout=0.1,
            )
        except ValidationError as error:
            raise self._odd(error.errors()[0]["msg"]) from None
