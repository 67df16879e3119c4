"""What the service needs of a loaded model: the seam between text and token ids."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from export.bundle import Manifest
from model.tokenizer import Tokenizer
from server.engine.sequence import DecodingOptions, EngineStats, SequenceResult


class TranslationEngine(Protocol):
    """Token ids in, token ids out. `server.engine.worker.WorkerPool` is the real one. Thread-safe."""

    def submit(
        self,
        request_id: str,
        sources: Sequence[Sequence[int]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        """Queue sentences, all or none, with one way to decode for all or for each; futures end once."""
        ...

    def abort(self, request_id: str) -> None:
        """Drop whatever of a request has not ended yet."""
        ...

    def decoding(self, request_id: str) -> bool:
        """Tell whether a sentence of a request has left the queue and has not ended."""
        ...

    def stats(self) -> EngineStats:
        """Say what the engine is doing now."""
        ...

    def close(self, timeout_s: float) -> None:
        """Stop the threads; what has not ended is aborted."""
        ...


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A bundle in memory with its engine running.

    Attributes:
        manifest: of the bundle.
        sha256: SHA-256 of its manifest, which holds those of all other files.
        tokenizer: text to ids and back.
        engine: ids to ids.
        load_duration_s: seconds from verification to the last golden sentence.
    """

    manifest: Manifest
    sha256: str
    tokenizer: Tokenizer
    engine: TranslationEngine
    load_duration_s: float
