"""Train on millions of synthetic pairs: how long until the first update, and how much memory.

Writes a corpus of made-up words once, trains some updates on it and on a thousand lines, each in a process of
its own, and prints a JSON object: seconds from the start of the process to the first update, before and after
the corpus is tokenised, and the largest resident memory. What the large run has more is what a corpus costs.

    python -m benchmarks.training.large_corpus --pairs 10000000 --folder /tmp/large-corpus
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reporting.machine import peak_memory
from model.data.directions import directions_of
from model.data.token_table import TokenTableWriter
from model.data.tokenization import made_from
from model.recipe import load_recipe
from model.tokenizer import Tokenizer

_CHUNK = 100_000
_WORDS = 8_000
_FEW = 1_000
_RECIPE = """
name = "large-corpus"
[corpus]
source_language = "en"
target_language = "de"
train_source = ["{name}.en"]
train_target = ["{name}.de"]
dev_source = ["dev.en"]
dev_target = ["dev.de"]
[vocabulary]
kind = "word"
size = 8004
[model]
d_model = 64
encoder_layers = 2
decoder_layers = 2
encoder_heads = 2
decoder_heads = 2
encoder_ffn_dim = 128
decoder_ffn_dim = 128
max_positions = 64
[training]
max_updates = {updates}
batch_tokens = 2000
learning_rate = 0.001
warmup_updates = 10
validate_every = {updates}
validate_sentences = 5
average_checkpoints = 0
threads = 1
"""


def write_corpus(folder: Path, pairs: int) -> None:
    """Write ``many``, ``few`` and ``dev``, each ``.en`` and ``.de``: lines of 4 to 18 made-up words."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(_WORDS)], dtype=object)
    for name, count in (("dev", 50), ("few", min(_FEW, pairs)), ("many", pairs)):
        with (folder / f"{name}.en").open("w") as source, (folder / f"{name}.de").open("w") as target:
            for start in range(0, count, _CHUNK):
                lengths = rng.integers(4, 19, min(_CHUNK, count - start))
                drawn = words[(rng.zipf(1.3, lengths.sum()) - 1) % _WORDS]
                lines = [" ".join(line) for line in np.split(drawn, lengths.cumsum()[:-1])]
                source.write("".join(f"{line}\n" for line in lines))
                target.write("".join(f"{line}\n" for line in reversed(lines)))


def write_ids(folder: Path, pairs: int) -> None:
    """Put random ids where the run would put those of its text: a corpus of any size within seconds.

    Takes the vocabulary of the small run, which must have ended.
    """
    run = folder / "run-many"
    run.mkdir(parents=True)
    shutil.copyfile(folder / "run-few" / "source.spm", run / "source.spm")
    recipe = load_recipe(folder / "many.toml")
    tokenizer = Tokenizer.load(run / "source.spm")
    directions, vocabulary = directions_of(recipe.corpus, tokenizer), tokenizer.source_vocab_size
    rng = np.random.default_rng(0)
    # An empty table first, for its index; then its columns, chunk by chunk.
    writer = TokenTableWriter(run / "tokens", vocabulary)
    writer.finish(made_from(recipe.corpus, directions, [run / "source.spm"], 64), left_out=0)
    index = json.loads((run / "tokens" / "index.json").read_text())
    for side in ("source", "target"):
        tokens = 0
        with (
            (run / "tokens" / f"{side}.ids").open("wb") as ids,
            (run / "tokens" / f"{side}.offsets").open("ab") as offsets,
        ):
            for start in range(0, pairs, _CHUNK):
                lengths = rng.integers(4, 19, min(_CHUNK, pairs - start))
                ids.write(rng.integers(4, vocabulary, lengths.sum()).astype("<u2").tobytes())
                offsets.write((lengths.cumsum() + tokens).astype("<u8").tobytes())
                tokens += int(lengths.sum())
        index[f"{side}_tokens"] = tokens
    index["rows"] = pairs
    (run / "tokens" / "index.json").write_text(json.dumps(index))


def measure(folder: Path, name: str, run: Path, updates: int) -> dict[str, float]:
    """Train in a process of its own, up to ``updates``.

    Returns:
        Seconds from its start to the first update and to its end, and the largest resident memory in MiB.

    Raises:
        RuntimeError: training failed.
    """
    recipe = folder / f"{name}.toml"
    recipe.write_text(_RECIPE.replace("{name}", name).replace("{updates}", str(updates)))
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--out", str(run)]
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0)
    assert process.stderr is not None
    first, peak, shown = 0.0, 0, b""
    while chunk := process.stderr.read(4096):
        peak = max(peak, peak_memory(process.pid))  # of its whole life so far: the last reading counts
        shown = (shown + chunk)[-2000:]
        if not first and re.search(rb"\| *[1-9]\d*/%d " % updates, shown):
            first = time.monotonic() - start
    if process.wait():
        raise RuntimeError(f"training failed: {shown.decode(errors='replace')}")
    return {
        "first_update_s": round(first, 1),
        "total_s": round(time.monotonic() - start, 1),
        "peak_mib": round(peak / 2**20, 1),
    }


def compare(folder: Path, pairs: int, updates: int, *, ids_only: bool = False) -> dict[str, Any]:
    """Write the corpus if it is not there, train on little and on all of it, tell the difference.

    Args:
        folder: for corpus and runs.
        pairs: of the large corpus.
        updates: of each run.
        ids_only: do not go through the text of the large corpus; see ``write_ids``.
    """
    mark = folder / (f"{pairs}.ids-only" if ids_only else f"{pairs}.written")
    if not mark.exists():
        print(f"writing {pairs:,} pairs to {folder}", file=sys.stderr)
        write_corpus(folder, _FEW if ids_only else pairs)
        mark.touch()
    few, many = folder / "run-few", folder / "run-many"
    shutil.rmtree(few, ignore_errors=True)
    little = measure(folder, "few", few, updates)
    shutil.rmtree(many, ignore_errors=True)
    untokenised = None
    if ids_only:
        (folder / "many.toml").write_text((folder / "few.toml").read_text().replace("few.", "many."))
        write_ids(folder, pairs)
    else:
        untokenised = measure(folder, "many", many, updates)
        for old in [*many.glob("checkpoint-*"), many / "best"]:
            shutil.rmtree(old)
    tokenised = measure(folder, "many", many, updates)
    return {
        "pairs": pairs,
        "updates": updates,
        "a_thousand_pairs": little,
        "from_text": untokenised,
        "tokenised": tokenised,
        "more_mib": round(tokenised["peak_mib"] - little["peak_mib"], 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.large_corpus", description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument(
        "--folder", type=Path, required=True, help="for corpus and runs; some GB for 10 million"
    )
    parser.add_argument("--ids-only", action="store_true", help="random ids instead of tokenised text")
    chosen = parser.parse_args(arguments)
    found = compare(chosen.folder, chosen.pairs, chosen.updates, ids_only=chosen.ids_only)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
