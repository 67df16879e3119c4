"""What a decoder step costs at least on this machine, and how far dragoman is from that.

Counts the bytes of weights and the multiplications of every size, measures what one core can do (int8
products through ONNX Runtime, as in the bundle; reading memory with numpy), and compares with the
tokens per second of the offline benchmark, if that has run.

    python -m benchmarks.roofline [--cache build/bench]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs.workload import COUNTS, FORCED_TOKENS
from benchmarks.models import CACHE, NAMES, RANDOM_SIZES, SHIPPED
from benchmarks.reporting import machine, results
from benchmarks.reporting.progress import Progress
from benchmarks.reporting.spread import spread

_ROWS, _INNER, _COLUMNS = 512, 1024, 1024
_READ_BYTES = 256 << 20
_REPEATS = 7
_MEASURED_ROWS = (1, 8, 32, _ROWS)


@dataclass(frozen=True)
class Cost:
    """What a model costs, from its sizes alone.

    Attributes:
        decoder_products: multiplications of a target token in products with weights.
        vocabulary_share: share of these in the projection to the vocabulary.
        encoder_products: multiplications of a source token, the projection for cross-attention included.
        attention_products: multiplications of a target token in attention, at half of 25 target tokens and
            26 source tokens.
        decoder_bytes: int8 weights that every step reads.
    """

    decoder_products: int
    vocabulary_share: float
    encoder_products: int
    attention_products: int
    decoder_bytes: int


def cost(encoder_layers: int, decoder_layers: int, width: int, ffn: int, vocabulary: int) -> Cost:
    """Count multiplications and bytes.

    Args:
        encoder_layers: number of them.
        decoder_layers: number of them.
        width: of the hidden states.
        ffn: width of the feed-forward layers.
        vocabulary: entries.
    """
    # Self-attention 4 E^2; cross-attention 2 E^2 a step (query and output), 2 E^2 once a source token.
    layer = 4 * width**2 + 2 * width**2 + 2 * width * ffn
    decoder = decoder_layers * layer + width * vocabulary
    encoder = encoder_layers * (4 * width**2 + 2 * width * ffn) + decoder_layers * 2 * width**2
    attended = FORCED_TOKENS // 2 + FORCED_TOKENS + 1
    return Cost(
        decoder_products=decoder,
        vocabulary_share=width * vocabulary / decoder,
        encoder_products=encoder,
        attention_products=decoder_layers * 2 * attended * width,
        decoder_bytes=decoder,
    )


def cost_of(name: str, bundle: Path = SHIPPED) -> Cost:
    """Count for a model of the comparison."""
    size = RANDOM_SIZES.get(name)
    if size:
        return cost(size.encoder_layers, size.decoder_layers, size.d_model, size.ffn_dim, size.vocabulary)
    made = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))["architecture"]
    keys = ("encoder_layers", "decoder_layers", "d_model", "decoder_ffn_dim", "vocab_size")
    return cost(*(made[key] for key in keys))


def best_seconds(run: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """Give the quickest of several runs: what the machine can do when nothing disturbs it."""
    run()
    seconds = []
    for _ in range(repeats):
        started_s = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started_s)
    return min(seconds)


def int8_products_per_s(rows: int = _ROWS, repeats: int = _REPEATS) -> float:
    """Measure int8 multiplications a second of one core: u8 x s8 with scales, as in the bundle's graphs.

    Args:
        rows: of activations; as many as are decoded together, or many for the peak.
        repeats: the best of which counts.
    """
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    constants = {
        "w": draw.integers(-63, 64, (_INNER, _COLUMNS)).astype(np.int8),
        "a_scale": np.float32(0.02),
        "w_scale": np.full(_COLUMNS, 0.01, np.float32),
        "a_zero": np.uint8(128),
    }
    inputs = ["a", "w", "a_scale", "w_scale", "a_zero"]
    node = helper.make_node("MatMulIntegerToFloat", inputs, ["y"], domain="com.microsoft")
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [rows, _INNER])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, _COLUMNS])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {"a": draw.integers(0, 256, (rows, _INNER)).astype(np.uint8)}
    loops = max(1, 20_000_000_000 // (rows * _INNER * _COLUMNS) // 10)

    def run() -> None:
        for _ in range(loops):
            session.run(None, feeds)

    return loops * rows * _INNER * _COLUMNS / best_seconds(run, repeats)


def bytes_per_s(block_bytes: int) -> float:
    """Measure how fast one core reads a block again and again: from the cache that holds it, or from memory.

    Args:
        block_bytes: as many as a decoder step reads.
    """
    block = np.ones(block_bytes, np.uint8)
    loops = max(1, _READ_BYTES // block_bytes)

    def run() -> None:
        for _ in range(loops):
            block.max()

    return loops * block_bytes / best_seconds(run)


def bound(counted: Cost, rows: int, products_per_s: float, read_per_s: float) -> float:
    """Give the most target tokens a second of one core.

    A step reads all weights once and multiplies for every row; each target token brings one source token with
    it, as sentences of equal length do.

    Args:
        counted: the model.
        rows: decoded together.
        products_per_s: int8 multiplications of one core.
        read_per_s: bytes that one core reads.
    """
    per_row = counted.decoder_products + counted.attention_products + counted.encoder_products
    step_s = max(counted.decoder_bytes / read_per_s, rows * per_row / products_per_s)
    return rows / step_s


def main() -> None:
    """Measure, compare and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the results")
    parser.add_argument("--bundle", type=Path, default=SHIPPED, help="the default model")
    parser.add_argument("--quick", action="store_true", help="compare with the quick results")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    progress = Progress(len(_MEASURED_ROWS) + len(NAMES))
    products = {}
    for rows in _MEASURED_ROWS:
        products[str(rows)] = int8_products_per_s(rows, 2 if arguments.quick else _REPEATS)
        progress.say(
            f"{rows} rows: {products[str(rows)] / 1e9:.0f} G int8 multiplications/s a core", done=1.0
        )
    result: dict[str, Any] = {
        "machine": machine.describe(),
        "products_per_s": products,
        "models": {},
    }
    folder = results.folder(arguments.cache, quick=arguments.quick)
    measured = results.read(folder / "offline.json").get("rows", {})
    peak = max(products.values())
    for name in NAMES:
        counted = cost_of(name, arguments.bundle)
        read = bytes_per_s(counted.decoder_bytes)
        weights_mb = counted.decoder_bytes / 1e6
        progress.say(
            f"{name}: {weights_mb:.0f} MB of weights, read at {read / 1e9:.1f} GB/s a core", done=1.0
        )
        rows_of: dict[str, Any] = {}
        result["models"][name] = {"cost": vars(counted), "bytes_per_s": read, "rows": rows_of}
        for sentences in COUNTS:
            found = measured.get(f"{name}-greedy-{sentences}")
            if found is None:
                continue
            # A sentence that is alone has all cores, too: each reads its part of the weights.
            together = 1 if found["alone"] else max(1, sentences // cores)
            limit = cores * bound(counted, min(together, 128), peak, read)
            tokens_per_s = found["tokens"]["dragoman"] / spread(found["seconds"]["dragoman"]).median
            rows_of[str(sentences)] = {"bound": limit, "measured": tokens_per_s}
            progress.say(f"{name}, {sentences} sentences: {tokens_per_s:.0f} of at most {limit:.0f} tokens/s")
    results.write(folder / "roofline.json", result)
    progress.say(f"wrote {folder / 'roofline.json'}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
