"""transformers' own `generate` beside our engine, on the same weights: the judge of imports and exports."""

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from export.bundle import verify_bundle
from export.pipeline import ExportOptions
from model.tokenizer import Tokenizer
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.runtime.model_runtime import ModelRuntime
from tests.server.engine.pools import thread_engine

WAIT_S = 240.0


def realistic_sentences(golden: Path, count: int) -> list[str]:
    """Make different sentences from those of a file: as they are, and joined by twos and threes."""
    lines = golden.read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line]
    draw = random.Random(3)
    made = dict.fromkeys(lines)
    joints = (" ", " and ", ", but ", " because ", "; ")
    while len(made) < count:
        chosen = draw.sample(lines, draw.choice((2, 2, 3)))
        ends = [line[:-1] if joint.strip() else line for line, joint in zip(chosen, itertools.repeat("x"))]
        made[draw.choice(joints).join(ends) + chosen[-1][-1]] = None
    return list(made)[:count]


class Reference:
    """A Hugging Face directory in transformers."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Source ids as `MarianTokenizer` makes them."""
        return [self.tokenizer(text).input_ids for text in texts]

    def generate(self, texts: Sequence[str], batch: int = 50, **settings: Any) -> list[list[int]]:
        """Target ids without start, end and padding, by `generate` with its settings.

        Batches are of equal source length: what padding adds to rounding is not in question here.
        """
        rows = self.ids(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found: dict[int, list[int]] = {}
        for _, group in itertools.groupby(order, key=lambda i: len(rows[i])):
            alike = list(group)
            for chosen in (alike[start : start + batch] for start in range(0, len(alike), batch)):
                ids = torch.tensor([rows[i] for i in chosen])
                with torch.inference_mode():
                    out = self.model.generate(
                        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, **settings
                    )
                for i, row in zip(chosen, out.tolist(), strict=True):
                    found[i] = self._trim(row[1:])
        return [found[i] for i in range(len(rows))]

    def _trim(self, row: list[int]) -> list[int]:
        config = self.model.generation_config
        end = config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[0]
        row = row[: row.index(end)] if end in row else row
        while row and row[-1] == config.pad_token_id:
            row.pop()
        return row


class Served:
    """A bundle behind the engine that serves it."""

    def __init__(self, directory: Path) -> None:
        self.manifest = verify_bundle(directory)
        self.tokenizer = Tokenizer.load(*self.manifest.tokenizer.paths(directory))
        runtime = ModelRuntime(directory, self.manifest)
        limits = EngineLimits(max_rows=32, max_queue_sentences=4096, max_queue_tokens=200_000)
        self.pool = thread_engine(runtime, limits, workers=2)

    def ids(self, texts: Sequence[str], direction: int = 0) -> list[list[int]]:
        """Source ids as the server makes them."""
        around = self.manifest.framing(*list(self.manifest.pairs)[direction])
        prefix, suffix = around.source_prefix, around.source_suffix
        return [[*prefix, *self.tokenizer.encode(text), *suffix] for text in texts]

    def generate(self, texts: Sequence[str], options: DecodingOptions, direction: int = 0) -> list[list[int]]:
        """Target ids without the end token."""
        futures = self.pool.submit("proof", self.ids(texts, direction), options)
        return [list(future.result(WAIT_S).hypotheses[0].tokens) for future in futures]

    def close(self) -> None:
        """Stop the engine's threads."""
        self.pool.close(WAIT_S)


def fp32_options(text: Path, **changes: Any) -> ExportOptions:
    """Options of an import that keeps all bits, gated on a text of at least 200 lines."""
    return ExportOptions(precision="fp32", dev_source=[text], beam_widths=(1, 4), **changes)


def edit_json(file: Path, **changes: Any) -> None:
    """Set fields of a JSON object; None removes one."""
    values = json.loads(file.read_text(encoding="utf-8")) | changes
    values = {name: value for name, value in values.items() if value is not None}
    file.write_text(json.dumps(values), encoding="utf-8")
