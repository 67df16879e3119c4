"""A model's place in the server: the translator that new requests get, and the one that a reload replaced."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from server.engine.limits import EngineStats
from server.process_tuning import return_free_memory
from server.service.models.served_model import ServedModel
from server.service.translation.translator import Translator

_log = logging.getLogger("dragoman.service")

_CLOSE_TIMEOUT_S = 5.0


class ModelSlot:
    """Which translator new requests get. Used from one event loop.

    Attributes:
        translator: the one that new requests get. Use it within `with`, and do not keep it.
        since_s: Unix time from which on it has served.
    """

    def __init__(self, translator: Translator) -> None:
        """Begin with a translator over a model whose engine runs; it is closed by this object."""
        self.translator = translator
        self.since_s = time.time()
        self._leaving: Translator | None = None

    @property
    def model(self) -> ServedModel:
        """The model that new requests get."""
        return self.translator.model

    def stats(self) -> EngineStats:
        """Say what the engine is doing now, and the one whose last requests are being finished."""
        now = self.model.engine.stats()
        if self._leaving is None:
            return now
        both = merge_stats([now, self._leaving.model.engine.stats()])
        return replace(both, alive=now.alive, last_progress_s=now.last_progress_s)

    def replace(self, translator: Translator) -> None:
        """Give new requests another translator from now on; `finish_old` has to follow."""
        self._leaving, self.translator = self.translator, translator
        self.since_s = time.time()

    async def finish_old(self, timeout_s: float) -> None:
        """Wait for the requests under way with the replaced translator, then free what it holds.

        Those that take longer than `timeout_s` end with DrainingError.
        """
        if self._leaving is None:
            return
        if not await self._leaving.wait_unused(timeout_s):
            _log.warning("requests with the old model that still run after %.0f s are dropped", timeout_s)
        await close_translator(self._leaving, _CLOSE_TIMEOUT_S)
        self._leaving = None
        await asyncio.to_thread(return_free_memory)

    async def close(self, timeout_s: float) -> None:
        """Close every engine there is, for the end of the server; what they do may take `timeout_s`."""
        for translator in (self.translator, self._leaving):
            if translator is not None:
                await close_translator(translator, timeout_s)


def merge_stats(stats: Sequence[EngineStats]) -> EngineStats:
    """Sum up what several engines are doing, at least one.

    Of rows of a worker it is the most, of ages the oldest, of progress the last; alive if all are.
    """
    if len(stats) == 1:
        return stats[0]
    return EngineStats(
        queue_sentences=sum(one.queue_sentences for one in stats),
        queue_tokens=sum(one.queue_tokens for one in stats),
        queue_oldest_age_s=max(one.queue_oldest_age_s for one in stats),
        rows_busy=sum(one.rows_busy for one in stats),
        rows_total=sum(one.rows_total for one in stats),
        max_rows=max(one.max_rows for one in stats),
        kv_cache_bytes=sum(one.kv_cache_bytes for one in stats),
        alive=all(one.alive for one in stats),
        last_progress_s=max(one.last_progress_s for one in stats),
        engine_pids=tuple(pid for one in stats for pid in one.engine_pids),
    )


async def close_translator(translator: Translator, timeout_s: float) -> None:
    """End a translator that no request uses any more and the engine of its model, which has `timeout_s`."""
    await asyncio.to_thread(translator.model.engine.close, timeout_s)
    translator.close()
