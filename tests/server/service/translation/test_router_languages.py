"""Texts of several languages in one request, and texts that come back unchanged."""

import asyncio

import pytest

from server.errors import DeadlineExceededError, QueueFullError, UnsupportedLanguageError
from server.service.text.languages import UNDETERMINED
from server.service.text.options import TextOptions
from server.service.translation.request import RequestedOptions
from server.service.translation.router import Router
from tests.server.fake_router import Models, request

MIXED = (
    "Où se trouve la gare ?",
    "12345",
    "Where is the station?",
    "Wo ist der Bahnhof?",
    "The shops are closed today.",
    "今日はとても暑いです。",
)


def test_each_text_has_its_own_language_and_model() -> None:
    models = Models("en-de", "fr-en")
    translation = models.translate(*MIXED, source="auto", text_options=TextOptions(guard="off"))
    assert [one.language for one in translation.detected] == [
        "fr",
        UNDETERMINED,
        "en",
        "de",
        "en",
        UNDETERMINED,
    ]
    changed = [text.hypotheses[0] != source for text, source in zip(translation.texts, MIXED, strict=True)]
    assert changed == [True, False, True, False, True, False]
    assert [len(sources) for _, sources, _, _ in models["fr-en"].submitted] == [1]
    assert sorted(len(sources) for _, sources, _, _ in models["en-de"].submitted) == [1, 2]
    assert translation.work.sentences == 4  # the French one counts with each of its two models
    assert translation.work.finish_reasons == {"eos": 4}
    assert (translation.source, translation.target, translation.pivot) == (
        "en",
        "de",
        None,
    )  # of most characters
    ids = {request_id for engine in models.engines.values() for request_id, *_ in engine.submitted}
    assert len(ids) == 2  # an engine is never given two parts under one id


def test_prefixes_stay_with_their_texts() -> None:
    models = Models("en-de", "fr-de")
    asked = RequestedOptions(target_prefixes=("one", "two two", "three three three"))
    texts = ("Où se trouve la gare ?", "Where is the station?", "La gare est fermée.")
    translation = models.translate(*texts, source="auto", options=asked)
    begun = [text.hypotheses[0].split()[0] for text in translation.texts]
    assert begun == ["ONE", "TWO", "THREE"]  # the fake model shouts


def test_one_group_that_is_refused_ends_the_others() -> None:
    models = Models("en-de", "fr-de")
    models["en-de"].gate.clear()
    models["fr-de"].max_queue_sentences = 0
    with pytest.raises(QueueFullError):
        models.translate("Where is the station?", "Où se trouve la gare ?", source="auto")
    assert models["en-de"].aborted == [request_id for request_id, *_ in models["en-de"].submitted]


def test_a_mixed_request_can_be_cancelled() -> None:
    models = Models("en-de", "fr-de")
    for engine in models.engines.values():
        engine.gate.clear()

    async def cancel(router: Router) -> None:
        mixed = request("Where is the station?", "Où se trouve la gare ?", source="auto")
        task = asyncio.create_task(router.translate(mixed))
        while not all(engine.waiting for engine in models.engines.values()):
            await asyncio.sleep(0.001)
        assert router.phase("r1") in ("queued", "running")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert router.phase("r1") == "queued"

    models.run(cancel)
    assert all(len(engine.aborted) == 1 for engine in models.engines.values())


def test_the_deadline_holds_for_every_group() -> None:
    models = Models("en-de", "fr-de")
    models["fr-de"].gate.clear()
    with pytest.raises(DeadlineExceededError):
        models.translate("Where is the station?", "Où se trouve la gare ?", source="auto", timeout_s=0.2)


def test_a_stated_source_is_not_believed_of_a_text_in_the_target_language() -> None:
    models = Models("en-de", "fr-en")
    texts = ("Der Bus fährt heute nicht über den Marktplatz.", "The bus does not stop here today.")
    for source in ("en", "fr"):
        translation = models.translate(*texts, source=source)
        assert [
            text.hypotheses[0] == given for text, given in zip(translation.texts, texts, strict=True)
        ] == [
            True,
            False,
        ]
        assert translation.detected == ()
        assert translation.source == source


def test_many_texts_are_looked_at_on_a_thread() -> None:
    texts = ["Where is the station?", "Où se trouve la gare ?"] * 100
    translation = Models("en-de", "fr-de").translate(*texts, source="auto")
    assert [one.language for one in translation.detected] == ["en", "fr"] * 100


def test_a_language_goes_into_itself_unchanged_and_without_a_model() -> None:
    models = Models("fr-en", "en-de")
    for code in ("fr", "en", "de"):
        translation = models.translate("One <b> two\r\n", "", source=code, target=code)
        assert [text.hypotheses for text in translation.texts] == [("One <b> two\r\n",), ("",)]
        assert (translation.source, translation.target, translation.work.sentences) == (code, code, 0)
    with pytest.raises(UnsupportedLanguageError):
        models.translate("x", source="it", target="it")
    assert not any(engine.submitted for engine in models.engines.values())


@pytest.mark.parametrize("text", ["12345", "😀", " "])
def test_a_text_without_words_is_undetermined(text: str) -> None:
    found = Models("en-de").run(lambda router: router.detect(text))
    assert [(one.language, one.confidence) for one in found] == [(UNDETERMINED, 0), ("en", 0), ("de", 0)]


def test_without_the_guard_a_stated_source_is_believed() -> None:
    models = Models("en-de")
    text = "Der Bus fährt heute nicht über den Marktplatz."
    for guard, translated in (("off", text.upper()), ("flag", text), ("mend", text)):
        translation = models.translate(text, text_options=TextOptions(guard=guard))
        assert translation.texts[0].hypotheses == (translated,)
