"""The engine's events for metrics and tracing."""

from typing import Literal, Protocol

from server.errors import DragomanError

EndReason = Literal["eos", "length", "cancelled", "deadline", "error"]
"""Why a sentence left the engine, with or without a result; a label of the metrics."""

_END_REASONS: dict[str, EndReason] = {
    "aborted": "cancelled",
    "draining": "cancelled",
    "deadline_exceeded": "deadline",
}


def end_reason(error: DragomanError) -> EndReason:
    """Give the reason for which a sentence left that ended with an error."""
    return _END_REASONS.get(error.reason, "error")


class RunObserver(Protocol):
    """Told what one worker does; called between its steps, must be quick and must not raise."""

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """One encoder run ended."""

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """One decoder step ended."""

    def error(self, kind: str) -> None:
        """One fault: `run_failed`, `poison`, `terminated`, `out_of_memory` or `worker_lost`."""


class EngineObserver(RunObserver, Protocol):
    """Told what all workers do and how sentences end; called from any thread, quick, and never raises."""

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """One sentence left the engine."""

    def of_model(self, name: str) -> "EngineObserver":
        """Give the observer for the engine of one of several models."""
        ...


class NullObserver:
    """An observer that looks away."""

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Do nothing."""

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Do nothing."""

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """Do nothing."""

    def error(self, kind: str) -> None:
        """Do nothing."""

    def of_model(self, name: str) -> EngineObserver:
        """Look away from every model."""
        return self
