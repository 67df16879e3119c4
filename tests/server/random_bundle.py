"""A bundle with random weights, written in milliseconds: the graph contract without training and export."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.bundle import Manifest
from export.multi_step.beam_graph import beam_multi_step_graph
from export.multi_step.greedy_graph import greedy_multi_step_graph

MICROSOFT = "com.microsoft"
LAYERS, HEADS, HEAD_SIZE, VOCABULARY, LONGEST = 2, 4, 8, 50, 64
SIZE = HEADS * HEAD_SIZE
EOS = 3
MULTI_STEP = "decoder.multi_step.onnx"


def beam_multi_step_file(width: int | str) -> str:
    return f"decoder.beam{width}.multi_step.onnx"


class _Graph:
    """Nodes and random weights, written one after the other."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def random(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.draw.standard_normal(shape) * scale).astype(np.float32))

    def node(
        self, operator: str, inputs: list[str], *, outputs: list[str] | None = None, **attributes: object
    ) -> str:
        names = outputs or [f"{operator}_{len(self.nodes)}"]
        domain = MICROSOFT if operator in ("GroupQueryAttention", "MultiHeadAttention") else ""
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def linear(self, value: str, width: int, scale: float = 1.5) -> str:
        return self.node("MatMul", [value, self.random(SIZE, width, scale=scale / SIZE**0.5)])

    def add_and_norm(self, value: str, skip: str) -> str:
        ones, zeros = self.constant(np.ones(SIZE, np.float32)), self.constant(np.zeros(SIZE, np.float32))
        return self.node("LayerNormalization", [self.node("Add", [value, skip]), ones, zeros], axis=-1)

    def reshape(
        self, value: str, *shape: int, perm: list[int] | None = None, last: list[int] | None = None
    ) -> str:
        value = self.node("Reshape", [value, self.constant(np.array(shape, np.int64))])
        if perm:
            value = self.node("Transpose", [value], perm=perm)
        return self.reshape(value, *last) if last else value

    def save(self, file: Path, inputs: dict[str, tuple[int, list]], outputs: dict[str, list]) -> None:
        declared = [
            helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()
        ]
        given = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, file.stem, declared, given, self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), file)


def _write_encoder(file: Path) -> None:
    graph = _Graph(seed=1)
    embedded = graph.node("Gather", [graph.random(VOCABULARY, SIZE), "input_ids"])
    query, key, value = (graph.linear(embedded, SIZE) for _ in range(3))
    mixed = graph.node("MultiHeadAttention", [query, key, value, "", "lengths"], num_heads=HEADS)
    memory = graph.add_and_norm(mixed, embedded)
    outputs = {}
    for layer in range(LAYERS):
        for part in ("key", "value"):
            name = f"cross_{part}_{layer}"
            heads = graph.reshape(graph.linear(memory, SIZE), 0, 0, HEADS, HEAD_SIZE)
            graph.node("Transpose", [heads], perm=[0, 2, 1, 3], outputs=[name])
            outputs[name] = ["N", HEADS, "S", HEAD_SIZE]
    inputs = {"input_ids": (TensorProto.INT64, ["N", "S"]), "lengths": (TensorProto.INT32, ["N"])}
    graph.save(file, inputs, outputs)


