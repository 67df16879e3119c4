"""Explained translations, by a shipped model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.engine.observer import NullObserver
from server.errors import InvalidOptionError
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import request_limits
from server.service.text.codec import Reading, TextCodec, TextTranslation
from server.service.text.explanation.requirements import check_explanations
from server.service.text.model_text import Measured
from server.service.text.options import TextOptions
from server.service.text.sentences import Way
from server.service.translation.decoding_options import choose_each
from server.service.translation.request import RequestedOptions
from server.settings import Settings

Explain = Callable[..., TextTranslation]
MARKUP = (
    "<p>Hello {name}, this is a <b>red</b> car. 😀</p><ul><li>caf&eacute; &amp; tea are <i>good</i></li></ul>"
    '<img alt="A red car on the very long road to the city"><p>It is <code>x</code> good.</p>'
)


@pytest.fixture(scope="module")
def model(repository: Path) -> Iterator[ServedModel]:
    loaded = load_model(Settings(bundle=(repository / "bundles" / "en-de",)), NullObserver())
    yield loaded
    loaded.engine.close(0.0)


@pytest.fixture(scope="module")
def explain(model: ServedModel) -> Explain:
    limits = request_limits(Settings(), model.manifest)
    codec = TextCodec(text_side(model, limits), limits)

    def translated(text: str, *, is_html: bool = False, keep: bool = True) -> TextTranslation:
        reading = Reading(TextOptions(alignments=True), is_html=is_html)
        way = Way("en", "de", model.manifest.framing("en", "de"), keep=keep)
        document = codec.read([text], way, reading)
        while document.inputs:
            ids = [one.ids for one in document.inputs]
            options = choose_each(RequestedOptions(), limits, document.inputs)
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
    wanted = {("red", "rotes"), ("{name}", "{name}"), ("caf&eacute;", "Café"), ("<code>x</code>",) * 2}
    assert wanted <= set(found)
    assert ("long", "langen") not in found  # values of attributes are translated, not explained


@pytest.mark.parametrize(
    ("text", "is_html"), [(MARKUP, True), ("One. Two {x}!\n\n- three", False), ("", False)]
)
def test_the_translation_is_the_same_with_and_without(explain: Explain, text: str, is_html: bool) -> None:
    with_it, without = explain(text, is_html=is_html), explain(text, is_html=is_html, keep=False)
    assert with_it.hypotheses == without.hypotheses
    assert not without.explanation.alignments


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


def test_without_tables_nothing_is_invented() -> None:
    check_explanations(TextOptions(), Measured())
    with pytest.raises(InvalidOptionError, match="alignments"):
        check_explanations(TextOptions(alignments=True), Measured())
