"""How fast training is: `dragoman train` against a plain loop around torch.nn.Transformer, in turns.

Both train a model of the same size on the same batches of made-up sentences of 4 to 18 words, in the same
precision, in processes of their own, one after the other in every round. Prints a JSON object with target
tokens per second of every round, the ratios, and the utilisation: the multiplications of the layers' and the
output's products, three times those of a forward pass, over what one large product of that precision
reaches here.

    python -m benchmarks.training.speed
    python -m benchmarks.training.speed --model base --precision bf16 --batch-tokens 32768    # on a GPU
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.models import RANDOM_SIZES
from benchmarks.peers.turns import ended_by_signals, running
from benchmarks.reporting import machine
from benchmarks.reporting.progress import Progress
from benchmarks.reporting.spread import ratios, spread
from benchmarks.training.large_corpus import write_corpus
from model.training.batch_loss import AUTOCAST

_PAIRS = 100_000
_WARM_UP_RECORDS = 1
"""Records of 20 updates that do not count: in them memory is taken for the first time."""

_GEMM = 4096
_RECIPE = """
name = "training-speed"
[corpus]
source_language = "en"
target_language = "de"
train_source = ["many.en"]
train_target = ["many.de"]
dev_source = ["dev.en"]
dev_target = ["dev.de"]
[vocabulary]
kind = "word"
joint = true
size = 8004
[model]
d_model = {width}
encoder_layers = {encoder_layers}
decoder_layers = {decoder_layers}
encoder_heads = {heads}
decoder_heads = {heads}
encoder_ffn_dim = {ffn}
decoder_ffn_dim = {ffn}
max_positions = 64
dropout = 0.1
[training]
max_updates = {updates}
batch_tokens = {batch_tokens}
learning_rate = 0.0003
schedule = "constant"
warmup_updates = 0
precision = "{precision}"
device = "{device}"
validate_every = {updates}
validate_sentences = 1
keep_checkpoints = 1
average_checkpoints = 0
"""
_END_S = 30.0


def write_recipe(
    folder: Path, *, model: str, precision: str, device: str, updates: int, batch_tokens: int
) -> Path:
    """Write the recipe of both systems into the corpus' folder."""
    size = RANDOM_SIZES[model]
    path = folder / f"{model}-{precision}.toml"
    path.write_text(
        _RECIPE.format(
            width=size.d_model,
            encoder_layers=size.encoder_layers,
            decoder_layers=size.decoder_layers,
            heads=size.d_model // 64,
            ffn=size.ffn_dim,
            updates=updates,
            batch_tokens=batch_tokens,
            precision=precision,
            device=device,
        )
    )
    return path


def rate(run: Path) -> float:
    """Read target tokens per second of a run, without those of its beginning."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [line["tokens_per_second"] for line in lines if line["kind"] == "train"][_WARM_UP_RECORDS:]
    # Every record is of as many updates with as many tokens, nearly: the mean time of a token.
    return len(found) / sum(1 / value for value in found)


def run(command: Sequence[str], variables: dict[str, str] | None = None) -> None:
    """Run a command in a session of its own.

    Raises:
        RuntimeError: it failed; the message has its last words.
    """
    with (
        tempfile.TemporaryFile() as said,
        running(command, _END_S, stdout=said, stderr=said, env=os.environ | (variables or {})) as process,
    ):
        if process.wait():
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {said.read()[-2000:].decode(errors='replace')}")


def products_per_token(model: str, vocabulary: int) -> int:
    """Count multiplications of a forward pass for a source and a target token, attention's left out."""
    size = RANDOM_SIZES[model]
    square, ffn = size.d_model**2, 2 * size.d_model * size.ffn_dim
    return (
        size.encoder_layers * (4 * square + ffn)
        + size.decoder_layers * (8 * square + ffn)
        + size.d_model * vocabulary
    )


