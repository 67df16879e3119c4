"""Explained translations, by a shipped model."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.errors import InvalidOptionError
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import request_limits
from server.service.text.codec import Reading, TextCodec, TextTranslation
from server.service.text.explanation.requirements import check_explanations
from server.service.text.model_text import Measured
from server.service.text.options import TextOptions, Way
from server.service.translation.decoding_options import choose_each, with_token_scores
from server.service.translation.request import RequestedOptions
from server.settings import Settings

Explain = Callable[..., TextTranslation]
MARKUP = (
    "<p>Hello {name}, this is a <b>red</b> car. 😀</p><ul><li>caf&eacute; &amp; tea are <i>good</i></li></ul>"
    '<img alt="A red car on the very long road to the city"><p>It is <code>x</code> good.</p>'
)


@pytest.fixture(scope="module")
def model(repository: Path) -> Iterator[ServedModel]:
    """The shipped model without the graph of its attention."""
    loaded = load_model(Settings(bundle=(repository / "bundles" / "en-de",)), NullObserver())
    yield replace(loaded, measured=replace(loaded.measured, attention=None))
    loaded.engine.close(0.0)


@pytest.fixture(scope="module")
def explain(model: ServedModel) -> Explain:
    limits = request_limits(Settings(), model.manifest)
    codec = TextCodec(text_side(model, limits), limits)

    def translated(
        text: str, *, is_html: bool = False, keep: bool = True, beam_size: int = 1
    ) -> TextTranslation:
        reading = Reading(TextOptions(alignments=True, confidence=True), is_html=is_html)
        way = Way("en", "de", model.manifest.framing("en", "de"), keep=keep)
        document = codec.read([text], way, reading)
        while document.inputs:
            ids = [one.ids for one in document.inputs]
            options = choose_each(RequestedOptions(beam_size=beam_size), limits, document.inputs)
            if keep:
                options = with_token_scores(options)
            document.resume([one.result() for one in model.engine.submit("test", ids, options)])
        texts = document.translations(1)
        return codec.explained([text], document, texts, reading)[0] if keep else texts[0]

    return translated


def pairs(text: str, translation: TextTranslation) -> list[tuple[str, str]]:
    source, target = text.encode(), translation.hypotheses[0].encode()
    return [
        (source[slice(*one.source)].decode(), target[slice(*one.target)].decode())
        for one in translation.explanation.alignments
    ]


def test_words_are_aligned_with_those_that_stand_for_them(explain: Explain) -> None:
    text = "The red car is very fast."
    assert pairs(text, explain(text)) == [
        ("The", "Das"),
        ("red", "rote"),
        ("car", "Auto"),
        ("is", "ist"),
        ("very", "sehr"),
        ("fast", "schnell"),
        (".", "."),
    ]


def test_ranges_are_those_of_the_clients_text(explain: Explain) -> None:
    text = (
        "\ufeff- She  gave him\nthe book yesterday! 😀 Tom likes https://a.b/ü and tea.\n\n  I have 3 cars."
    )
    found = pairs(text, explain(text))
    wanted = {("yesterday", "gestern"), ("https://a.b/ü",) * 2, ("tea", "Tee"), ("cars", "Autos"), ("3", "3")}
    assert wanted <= set(found)
    assert found.count((".", ".")) == 2


def test_ranges_are_those_of_the_clients_markup(explain: Explain) -> None:
    found = pairs(MARKUP, explain(MARKUP, is_html=True))
    wanted = {("red", "rotes"), ("{name}", "{name}"), ("tea", "Tee"), ("<code>x</code>",) * 2}
    assert wanted <= set(found)
    assert ("long", "langen") not in found  # values of attributes are translated, not explained


@pytest.mark.parametrize(
    ("text", "is_html"), [(MARKUP, True), ("One. Two {x}!\n\n- three", False), ("", False)]
)
def test_the_translation_is_the_same_with_and_without(explain: Explain, text: str, is_html: bool) -> None:
    with_it, without = explain(text, is_html=is_html), explain(text, is_html=is_html, keep=False)
    assert with_it.hypotheses == without.hypotheses
    assert not without.explanation.alignments
    assert not without.explanation.confidence.words


@settings(max_examples=15)
@given(
    st.lists(
        st.sampled_from(
            [
                "the red car",
                "Tom",
                "<b>big</b>",
                "&amp;",
                "{x}",
                "é",
                "\n",
                "  ",
                "😀",
                "12.5 km",
                "**very**",
                "?",
            ]
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_every_range_is_a_part_of_its_text(explain: Explain, parts: list[str], is_html: bool) -> None:
    """It decodes as UTF-8, holds something, and its weight is one."""
    text = " ".join(parts)
    translation = explain(text, is_html=is_html)
    for one, (source, target) in zip(
        translation.explanation.alignments, pairs(text, translation), strict=True
    ):
        assert source.strip()
        assert target.strip()
        assert 0 <= one.weight <= 1
    target, confidence = translation.hypotheses[0].encode(), translation.explanation.confidence
    for part in (*confidence.sentences, *confidence.words):
        assert target[slice(*part.target)].decode().strip()
        assert 0 <= part.confidence <= 1


def confidence_by_word(translation: TextTranslation) -> dict[str, float]:
    target = translation.hypotheses[0].encode()
    words = translation.explanation.confidence.words
    return {target[slice(*one.target)].decode(): one.confidence for one in words}


@pytest.mark.parametrize("beam_size", [1, 4])
def test_words_have_the_confidence_that_was_observed(explain: Explain, beam_size: int) -> None:
    """What the model knows by heart is surer than what it has to guess."""
    translation = explain("Tom has two cars.\nThe gnarly zeugma flummoxed him.", beam_size=beam_size)
    first, second = translation.explanation.confidence.sentences
    assert first.confidence > second.confidence + 0.1
    words = confidence_by_word(translation)
    assert min(words["Tom"], words["zwei"], words["Autos"]) > 0.7
    assert min(words.values()) < 0.4


def test_what_the_model_did_not_write_has_no_confidence(explain: Explain) -> None:
    words = confidence_by_word(explain("<b>Hello</b> {name}, I have 12.5 km.", is_html=True))
    assert {"Hallo", "habe"} <= words.keys()
    assert not {"{name}", "name", "12.5", "km"} & words.keys()
    assert explain("{name}").explanation.confidence.sentences == ()


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_token_scores_add_up_to_the_score(model: ServedModel, beam_size: int) -> None:
    """In any batch, whether or not others ask for theirs, and they change nothing."""
    texts = ["Tom has two cars.", "I do not know him.", "Why?", "The weather is very bad today, isn't it?"]
    suffix = model.manifest.framing("en", "de").source_suffix
    ids = [(*model.tokenizer.encode(text), *suffix) for text in texts]
    plain = DecodingOptions(beam_size=beam_size, num_hypotheses=beam_size, return_scores=True)
    asked = replace(plain, return_token_scores=True)
    submit = model.engine.submit
    alone = [submit("alone", [one], asked)[0].result() for one in ids]
    mixed = [one.result() for one in submit("mixed", ids, [asked, plain, asked, plain])]
    without = [one.result() for one in submit("without", ids, plain)]
    for place, (one, other, bare) in enumerate(zip(alone, mixed, without, strict=True)):
        assert one.hypotheses == other.hypotheses or place % 2
        for hypothesis, expected in zip(one.hypotheses, bare.hypotheses, strict=True):
            assert (hypothesis.tokens, hypothesis.score) == (expected.tokens, expected.score)
            assert expected.token_scores == ()
            assert len(hypothesis.token_scores) == len(hypothesis.tokens) + 1  # the end token's
            mean = sum(hypothesis.token_scores) / len(hypothesis.token_scores)
            assert mean == pytest.approx(hypothesis.score, abs=1e-4)
            assert max(hypothesis.token_scores) <= 0


def test_forced_tokens_cost_nothing(model: ServedModel) -> None:
    ids = (*model.tokenizer.encode("Tom has two cars."), *model.manifest.framing("en", "de").source_suffix)
    (prefix,) = model.tokenizer.encode_target_batch(["Der Tom"])
    for beam_size in (1, 4):
        options = DecodingOptions(beam_size, target_prefix=tuple(prefix), return_token_scores=True)
        (best,) = model.engine.submit("forced", [ids], options)[0].result().hypotheses
        assert best.tokens[: len(prefix)] == tuple(prefix)
        assert set(best.token_scores[: len(prefix)]) == {0.0}
        assert min(best.token_scores[len(prefix) :]) < 0


def test_without_tables_nothing_is_invented() -> None:
    check_explanations(TextOptions(), Measured())
    with pytest.raises(InvalidOptionError, match="alignments"):
        check_explanations(TextOptions(alignments=True), Measured())
    with pytest.raises(InvalidOptionError, match="not calibrated"):
        check_explanations(TextOptions(confidence=True), Measured())


def test_a_draw_has_no_confidence(model: ServedModel) -> None:
    check_explanations(TextOptions(confidence=True), model.measured)
    with pytest.raises(InvalidOptionError, match="draw"):
        check_explanations(TextOptions(confidence=True), model.measured, samples=True)


@pytest.fixture(scope="module")
def with_attention(repository: Path) -> Iterator[ServedModel]:
    loaded = load_model(Settings(bundle=(repository / "bundles" / "en-de",)), NullObserver())
    yield loaded
    loaded.engine.close(0.0)


def translated(model: ServedModel, text: str, options: TextOptions) -> TextTranslation:
    limits = request_limits(Settings(), model.manifest)
    codec, reading = TextCodec(text_side(model, limits), limits), Reading(options)
    way = Way("en", "de", model.manifest.framing("en", "de"), keep=True)
    document = codec.read([text], way, reading)
    while document.inputs:
        ids = [one.ids for one in document.inputs]
        chosen = choose_each(RequestedOptions(), limits, document.inputs)
        document.resume([one.result() for one in model.engine.submit("test", ids, chosen)])
    return codec.explained([text], document, document.translations(1), reading)[0]


def test_attention_looks_at_the_words_that_are_translated(with_attention: ServedModel) -> None:
    text = "THE RED CAR is very fast.  Tom bought 3 dogs in Xyzzyx!"
    found = translated(with_attention, text, TextOptions(attention=True))
    first, second = found.explanation.attention
    assert found.hypotheses[0].encode()[slice(*second.target)].decode().startswith("Tom")
    for look in (first, second):
        assert look.weights.shape == (len(look.target_pieces), len(look.source_pieces))
        assert np.allclose(look.weights.sum(axis=1), 1, atol=1e-4)
        assert look.source_pieces[-1] == "</s>"
    seen = {
        piece: second.source_pieces[best]
        for piece, best in zip(second.target_pieces, second.weights.argmax(axis=1), strict=True)
    }
    (dogs,) = [piece for piece in seen if piece.startswith("\u2581Hund")]
    assert seen["\u2581Tom"] == "\u2581Tom"
    assert seen[dogs].startswith("\u2581dog")
    assert not found.explanation.alignments


def test_attention_and_tables_align_together(with_attention: ServedModel, explain: Explain) -> None:
    """What the tables are sure of stays; in a sentence with a doubt, the model has its say."""
    sure, doubtful = "The red car is fast.", "It's cloudy today."
    options = TextOptions(alignments=True)
    assert pairs(sure, translated(with_attention, sure, options)) == pairs(sure, explain(sure))
    both, tables = translated(with_attention, doubtful, options), explain(doubtful)
    assert both.hypotheses == tables.hypotheses
    assert ("cloudy", "bewölkt") in pairs(doubtful, both)
    assert ("cloudy", "bewölkt") not in pairs(doubtful, tables)


def test_without_its_graph_attention_is_refused(model: ServedModel, with_attention: ServedModel) -> None:
    check_explanations(TextOptions(attention=True), with_attention.measured)
    with pytest.raises(InvalidOptionError, match="attention: this model has no graph"):
        check_explanations(TextOptions(attention=True), model.measured)


def test_an_answer_of_too_many_weights_is_refused(
    with_attention: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.service.text.explanation.attention.MAX_CELLS", 50)
    with pytest.raises(InvalidOptionError, match="the most is 50"):
        translated(with_attention, "The red car is very fast.", TextOptions(attention=True))
