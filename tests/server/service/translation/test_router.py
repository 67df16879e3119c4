"""Several models over fake engines: which one translates what, and two in a row."""

import asyncio
import itertools
import time
from typing import Any

import pytest

from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import (
    DeadlineExceededError,
    InvalidOptionError,
    QueueFullError,
    SettingError,
    TextTooLongError,
    TooManyTextsError,
    UnsupportedLanguageError,
)
from server.service.models.served_model import check_together
from server.service.request_limits import request_limits
from server.service.text.options import TextOptions
from server.service.translation.request import RequestedOptions
from server.service.translation.router import Router
from server.service.translation.translator import Translator
from tests.server.fake_engine import FakeEngine, manifest, served_model
from tests.server.fake_router import Models, directions, request, submitted


def test_each_pair_goes_to_its_model() -> None:
    for source, target in (("en", "de"), ("de", "en"), ("fr", "en")):
        models = Models("en-de", "de-en+fr-en")
        translation = models.translate("One.", source=source, target=target)
        assert (translation.source, translation.target, translation.pivot) == (source, target, None)
        used = [pairs for pairs, engine in models.engines.items() if engine.submitted]
        assert used == [next(pairs for pairs in models.engines if f"{source}-{target}" in pairs)]


def test_languages_are_those_of_all_models_and_what_two_do_together() -> None:
    router = Models("en-de", "de-en+fr-en", "en-es").router()
    assert router.directions.codes == ("en", "de", "fr", "es")
    assert {code: set(router.directions.targets(code)) for code in router.directions.codes} == {
        "en": {"de", "es"},
        "de": {"en", "es"},
        "fr": {"en", "de", "es"},
        "es": set(),
    }
    assert ("fr", "de", "en") in router.pairs
    assert ("fr", "en", "") in router.pairs


def test_a_model_of_its_own_comes_before_a_pivot() -> None:
    models = Models("fr-en", "en-de", "fr-de")
    translation = models.translate("One.", source="fr", target="de")
    assert translation.pivot is None
    assert [bool(models[pair].submitted) for pair in ("fr-en", "en-de", "fr-de")] == [False, False, True]


def test_a_pair_without_a_model_goes_through_the_pivot() -> None:
    models = Models("fr-en", "en-de")
    translation = models.translate("One. Two.", "", " Three. \n", source="fr", target="de")
    assert [text.hypotheses for text in translation.texts] == [("ONE. TWO.",), ("",), (" THREE. \n",)]
    assert (translation.source, translation.target, translation.pivot) == ("fr", "de", "en")
    assert translation.work.sentences == 6
    assert translation.work.finish_reasons == {"eos": 6}
    assert translation.work.source_tokens == 2 * sum(len(s) for s in models["fr-en"].submitted[0][1])
    assert translation.work.stages_s["decode"] == pytest.approx(0.006)
    assert models["fr-en"].submitted[0][3] == models["en-de"].submitted[0][3]  # one deadline for both


@pytest.mark.parametrize("pairs", [("fr-en", "en-de"), ("fr-en+en-de",)])
def test_markup_goes_through_the_pivot(pairs: tuple[str, ...]) -> None:
    translation = Models(*pairs).translate(
        '<p class="x">One &lt; two. <b>Three</b></p>', source="fr", target="de", is_html=True
    )
    assert translation.texts[0].hypotheses == ('<p class="x">ONE &lt; TWO. <b>THREE</b></p>',)


def test_markup_keeps_its_language_on_the_way_through_the_pivot() -> None:
    models = Models("fr-en", "en-de")
    markup = '<p lang="fr">One <i lang="en">two</i> three.</p>'
    translation = models.translate(markup, source="fr", target="de", is_html=True)
    assert translation.texts[0].hypotheses == ('<p lang="fr">ONE <i lang="en">two</i> THREE.</p>',)
    assert models["en-de"].submitted


@pytest.mark.parametrize(("pivot", "pairs"), [(None, ("fr-en", "en-de")), ("en", ("fr-es", "es-de"))])
def test_without_both_halves_the_pair_is_refused(pivot: str | None, pairs: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedLanguageError, match="fr to de is not a supported direction"):
        Models(*pairs, pivot=pivot).translate("x", source="fr", target="de")
    assert Models(*pairs, pivot="es").router().directions.targets("fr")