def peak_products_per_s(device: str, precision: str) -> float:
    """Measure a product of two square matrices: the best of five, in multiplications a second."""
    left, right = (torch.randn(_GEMM, _GEMM, device=device, dtype=AUTOCAST.get(precision)) for _ in range(2))
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        float((left @ right)[0, 0])  # reading a number waits for the device
        best = min(best, time.perf_counter() - start)
    return _GEMM**3 / best


def _named(processes: int) -> str:
    return "dragoman" if processes == 1 else f"dragoman, {processes} processes"


def compare(
    folder: Path,
    *,
    model: str,
    precision: str,
    device: str,
    processes: Sequence[int],
    updates: int,
    batch_tokens: int,
    rounds: int,
    report: Progress | None = None,
) -> dict[str, Any]:
    """Let both train in turns.

    Args:
        folder: with the corpus, see `large_corpus.write_corpus`.
        model: of `models.RANDOM_SIZES`.
        precision: of the products.
        device: cpu or cuda.
        processes: numbers of processes of ours; the plain loop has one.
        updates: of a run, the first 20 do not count.
        batch_tokens: of a batch, a side, padding included.
        rounds: how often each trains.
        report: told of every run.

    Raises:
        RuntimeError: a run failed.
    """
    recipe = write_recipe(
        folder, model=model, precision=precision, device=device, updates=updates, batch_tokens=batch_tokens
    )
    threads = os.cpu_count() or 1
    speeds: dict[str, list[float]] = {name: [] for name in (*map(_named, processes), "plain")}

    def measure(name: str, out: Path, command: Sequence[str], threads: int) -> None:
        run([sys.executable, "-m", *command], {"OMP_NUM_THREADS": str(max(1, threads))})
        speeds[name].append(rate(out))
        if report:
            report.say(f"{precision}, {name}: {rate(out):,.0f} target tokens/s", done=1)

    peak = 0.0
    for number in range(rounds):
        # The best of all rounds: on a machine that is shared it was between 200 and 364 G a second.
        peak = max(peak, peak_products_per_s(device, precision))
        for count in processes:
            out = folder / f"run-{precision}-{number}-{count}"
            train = ["dragoman", "train", str(recipe), "--out", str(out)]
            several = ["torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m"]
            measure(_named(count), out, [*(several if count > 1 else []), *train], threads // count)
        out = folder / f"plain-{precision}-{number}"
        like = folder / f"run-{precision}-{number}-{processes[0]}"
        measure("plain", out, ["benchmarks.training.plain_loop", str(recipe), str(like), str(out)], threads)
    needed = 3 * products_per_token(model, 8004)
    return {
        "tokens_per_s": speeds,
        "ratios": {
            name: vars(ratios(ours, speeds["plain"])) for name, ours in speeds.items() if name != "plain"
        },
        "utilisation": {name: needed * spread(values).median / peak for name, values in speeds.items()},
        "peak_products_per_s": peak,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", choices=sorted(RANDOM_SIZES), default="tiny", help="size (default: tiny)")
    parser.add_argument("--precision", nargs="+", choices=("fp32", *AUTOCAST), default=["fp32", "bf16"])
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], help="of ours (default: 1 2)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--batch-tokens", type=int, default=2200, help="of an update (default: 2200)")
    parser.add_argument("--updates", type=int, default=80, help="of a run; the first 20 do not count")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    report = Progress(chosen.rounds * len(chosen.precision) * (len(chosen.processes) + 1))
    with ended_by_signals(), tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), _PAIRS)
        found = {
            precision: compare(
                Path(folder),
                model=chosen.model,
                precision=precision,
                device=chosen.device,
                processes=chosen.processes,
                updates=chosen.updates,
                batch_tokens=chosen.batch_tokens,
                rounds=chosen.rounds,
                report=report,
            )
            for precision in chosen.precision
        }
    print(json.dumps({"machine": machine.describe(), "model": chosen.model, **found}, indent=1))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
