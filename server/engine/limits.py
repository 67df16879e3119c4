"""What the engine may take on, and what it is doing at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the engine may take on.

    Attributes:
        max_rows: decoder rows of one worker over all beam widths (a sentence takes `beam_size` rows).
        max_queue_sentences: sentences that may wait, over all workers.
        max_queue_tokens: source tokens that may wait, over all workers.
        max_batch_tokens: source tokens started in one step, and encoder positions of one run, padding
            included; bounds how long new sentences hold up those that are decoding. Runs gain little beyond
            128 positions and nothing beyond 256.
        max_cache_bytes: what the key/value caches of all workers, and what shortlists have beside them, may
            take together; None is no bound.
    """

    max_rows: int = 32
    max_queue_sentences: int = 2048
    max_queue_tokens: int = 65536
    max_batch_tokens: int = 1024
    max_cache_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What the engine is doing at one moment.

    Attributes:
        queue_sentences: sentences waiting.
        queue_tokens: source tokens waiting.
        queue_oldest_age_s: seconds the oldest waiting sentence has waited; 0.0 if none waits.
        rows_busy: decoder rows in use, over all workers.
        rows_total: decoder rows there are, over all workers.
        max_rows: decoder rows of one worker.
        kv_cache_bytes: bytes held by the arenas of all workers, and by what shortlists have beside them.
        alive: False once lost workers cannot be replaced.
        last_progress_s: monotonic time of the last finished step, or of the start.
        engine_pids: processes that do the work, if they are not this one.
    """

    queue_sentences: int
    queue_tokens: int
    queue_oldest_age_s: float
    rows_busy: int
    rows_total: int
    max_rows: int
    kv_cache_bytes: int
    alive: bool
    last_progress_s: float
    engine_pids: tuple[int, ...] = ()
