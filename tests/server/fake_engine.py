"""An engine without a network: it "translates" each token to itself, as slowly as a test wants."""

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from export.bundle import Architecture, FileEntry, Manifest
from model.tokenizer import Tokenizer
from server.engine.limits import EngineStats
from server.engine.options import DecodingOptions
from server.engine.sequence import FinishReason, Hypothesis, SequenceResult
from server.errors import AbortedError, DragomanError, QueueFullError
from server.service.models.served_model import ServedModel

EOS_ID = 3
FIRST_WORD_ID = 4
BEAM_WIDTHS = (1, 2, 4)


class FakeEngine:
    """Copies source tokens; holds them back while `gate` is closed. Thread-safe."""

    def __init__(self, max_queue_sentences: int = 2048, suffix_tokens: int = 1) -> None:
        self.max_queue_sentences = max_queue_sentences
        self.suffix_tokens = suffix_tokens
        self.gate = threading.Event()
        self.gate.set()
        self.alive = True
        self.failure: DragomanError | None = None
        self.submitted: list[tuple[str, list[tuple[int, ...]], DecodingOptions, float | None]] = []
        self.aborted: list[str] = []
        self.last_progress_s = time.monotonic()
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[tuple[int, ...], DecodingOptions, Future[SequenceResult]]]] = {}

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Futures are resolved on whatever thread a test uses."""

    def submit(
        self,
        request_id: str,
        sources: Sequence[Sequence[int]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        if self.failure is not None:
            raise self.failure
        with self._lock:
            if sum(map(len, self._waiting.values())) + len(sources) > self.max_queue_sentences:
                raise QueueFullError("the queue is full", retry_after_s=2.0)
            each = [options] * len(sources) if isinstance(options, DecodingOptions) else list(options)
            shared = each[0] if each else DecodingOptions()
            self.submitted.append((request_id, [tuple(s) for s in sources], shared, deadline_s))
            futures: list[Future[SequenceResult]] = [Future() for _ in sources]
            self._waiting[request_id] = [
                (tuple(source), one, future)
                for source, one, future in zip(sources, each, futures, strict=True)
            ]
        if self.gate.is_set():
            self.release()
        return futures

    def check_room(self, active: int) -> None:
        if max(self.waiting, active) >= self.max_queue_sentences:
            raise QueueFullError("the queue is full", retry_after_s=2.0)

    def release(self) -> None:
        """Finish everything that waits."""
        self.gate.set()
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for source, options, future in (entry for entries in waiting.values() for entry in entries):
            future.set_running_or_notify_cancel()
            future.set_result(self.result(source, options))

    def result(self, source: tuple[int, ...], options: DecodingOptions) -> SequenceResult:
        tokens = (*options.target_prefix, *source[: len(source) - self.suffix_tokens])
        cut = tokens[: options.max_decoding_length]
        hypotheses = tuple(
            Hypothesis((*cut, *[cut[-1]] * rank), -0.5 - rank) for rank in range(options.num_hypotheses)
        )
        reason: FinishReason = "length" if len(cut) < len(tokens) else "eos"
        return SequenceResult(hypotheses, reason, len(source), len(cut), 0.001, 0.002, 0.003)

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        with self._lock:
            entries = self._waiting.pop(request_id, [])
        for _, _, future in entries:
            future.set_exception(AbortedError("aborted"))

    def decoding(self, request_id: str) -> bool:
        return False

    def stats(self) -> EngineStats:
        waiting = self.waiting
        return EngineStats(waiting, 7 * waiting, 0.0, 0, 32, 32, 4096, self.alive, self.last_progress_s)

    def close(self, timeout_s: float) -> None:
        for request_id in list(self._waiting):
            self.abort(request_id)


class FakeTokenizer(Tokenizer):
    """One id a word; remembers words, so that what comes back is what went in, in upper case."""

    def __init__(self) -> None:
        self._words = [""] * FIRST_WORD_ID
        self._ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        words = text.replace("\u200b", "").split()
        for word in words:
            if word not in self._ids:
                self._ids[word] = len(self._words)
                self._words.append(word)
        return [self._ids[word] for word in words]

    @property
    def unk_id(self) -> int:
        return 1

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def source_pieces(self) -> list[str]:
        return list(self._words)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._words[i] for i in ids).upper()


def manifest(**changes: object) -> Manifest:
    """A manifest for a model that does not exist."""
    decoders = {str(width): f"decoder.beam{width}.onnx" for width in BEAM_WIDTHS}
    specials = dict.fromkeys(("pad_id", "unk_id", "bos_id", "decoder_start_id"), 0)
    files = ("encoder.onnx", "source.spm", "NOTICE", "MODEL_CARD.md", *decoders.values())
    values: dict[str, object] = {
        "format_version": 1,
        "name": "fake",
        "version": "1",
        "created": "2026-01-01",
        "directions": [{"source": "en", "target": "de"}],
        "special_tokens": {**specials, "eos_id": EOS_ID, "source_suffix_ids": [EOS_ID]},
        "limits": {"max_source_tokens": 64, "max_target_tokens": 64},
        "precision": "fp32",
        "batch_invariant": True,
        "architecture": dict.fromkeys(Architecture.model_fields, 8)
        | {"decoder_heads": 2, "head_dim": 4, "source_features": 0, "details": None},
        "graphs": {"opset": 20, "encoder": "encoder.onnx", "decoders": decoders},
        "tokenizer": {"kind": "sentencepiece", "source": "source.spm"},
        "files": dict.fromkeys(files, FileEntry(sha256="0" * 64, size_bytes=1)),
    }
    return Manifest.model_validate(values | changes)


def served_model(engine: FakeEngine, **changes: object) -> ServedModel:
    """The fake engine as a loaded model."""
    return ServedModel(manifest(**changes), "ab" * 32, FakeTokenizer(), engine, 0.5)