def test_alternatives_scores_and_options_are_of_the_second_model() -> None:
    models = Models("fr-en", "en-de")
    requested = RequestedOptions(
        beam_size=4,
        num_hypotheses=2,
        max_decoding_length=9,
        return_scores=True,
        target_prefixes=("well then",),
        repetition_penalty=1.5,
    )
    translation = models.translate("One two three.", source="fr", target="de", options=requested)
    first, second = submitted(models["fr-en"]), submitted(models["en-de"])
    assert (first[0].beam_size, first[0].num_hypotheses, first[0].repetition_penalty) == (4, 1, 1.5)
    assert first[0].max_decoding_length > 9
    assert not first[0].return_scores
    assert (second[0].beam_size, second[0].num_hypotheses, second[0].max_decoding_length) == (4, 2, 9)
    assert len(translation.texts[0].hypotheses) == 2
    assert translation.texts[0].hypotheses[0].startswith("WELL THEN ONE")


def test_draws_are_of_the_second_model() -> None:
    models = Models("fr-en", "en-de")
    models.translate("One.", source="fr", target="de", options=RequestedOptions(sampling_topk=5, seed=3))
    assert [submitted(models[pair])[0].samples for pair in ("fr-en", "en-de")] == [False, True]


def test_options_are_checked_for_both_before_any_work() -> None:
    models = Models("fr-en", "en-de")
    with pytest.raises(InvalidOptionError):
        models.translate("x", source="fr", target="de", options=RequestedOptions(max_decoding_length=65))
    assert models["fr-en"].submitted == []


def test_what_the_first_model_cut_is_said_to_be_cut() -> None:
    models = Models("fr-en", "en-de")
    whole = models["fr-en"].result

    def cut(source: tuple[int, ...], options: DecodingOptions) -> SequenceResult:
        result = whole(source, options)
        return SequenceResult(result.hypotheses, "length", len(source), 1, 0.0, 0.0, 0.0)

    models["fr-en"].result = cut  # type: ignore[method-assign]
    translation = models.translate("One.", source="fr", target="de", text_options=TextOptions(guard="off"))
    assert translation.texts[0].finish_reason == "length"
    assert translation.work.finish_reasons == {"length": 1, "eos": 1}


def test_a_text_that_grew_too_long_on_the_way_is_refused_with_the_reason() -> None:
    models = Models("fr-en", "en-de")
    whole = models["fr-en"].result

    def grow(source: tuple[int, ...], options: DecodingOptions) -> SequenceResult:
        words = [word for words in itertools.product(source[:-1], repeat=8) for word in words]
        return whole((*words, source[-1]), options.__class__(max_decoding_length=100_000))

    models["fr-en"].result = grow  # type: ignore[method-assign]
    with pytest.raises(TextTooLongError, match=r"translated to en on the way, the request has \d+ tokens"):
        models.translate("Dix onze douze", source="fr", target="de", text_options=TextOptions(guard="off"))


@pytest.mark.parametrize("held", ["fr-en", "en-de"])
def test_cancelling_aborts_whichever_model_is_at_it(held: str) -> None:
    models = Models("fr-en", "en-de")
    models[held].gate.clear()

    async def cancel(router: Router) -> None:
        task = asyncio.create_task(router.translate(request("One. Two.", source="fr", target="de")))
        while not models[held].waiting:
            await asyncio.sleep(0.001)
        assert router.phase("r1") == "queued"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert models[held].waiting == 0
        assert models[held].aborted == ["r1"]
        assert await router.slots[0].translator.wait_unused(0)
        assert await router.slots[1].translator.wait_unused(0)

    models.run(cancel)


def test_the_deadline_holds_for_both_together() -> None:
    models = Models("fr-en", "en-de")
    models["en-de"].gate.clear()
    started_s = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        models.translate("One.", source="fr", target="de", timeout_s=0.2)
    assert time.monotonic() - started_s < 2
    assert models["en-de"].aborted == ["r1"]


def test_a_full_queue_of_the_second_is_passed_on() -> None:
    models = Models("fr-en", "en-de")
    models["en-de"].max_queue_sentences = 0
    with pytest.raises(QueueFullError):
        models.translate("One.", source="fr", target="de")


def test_texts_are_checked_before_languages() -> None:
    with pytest.raises(TooManyTextsError):
        Models("en-de", max_texts=1).translate("a", "b", source="zz")


def test_auto_chooses_among_the_sources_that_lead_to_the_target() -> None:
    for text, source, pivot in (
        ("Où se trouve la gare, s'il vous plaît ?", "fr", "en"),
        ("Where is the station, please?", "en", None),
        ("¿Dónde está la estación de tren?", "es", "en"),
    ):
        translation = Models("en-de", "fr-en", "es-en").translate(text, source="auto")
        (detected,) = translation.detected
        assert detected.language == translation.source == source
        assert translation.pivot == pivot
        assert detected.confidence > 80


