import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest

from server.engine.sequence import SequenceResult
from server.errors import (
    DeadlineExceededError,
    InferenceError,
    InvalidOptionError,
    QueueFullError,
)
from server.service.request_limits import request_limits
from server.service.translation.request import RequestedOptions, TranslationRequest
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model


def request(*texts: str, timeout_s: float = 5.0, source: str = "en", **changes: Any) -> TranslationRequest:
    return TranslationRequest("r1", texts, source, "de", time.monotonic() + timeout_s, **changes)


def run(engine: FakeEngine, test: Callable[[Translator], Awaitable[Any]], **changes: object) -> Any:
    async def main() -> Any:
        model = served_model(engine, **changes)
        translator = Translator(model, request_limits(Settings(), model.manifest))
        try:
            return await test(translator)
        finally:
            translator.close()

    return asyncio.run(main())


def test_texts_come_back_in_order() -> None:
    translation = run(
        FakeEngine(),
        lambda t: t.translate(request("One. Two.", "", "Three." + " And more." * 60), "en", "de"),
    )
    assert [text.hypotheses[0] for text in translation.texts] == [
        "ONE. TWO.",
        "",
        "THREE." + " AND MORE." * 60,
    ]
    assert translation.work.sentences == 4
    assert translation.work.finish_reasons == {"eos": 4}
    assert set(translation.work.stages_s) == {"tokenize", "queue", "encode", "decode", "detokenize"}


def test_sentences_are_those_of_the_language_whatever_its_code() -> None:
    engine = FakeEngine()
    asked = request("Wir sehen uns am 3. Mai in Köln.", source="deu_Latn")
    pairs = [{"source": "deu_Latn", "target": "fra_Latn"}]
    run(engine, lambda t: t.translate(asked, "deu_Latn", "fra_Latn"), directions=pairs)
    assert len(engine.submitted[0][1]) == 1


def test_nothing_to_translate_never_reaches_the_engine() -> None:
    engine = FakeEngine()
    translation = run(engine, lambda t: t.translate(request("", " \n", "..."), "en", "de"))
    assert [text.hypotheses[0] for text in translation.texts] == ["", " \n", "..."]
    assert engine.submitted == []


def test_a_full_queue_is_passed_on() -> None:
    with pytest.raises(QueueFullError):
        run(FakeEngine(max_queue_sentences=1), lambda t: t.translate(request("one. two."), "en", "de"))


def test_a_passed_deadline_computes_nothing() -> None:
    engine = FakeEngine()
    with pytest.raises(DeadlineExceededError):
        run(engine, lambda t: t.translate(request("one", timeout_s=-1.0), "en", "de"))
    assert engine.submitted == []


def test_an_engine_that_misses_the_deadline_is_not_waited_for() -> None:
    engine = FakeEngine()
    engine.gate.clear()
    started_s = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        run(engine, lambda t: t.translate(request("one", timeout_s=0.05), "en", "de"))
    assert time.monotonic() - started_s < 2
    assert engine.aborted == ["r1"]


def test_cancelling_aborts_the_request() -> None:
    engine = FakeEngine()
    engine.gate.clear()

    async def cancel(translator: Translator) -> None:
        task = asyncio.create_task(translator.translate(request("one. two."), "en", "de"))
        while not engine.waiting:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(engine, cancel)
    assert engine.aborted == ["r1"]
    assert engine.waiting == 0


def test_one_failed_sentence_fails_its_request_and_aborts_the_rest() -> None:
    class Failing(FakeEngine):
        def submit(self, request_id: str, sources: Any, *rest: Any) -> list[Future[SequenceResult]]:
            self.gate.clear()
            futures = super().submit(request_id, sources, *rest)
            futures[0].set_exception(InferenceError("run failed"))
            return futures

        def abort(self, request_id: str) -> None:
            self.aborted.append(request_id)

    engine = Failing()
    with pytest.raises(InferenceError):
        run(engine, lambda t: t.translate(request("one. two."), "en", "de"))
    assert engine.aborted == ["r1"]


def test_options_reach_the_engine() -> None:
    engine = FakeEngine()
    requested = RequestedOptions(beam_size=4, length_penalty=0.5, num_hypotheses=2, max_decoding_length=7)
    translation = run(engine, lambda t: t.translate(request("one", options=requested), "en", "de"))
    options = engine.submitted[0][2]
    assert (options.beam_size, options.length_penalty, options.num_hypotheses) == (4, 0.5, 2)
    assert options.max_decoding_length == 7
    assert len(translation.texts[0].hypotheses) == 2


def test_a_prefix_is_forced_and_returned() -> None:
    requested = RequestedOptions(target_prefixes=("well then", ""))
    translation = run(
        FakeEngine(), lambda t: t.translate(request("One. Two.", "One.", options=requested), "en", "de")
    )
    assert [text.hypotheses[0] for text in translation.texts] == ["WELL THEN ONE. TWO.", "ONE."]


def test_a_prefix_that_is_too_long_is_refused() -> None:
    requested = RequestedOptions(target_prefixes=("w " * 70,))
    with pytest.raises(InvalidOptionError, match="target_prefix has 70 tokens"):
        run(FakeEngine(), lambda t: t.translate(request("One.", options=requested), "en", "de"))
