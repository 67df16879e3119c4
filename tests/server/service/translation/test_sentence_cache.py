"""The sentence cache over a fake engine: what is computed once, what never twice, and what never again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from server.engine.sequence import SequenceResult
from server.errors import DeadlineExceededError, InferenceError, QueueFullError
from server.service.request_limits import request_limits
from server.service.translation.request import DecodingWishes, Translation, TranslationRequest
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
        **wishes: Any,
    ) -> Translation:
        self.requests += 1
        request = TranslationRequest(
            f"r{self.requests}", texts, "en", "de", time.monotonic() + timeout_s, DecodingWishes(**wishes)
        )
        return await self.translator(sha256, engine).translate(request, "en", "de")

    @property
    def sizes(self) -> list[int]:
        """Sentences of each submission."""
        return [len(sources) for _, sources, _, _ in self.engine.submitted]

    @property
    def counts(self) -> tuple[int, int, int]:
        stats = self.cache.stats()
        return stats.hits, stats.shared, stats.misses

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
        assert made.cache._flights == {}

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
        assert [one.cached for one in (first, again, whole)] == [0, 1, 2]
        assert desk.counts == (3, 0, 4)

    run(test)


def test_what_was_there_is_the_same_but_took_no_time() -> None:
    async def test(desk: Desk) -> None:
        first, second = [await desk.translate("One two.", num_hypotheses=2, return_scores=True) for _ in "ab"]
        assert first.texts == second.texts
        assert (first.source_tokens, first.target_tokens) == (second.source_tokens, second.target_tokens)
        assert first.finish_reasons == second.finish_reasons
        assert first.stages_s["decode"] > 0
        assert [second.stages_s[stage] for stage in ("queue", "encode", "decode")] == [0, 0, 0]

    run(test)


def test_other_options_and_another_bundle_are_other_sentences() -> None:
    async def test(desk: Desk) -> None:
        await desk.translate("One.")
        for wishes in (
            {"beam_size": 2},
            {"length_penalty": 0.5},
            {"max_decoding_length": 5},
            {"return_scores": True},
            {"target_prefixes": ("One.",)},
            {"sampling_topk": 5, "seed": 1},
            {"sampling_topk": 5, "seed": 2},
        ):
            assert (await desk.translate("One.", **wishes)).cached == 0
            assert (await desk.translate("One.", **wishes)).cached == 1
        assert (await desk.translate("One.", sha256="cd" * 32)).cached == 0
        assert (await desk.translate("One.")).cached == 1

    run(test)


def test_draws_without_a_seed_are_never_repeated() -> None:
    async def test(desk: Desk) -> None:
        for _ in range(2):
            assert (await desk.translate("One.", sampling_topk=5)).cached is None
        assert desk.sizes == [1, 1]
        assert desk.counts == (0, 0, 0)
        assert desk.cache.stats().entries == 0

    run(test)


def test_texts_that_the_tokenizer_does_not_tell_apart_are_one() -> None:
    async def test(desk: Desk) -> None:
        translation = await desk.translate("One.", "One\u200b.", "O\u200bne.")
        assert words(translation) == ["ONE."] * 3
        assert desk.sizes == [1]

    run(test)


def test_what_is_under_way_is_waited_for() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        tasks = [asyncio.create_task(desk.translate("One. Two.")) for _ in range(5)]
        tasks.append(asyncio.create_task(desk.translate("Two. Three.")))
        await desk.waiting(3)
        await asyncio.sleep(0.01)
        assert desk.sizes == [2, 1]
        desk.engine.release()
        assert [words(task) for task in await asyncio.gather(*tasks)] == [["ONE. TWO."]] * 5 + [
            ["TWO. THREE."]
        ]
        assert desk.counts == (0, 9, 3)
        assert desk.cache.stats().entries == 3

    run(test)


def test_cancelling_one_that_waits_cancels_no_other() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first, second, third = [asyncio.create_task(desk.translate("One. Two.")) for _ in range(3)]
        await desk.waiting(2)
        second.cancel()
        await asyncio.wait([second])
        assert (desk.engine.waiting, desk.engine.aborted) == (2, [])
        desk.engine.release()
        assert words(await first) == words(await third) == ["ONE. TWO."]
        assert second.cancelled()

    run(test)


def test_cancelling_the_one_that_began_leaves_the_others_what_they_wait_for() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first = asyncio.create_task(desk.translate("One. Two. Three."))
        await desk.waiting(3)
        second = asyncio.create_task(desk.translate("Two."))
        while not desk.counts[1]:
            await asyncio.sleep(0.001)
        first.cancel()
        await asyncio.wait([first])
        assert desk.engine.aborted == []  # that would take the second's sentence, too
        futures = [future for entries in desk.engine._waiting.values() for _, _, future in entries]
        assert [future.cancelled() for future in futures] == [True, False, True]
        desk.engine._waiting = {
            name: [entry for entry in entries if not entry[2].cancelled()]
            for name, entries in desk.engine._waiting.items()
        }
        desk.engine.release()
        assert words(await second) == ["TWO."]
        assert (await desk.translate("Two.")).cached == 1

    run(test)


def test_when_the_last_leaves_the_engine_is_told() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        tasks = [asyncio.create_task(desk.translate("One. Two.")) for _ in range(3)]
        await desk.waiting(2)
        await asyncio.sleep(0.01)
        for task in reversed(tasks):
            task.cancel()
            await asyncio.wait([task])
        assert desk.engine.waiting == 0
        assert desk.engine.aborted == ["r1"]
        desk.engine.gate.set()
        assert words(await desk.translate("One.")) == ["ONE."]

    run(test)


def test_a_failure_is_told_to_all_who_wait_and_not_remembered() -> None:
    class Failing(FakeEngine):
        broken = True

        def submit(self, request_id: str, sources: Any, *rest: Any) -> list[Future[SequenceResult]]:
            futures = super().submit(request_id, sources, *rest)
            if self.broken:
                self._waiting.clear()
                asyncio.get_running_loop().call_later(
                    0.02, lambda: [future.set_exception(InferenceError("run failed")) for future in futures]
                )
            return futures

    engine = Failing()

    async def test(desk: Desk) -> None:
        engine.gate.clear()
        tasks = [asyncio.create_task(desk.translate("One.")) for _ in range(3)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [InferenceError] * 3
        assert desk.sizes == [1]
        engine.broken = False
        engine.gate.set()
        assert words(await desk.translate("One.")) == ["ONE."]
        assert desk.cache.stats().entries == 1

    run(test, Desk(engine=engine))


def test_a_full_queue_refuses_only_what_has_to_be_computed() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first = asyncio.create_task(desk.translate("One."))
        await desk.waiting(1)
        desk.engine.max_queue_sentences = 1
        with pytest.raises(QueueFullError):
            await desk.translate("One. Two.")
        second = asyncio.create_task(desk.translate("One."))
        await asyncio.sleep(0.01)
        desk.engine.release()
        assert words(await second) == words(await first) == ["ONE."]

    run(test, Desk(engine=FakeEngine(max_queue_sentences=1)))


def test_who_joins_has_the_engine_try_until_its_own_deadline() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first = asyncio.create_task(desk.translate("One. Two.", timeout_s=0.1))
        await desk.waiting(2)
        second = asyncio.create_task(desk.translate("Two. One.", timeout_s=5.0))
        with pytest.raises(DeadlineExceededError):
            await first
        ((name, sentences, until_s),) = desk.engine.extended
        assert (name, sentences) == ("r1", 2)
        assert until_s > time.monotonic() + 3
        assert desk.engine.aborted == []
        desk.engine.release()
        assert words(await second) == ["TWO. ONE."]

    run(test)


def test_a_sentence_that_anothers_deadline_ended_is_computed_for_who_has_time() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first = asyncio.create_task(desk.translate("One."))
        await desk.waiting(1)
        second = asyncio.create_task(desk.translate("Two. One."))
        await desk.waiting(2)
        (entry,) = desk.engine._waiting.pop("r1")
        entry[2].set_exception(DeadlineExceededError("in the moment in which it was joined"))
        with pytest.raises(DeadlineExceededError):
            await first
        await desk.waiting(2)
        desk.engine.release()
        assert words(await second) == ["TWO. ONE."]
        assert (await desk.translate("One.")).cached == 1

    run(test)


def test_the_deadline_of_who_waits_holds() -> None:
    async def test(desk: Desk) -> None:
        desk.engine.gate.clear()
        first = asyncio.create_task(desk.translate("One."))
        await desk.waiting(1)
        started_s = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            await desk.translate("One.", timeout_s=0.05)
        assert time.monotonic() - started_s < 2
        desk.engine.release()
        assert words(await first) == ["ONE."]

    run(test)


def test_a_model_that_replaces_another_computes_anew() -> None:
    async def test(desk: Desk) -> None:
        await desk.translate("One.")
        new = FakeEngine()
        assert (await desk.translate("One.", sha256="cd" * 32, engine=new)).cached == 0
        assert len(new.submitted) == 1

    run(test)