def test_auto_without_a_source_for_the_target_is_refused() -> None:
    with pytest.raises(UnsupportedLanguageError):
        Models("en-de").translate("x", source="auto", target="en")


def test_detection_ranks_the_languages_of_all_models() -> None:
    found = Models("en-de", "fr-en").run(lambda router: router.detect("Où se trouve la gare ?"))
    assert [found[0].language, {one.language for one in found}] == ["fr", {"en", "de", "fr"}]


@pytest.mark.parametrize("text", ["12345", "今天天气很好。"])
def test_detection_says_first_that_a_text_is_in_no_served_language(text: str) -> None:
    found = Models("en-de", "fr-en").run(lambda router: router.detect(text))
    assert found[0].language == "und"
    assert {one.language for one in found[1:]} == {"de", "en", "fr"}
    assert {one.confidence for one in found} == {0}


def test_an_exchanged_model_changes_the_routes_of_new_requests_only() -> None:
    models = Models("fr-en", "en-de")
    other = FakeEngine()

    async def exchange(router: Router) -> None:
        models["fr-en"].gate.clear()
        task = asyncio.create_task(router.translate(request("One.", source="fr", target="de")))
        while not models["fr-en"].waiting:
            await asyncio.sleep(0.001)
        model = served_model(other, name="new", directions=directions("en-es"))
        serving = router.slots[1]
        serving.replace(Translator(model, request_limits(models.settings, model.manifest)))
        router.find_routes()
        assert "de" not in router.directions.codes
        with pytest.raises(UnsupportedLanguageError):
            await router.translate(request("One.", source="fr", target="de"))
        models["fr-en"].release()
        assert (await task).texts[0].hypotheses == ("ONE.",)
        assert len(models["en-de"].submitted) == 1
        await serving.finish_old(5.0)
        translation = await router.translate(request("One.", source="fr", target="es"))
        assert (translation.pivot, len(other.submitted)) == ("en", 1)

    models.run(exchange)


@pytest.mark.parametrize("source", ["en", "auto"])
def test_a_direction_that_goes_while_a_request_is_looked_at_is_refused(source: str) -> None:
    models = Models("en-de")

    async def exchange(router: Router) -> None:
        long = "The bus does not stop here today. " * 100  # which a thread looks at
        task = asyncio.create_task(router.translate(request(long, source=source)))
        await asyncio.sleep(0)
        model = served_model(FakeEngine(), name="new", directions=directions("en-fr"))
        (slot,) = router.slots
        slot.replace(Translator(model, request_limits(models.settings, model.manifest)))
        router.find_routes()
        with pytest.raises(UnsupportedLanguageError, match="en to de is not a supported direction"):
            await task
        await slot.finish_old(5.0)

    models.run(exchange)


def test_stats_are_sums_and_name_each_model() -> None:
    models = Models("fr-en", "en-de")
    models["fr-en"].gate.clear()

    async def look(router: Router) -> None:
        task = asyncio.create_task(router.translate(request("One. Two.", source="fr", target="en")))
        while not models["fr-en"].waiting:
            await asyncio.sleep(0.001)
        assert router.stats().queue_sentences == 2
        assert router.stats().rows_total == 2 * 32
        assert {name: one.queue_sentences for name, one in router.stats_by_model().items()} == {
            "model-0": 2,
            "model-1": 0,
        }
        models["en-de"].alive = False
        assert not router.stats().alive
        models["fr-en"].release()
        await task

    models.run(look)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"name": "b", "directions": directions("fr-en+en-de")}, "a and b both translate en to de"),
        ({"name": "a", "directions": directions("fr-en")}, "two bundles are called a"),
    ],
)
def test_two_models_for_one_thing_are_refused(others: dict[str, Any], message: str) -> None:
    one = manifest(name="a")
    with pytest.raises(SettingError, match=message):
        check_together([one, manifest(**others)])
    check_together([one, manifest(name="b", directions=directions("de-en"))])


def test_there_is_room_while_one_model_has_some() -> None:
    models = Models("en-de", "de-en")

    async def check(router: Router) -> None:
        router.check_room(0)

    models["en-de"].max_queue_sentences = 0
    models.run(check)
    models["de-en"].max_queue_sentences = 0
    with pytest.raises(QueueFullError):
        models.run(check)
