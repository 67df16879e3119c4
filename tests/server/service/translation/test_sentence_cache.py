"""The sentence cache over a fake engine: what is found, what is computed, and what is never kept."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from server.engine.sequence import SequenceResult
from server.errors import InferenceError, QueueFullError
from server.service.request_limits import request_limits
from server.service.translation.request import RequestedOptions, Translation, TranslationRequest
from server.service.translation.sentence_cache import SentenceCache
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


class Desk:
    """A translator with a cache; requests are numbered."""

    def __init__(self, max_bytes: int = 1 << 20, engine: FakeEngine | None = None) -> None:
        self.engine = engine or FakeEngine()
        self.cache = SentenceCache(max_bytes)
        self.translators: dict[str, Translator] = {}
        self.requests = 0

    def translator(self, sha256: str = "ab" * 32, engine: FakeEngine | None = None) -> Translator:
        if sha256 not in self.translators:
            model = replace(served_model(engine or self.engine), sha256=sha256)
            limits = request_limits(Settings(), model.manifest)
            self.translators[sha256] = Translator(model, limits, text_threads=1, cache=self.cache)
        return self.translators[sha256]

    async def translate(
        self,
        *texts: str,
        timeout_s: float = 5.0,
        sha256: str = "ab" * 32,
        engine: FakeEngine | None = None,
        **chosen: Any,
    ) -> Translation:
        self.requests += 1
        request = TranslationRequest(
            f"r{self.requests}",
            texts,
            "en",
            "de",
            time.monotonic() + timeout_s,
            RequestedOptions(**chosen),
        )
        return await self.translator(sha256, engine).translate(request, "en", "de")

    @property
    def sizes(self) -> list[int]:
        """Sentences of each submission."""
        return [len(sources) for _, sources, _, _ in self.engine.submitted]

    @property
    def counts(self) -> tuple[int, int]:
        stats = self.cache.stats()
        return stats.hits, stats.misses

    async def waiting(self, sentences: int) -> None:
        while self.engine.waiting != sentences:
            await asyncio.sleep(0.001)


def run(test: Callable[[Desk], Awaitable[None]], desk: Desk | None = None) -> None:
    async def main() -> None:
        made = desk or Desk()
        try:
            await asyncio.wait_for(test(made), 20)
        finally:
            for translator in made.translators.values():
                translator.close()

    asyncio.run(main())


def words(translation: Translation) -> list[str]:
    return [text.hypotheses[0] for text in translation.texts]


def test_a_sentence_is_computed_once_whatever_request_it_comes_in() -> None:
    async def test(desk: Desk) -> None:
        first = await desk.translate("One. Two.", "Three.")
        again = await desk.translate(" Two. Four.")
        whole = await desk.translate("Three. One.")
        assert [words(first), words(again), words(whole)] == [
            ["ONE. TWO.", "THREE."],
            [" TWO. FOUR."],
            ["THREE. ONE."],
        ]
        assert desk.sizes == [3, 1]
        assert [one.work.cached for one in (first, again, whole)] == [0, 1, 2]
        assert desk.counts == (3, 4)

    run(test)


def test_what_was_there_is_the_same_but_took_no_time() -> None:
    async def test(desk: Desk) -> None:
        first, second = [await desk.translate("One two.", num_hypotheses=2, return_scores=True) for _ in "ab"]
        assert first.texts == second.texts
        assert (first.work.source_tokens, first.work.target_tokens) == (
            second.work.source_tokens,
            second.work.target_tokens,
        )
        assert first.work.finish_reasons == second.work.finish_reasons
        assert first.work.stages_s["decode"] > 0
        assert [second.work.stages_s[stage] for stage in ("queue", "encode", "decode")] == [0, 0, 0]

    run(test)


def test_other_options_and_another_bundle_are_other_sentences() -> None:
    async def test(desk: Desk) -> None:
        await desk.translate("One.")
        for chosen in (
            {"beam_size": 2},
            {"length_penalty": 0.5},
            {"max_decoding_length": 5},
            {"return_scores": True},
            {"target_prefixes": ("One.",)},
            {"sampling_topk": 5, "seed": 1},
            {"sampling_topk": 5, "seed": 2},
        ):
            assert (await desk.translate("One.", **chosen)).work.cached == 0
            assert (await desk.translate("One.", **chosen)).work.cached == 1
        assert (await desk.translate("One.", sha256="cd" * 32)).work.cached == 0
        assert (await desk.translate("One.")).work.cached == 1

    run(test)


def test_draws_without_a_seed_are_never_repeated() -> None:
    async def test(desk: Desk) -> None:
        for _ in range(2):
            assert (await desk.translate("One.", sampling_topk=5)).work.cached is None
        assert desk.sizes == [1, 1]
        assert desk.counts == (0, 0)
        assert desk.cache.stats().entries == 0

    run(test)


def test_texts_that_the_tokenizer_does_not_tell_apart_are_one() -> None:
    async def test(desk: Desk) -> None:
        translation = await desk.translate("One.", "One\u200b.", "O\u200bne.")
        assert words(translation) == ["ONE."] * 3
        assert desk.sizes == [1]

    run(test)


def test_requests_at_the_same_time_each_compute_and_the_first_result_is_kept() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        tasks = [asyncio.create_task(desk.translate("One. Two.")) for _ in range(3)]
        await desk.waiting(6)
        desk.engine.release()
        assert [words(task) for task in await asyncio.gather(*tasks)] == [["ONE. TWO."]] * 3
        assert desk.sizes == [2, 2, 2]
        assert desk.counts == (0, 6)
        assert desk.cache.stats().entries == 2
        assert (await desk.translate("Two.")).work.cached == 1

    run(test)


def test_cancelling_one_request_takes_nothing_from_another() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        leaving, staying = [asyncio.create_task(desk.translate("One. Two.")) for _ in range(2)]
        await desk.waiting(4)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert (desk.engine.waiting, desk.engine.aborted) == (2, ["r1"])
        desk.engine.release()
        assert words(await staying) == ["ONE. TWO."]

    run(test)


def test_a_failure_is_not_kept() -> None:
    class Failing(FakeEngine):
        broken = True

        def submit(self, request_id: str, sources: Any, *rest: Any) -> list[Future[SequenceResult]]:
            futures = super().submit(request_id, sources, *rest)
            if self.broken:
                self._waiting.clear()
                for future in futures:
                    future.set_exception(InferenceError("run failed"))
            return futures

    engine = Failing()

    async def test(desk: Desk) -> None:
        engine.gate.clear()
        with pytest.raises(InferenceError):
            await desk.translate("One.")
        assert desk.cache.stats().entries == 0
        engine.broken = False
        engine.gate.set()
        assert words(await desk.translate("One.")) == ["ONE."]
        assert desk.cache.stats().entries == 1

    run(test, Desk(engine=engine))


def test_a_full_queue_refuses_only_what_has_to_be_computed() -> None:
    async def test(desk: Desk) -> None:
        await desk.translate("One.")
        desk.engine.max_queue_sentences = 0
        with pytest.raises(QueueFullError):
            await desk.translate("One. Two.")
        assert words(await desk.translate("One.")) == ["ONE."]

    run(test)


def test_a_model_that_replaces_another_computes_anew() -> None:
    async def test(desk: Desk) -> None:
        await desk.translate("One.")
        new = FakeEngine()
        assert (await desk.translate("One.", sha256="cd" * 32, engine=new)).work.cached == 0
        assert len(new.submitted) == 1

    run(test)
