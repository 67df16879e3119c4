"""Where a model looks in the source, word by word of a translation that is known: one run for all of it.

It does not disturb the decoder: the encoder reads the sentences again, in sessions of their own that are
opened when the first request asks for them. They take 9 MiB of this process for a model of 7 million
parameters, which nobody pays who does not ask.
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from export.bundle import Manifest, hash_file
from server.errors import InferenceError
from server.runtime.onnx.session_options import CPU, open_session, run_options, session_options

Weights = NDArray[np.float32]
Pair = tuple[Sequence[int], Sequence[int]]
"""Ids that the encoder reads, and those that the decoder wrote, without start and end token."""

_MOST_ROWS = 32
_MOST_CELLS = 1 << 20
"""Of a batch: sentences times the square of the longest side."""


class AttentionPass:
    """Runs the attention graph of a bundle. Thread-safe."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Keep a verified bundle whose manifest has the section `attention`; opens nothing yet."""
        assert manifest.attention is not None
        self._bundle, self._manifest = bundle, manifest
        self._graph, self._shift = manifest.attention.graph, manifest.attention.shift
        self._longest = manifest.limits.max_target_tokens
        self._lock = threading.Lock()
        self._sessions: tuple[ort.InferenceSession, ort.InferenceSession] | None = None
        self._run_options = run_options()

    def weights(self, pairs: Sequence[Pair]) -> list[Weights]:
        """Compute the attention of each token of translations.

        Args:
            pairs: sources and translations, none empty and none longer than the model takes.

        Returns:
            For each pair [T, S]: a row for each token of the translation, a column for each of the source.
            Rows sum to 1. The last row of a translation of the greatest length may be all 0.

        Raises:
            InferenceError: a graph is not the one that was verified, or failed.
        """
        try:
            encoder, graph = self._opened()
            found: list[Weights] = [np.zeros((0, 0), np.float32)] * len(pairs)
            for batch in _batches(pairs):
                rows = self._run(encoder, graph, [pairs[index] for index in batch])
                for index, own in zip(batch, rows, strict=True):
                    found[index] = own
        except InferenceError:
            raise
        except Exception as error:
            raise InferenceError(f"the attention graph failed: {type(error).__name__}") from error
        return found

    def _opened(self) -> tuple[ort.InferenceSession, ort.InferenceSession]:
        with self._lock:
            if self._sessions is None:
                # The directory may hold another bundle by now.
                encoder = self._manifest.graphs.encoder
                for name, entry in self._manifest.files.items():
                    is_read = not name.endswith(".onnx") or name in (encoder, self._graph)
                    if is_read and hash_file(self._bundle / name) != entry.sha256:
                        raise InferenceError(f"{name} has changed since the model was loaded")
                options = session_options(1)
                self._sessions = (
                    open_session(self._bundle / encoder, options, CPU),
                    open_session(self._bundle / self._graph, options, CPU),
                )
            return self._sessions

    def _run(
        self, encoder: ort.InferenceSession, graph: ort.InferenceSession, pairs: Sequence[Pair]
    ) -> Iterator[Weights]:
        special = self._manifest.special_tokens
        lengths = np.array([len(source) for source, _ in pairs], np.int32)
        fed = [
            [special.decoder_start_id, *target][: min(len(target) + self._shift, self._longest)]
            for _, target in pairs
        ]
        needed = [entry.name for entry in graph.get_inputs()]
        memory = [name for name in needed if name.startswith("cross_")]
        sources = {"input_ids": _padded([source for source, _ in pairs], special.pad_id), "lengths": lengths}
        outputs = encoder.run(memory, sources, self._run_options)
        feeds: dict[str, Any] = dict(zip(memory, outputs, strict=True))
        feeds |= {"target_ids": _padded(fed, special.pad_id), "lengths": lengths}
        (weights,) = graph.run(["attention"], feeds, self._run_options)
        for (source, target), inputs, own in zip(pairs, fed, weights, strict=True):
            rows = np.zeros((len(target), len(source)), np.float32)
            real = own[self._shift : len(inputs), : len(source)]
            rows[: len(real)] = real
            yield rows


def _batches(pairs: Sequence[Pair]) -> Iterator[list[int]]:
    """Yield places of sentences of like length, few enough at a time."""
    longest = [max(map(len, pair)) for pair in pairs]
    batch: list[int] = []
    for index in sorted(range(len(pairs)), key=longest.__getitem__):
        if len(batch) == _MOST_ROWS or (len(batch) + 1) * longest[index] ** 2 > _MOST_CELLS:
            if batch:
                yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> NDArray[np.int64]:
    table = np.full((len(rows), max(map(len, rows))), pad_id, np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table