def _write_decoder(file: Path, width: int) -> None:
    graph = _Graph(seed=2)
    inputs: dict[str, tuple[int, list]] = {
        "input_ids": (TensorProto.INT64, ["R", 1]),
        "positions": (TensorProto.INT64, ["R", 1]),
        "self_lengths": (TensorProto.INT32, ["R"]),
        "self_total": (TensorProto.INT32, []),
        "cross_lengths": (TensorProto.INT32, ["N"]),
        "cross_total": (TensorProto.INT32, []),
    }
    outputs: dict[str, list] = {"logits": ["R", VOCABULARY]}
    token = graph.node("Gather", [graph.random(VOCABULARY, SIZE), "input_ids"])
    position = graph.node("Gather", [graph.random(LONGEST, SIZE, scale=0.5), "positions"])
    state = graph.node("Add", [token, position])
    for layer in range(LAYERS):
        for part in ("key", "value"):
            inputs[f"self_{part}_{layer}"] = (TensorProto.FLOAT, ["R", HEADS, "P", HEAD_SIZE])
            inputs[f"cross_{part}_{layer}"] = (TensorProto.FLOAT, ["N", HEADS, "S", HEAD_SIZE])
            inputs[f"cross_last_{part}_{layer}"] = (TensorProto.FLOAT, ["N", 1, SIZE])
            outputs[f"self_{part}_out_{layer}"] = ["R", HEADS, "P", HEAD_SIZE]
            outputs[f"cross_{part}_out_{layer}"] = ["N", HEADS, "S", HEAD_SIZE]
        packed = graph.linear(state, 3 * SIZE)
        caches = [f"self_key_{layer}", f"self_value_{layer}", "self_lengths", "self_total"]
        written = [f"self_{layer}", f"self_key_out_{layer}", f"self_value_out_{layer}"]
        own = graph.node(
            "GroupQueryAttention",
            [packed, "", "", *caches],
            outputs=written,
            num_heads=HEADS,
            kv_num_heads=HEADS,
        )
        state = graph.add_and_norm(own, state)
        # The K beams of a sentence are the K query heads of every group: [N*K, 1, E] -> [N, 1, H*K*D].
        query = graph.reshape(
            graph.linear(state, SIZE),
            -1,
            width,
            HEADS,
            HEAD_SIZE,
            perm=[0, 2, 1, 3],
            last=[-1, 1, width * SIZE],
        )
        last = [f"cross_last_key_{layer}", f"cross_last_value_{layer}"]
        caches = [f"cross_key_{layer}", f"cross_value_{layer}", "cross_lengths", "cross_total"]
        written = [f"cross_{layer}", f"cross_key_out_{layer}", f"cross_value_out_{layer}"]
        other = graph.node(
            "GroupQueryAttention",
            [query, *last, *caches],
            outputs=written,
            num_heads=width * HEADS,
            kv_num_heads=HEADS,
        )
        other = graph.reshape(other, -1, HEADS, width, HEAD_SIZE, perm=[0, 2, 1, 3], last=[-1, 1, SIZE])
        state = graph.add_and_norm(other, state)
    logits = graph.linear(state, VOCABULARY, scale=4.0)
    graph.node("Reshape", [logits, graph.constant(np.array([-1, VOCABULARY], np.int64))], outputs=["logits"])
    graph.save(file, inputs, outputs)


def write(directory: Path, widths: tuple[int, ...] = (1, 2, 4)) -> Manifest:
    """Write the graphs, and nothing else, to `directory`; give a manifest that describes them."""
    decoders = {str(width): f"decoder.beam{width}.onnx" for width in widths}
    _write_encoder(directory / "encoder.onnx")
    for width, file in decoders.items():
        _write_decoder(directory / file, int(width))
    onnx.save(greedy_multi_step_graph(onnx.load(directory / decoders["1"])), directory / MULTI_STEP)
    beam_multi_step = {str(width): beam_multi_step_file(width) for width in widths if width > 1}
    for width, file in beam_multi_step.items():
        onnx.save(beam_multi_step_graph(onnx.load(directory / decoders[width]), int(width)), directory / file)
    multi_step = MULTI_STEP, *beam_multi_step.values()
    files = ["encoder.onnx", *decoders.values(), *multi_step, "source.spm", "MODEL_CARD.md", "NOTICE"]
    return Manifest.model_validate(
        {
            "format_version": 1,
            "name": "random",
            "version": "1",
            "created": "2026-01-01",
            "directions": [{"source": "en", "target": "de"}],
            "special_tokens": {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": EOS, "decoder_start_id": 2},
            "limits": {"max_source_tokens": LONGEST, "max_target_tokens": LONGEST},
            "precision": "fp32",
            "batch_invariant": True,
            "architecture": {
                "encoder_layers": 1,
                "decoder_layers": LAYERS,
                "d_model": SIZE,
                "encoder_heads": HEADS,
                "decoder_heads": HEADS,
                "head_dim": HEAD_SIZE,
                "encoder_ffn_dim": 1,
                "decoder_ffn_dim": 1,
                "source_vocab_size": VOCABULARY,
                "vocab_size": VOCABULARY,
                "parameters": 1,
            },
            "graphs": {
                "opset": 20,
                "encoder": "encoder.onnx",
                "decoders": decoders,
                "multi_step": MULTI_STEP,
                "beam_multi_step": beam_multi_step,
            },
            "tokenizer": {"kind": "sentencepiece", "source": "source.spm"},
            "files": {file: {"sha256": "0" * 64, "size_bytes": 0} for file in files},
        }
    )
