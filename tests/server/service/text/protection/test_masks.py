"""Masks stand for spans and become them again, wherever a model puts them; nothing else is taken for one."""

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from server.service.text.protection.masks import DEFAULT_MASKS, between, masked, masks_for, unmasked
from server.service.text.segment import Segment, Span

PARTS = st.text("ab PHQX1.2{}é", max_size=6)
TEMPLATES = st.sampled_from(DEFAULT_MASKS)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Text around one to five spans, which touch no letters, as patterns make them."""
    text, spans = draw(PARTS), []
    for kept in draw(
        st.lists(st.sampled_from(["{x}", "PH1", "%s", "Q7", "12:30", "é", "PH1PH2"]), min_size=1, max_size=5)
    ):
        text += " "
        spans.append(Span(len(text), len(text) + len(kept), draw(st.sampled_from([None, "<b>"]))))
        text += kept + " " + draw(PARTS)
    return Segment(text, tuple(spans))


@given(segments(), TEMPLATES)
def test_masks_are_different_and_not_in_the_text(segment: Segment, template: str) -> None:
    masks = masks_for(segment.text, len(segment.spans), template)
    assert len(set(masks)) == len(masks) == len(segment.spans)
    assert not any(mask in segment.text for mask in masks)


@given(segments(), TEMPLATES)
def test_what_is_masked_and_unmasked_is_the_text(segment: Segment, template: str) -> None:
    masks = masks_for(segment.text, len(segment.spans), template)
    text = masked(segment, masks)
    assert all(text.count(mask) >= 1 for mask in masks)
    assume(all(text.count(mask.rstrip("0123456789")) == len(masks) for mask in masks))
    target = unmasked(text, segment, masks)
    assert target is not None
    assert (target.text, target.spans) == (segment.text, segment.spans)


@given(segments(), TEMPLATES, st.data())
def test_spans_follow_their_masks_in_any_order(segment: Segment, template: str, data: st.DataObject) -> None:
    masks = masks_for(segment.text, len(segment.spans), template)
    order = data.draw(st.permutations(range(len(masks))))
    words = data.draw(
        st.lists(st.sampled_from(["ja", "12.", "é,", "(b)"]), min_size=len(masks), max_size=len(masks))
    )
    output = " ".join(f"{word} {masks[n]}" for word, n in zip(words, order, strict=True))
    target = unmasked(output, segment, masks)
    assert target is not None
    kept = [segment.text[segment.spans[n].start : segment.spans[n].end] for n in order]
    assert [target.text[span.start : span.end] for span in target.spans] == kept
    assert [span.output for span in target.spans] == [segment.spans[n].output for n in order]
    assert target.text == " ".join(f"{word} {own}" for word, own in zip(words, kept, strict=True))


@given(segments(), TEMPLATES, st.data())
def test_a_mask_that_is_lost_or_doubled_is_noticed(
    segment: Segment, template: str, data: st.DataObject
) -> None:
    masks = masks_for(segment.text, len(segment.spans), template)
    chosen = data.draw(st.sampled_from(masks))
    rest = [mask for mask in masks if mask != chosen]
    assert unmasked(" ".join(["ja", *rest]), segment, masks) is None
    assert unmasked(" ".join(["ja", *masks, chosen]), segment, masks) is None


@pytest.mark.parametrize(
    "output",
    [
        "Nimm PH1 und PH2 und PH3.",  # one that nobody asked for
        "Nimm PH1 und PH22.",
        "Nimm PH1 und PH12.",
        "Nimm xPH1 und PH2.",
        "Nimm ph1 und PH2.",
        "Nimm PH 1 und PH2.",
        "",
    ],
)
def test_what_looks_like_a_mask_is_none(output: str) -> None:
    segment = Segment("Take {a} and {b}.", (Span(5, 8), Span(13, 16)))
    assert unmasked(output, segment, ["PH1", "PH2"]) is None


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("%s", "%s's Profil"),
        (":name", ":name's Profil"),
        ("@ana_k", "@ana_k's Profil"),
        ("a.example", "a.example's Profil"),
        ("{name}", "{name}s Profil"),
        ("Ana Ruiz", "Ana Ruizs Profil"),
        ("Board", "Boards Profil"),
        ("5 km", "5 kms Profil"),
    ],
)
def test_an_ending_lengthens_no_placeholder(kept: str, expected: str) -> None:
    target = unmasked("PH1s Profil", Segment(kept, (Span(0, len(kept)),)), ["PH1"])
    assert target is not None and target.text == expected
    (span,) = target.spans
    assert target.text[span.start : span.end] == kept


@pytest.mark.parametrize(
    ("output", "expected"),
    [("Um PH1. Mai", "Um 5 p.m. Mai"), ("Um PH1.", "Um 5 p.m."), ("PH1...", "5 p.m....")],
)
def test_a_stop_of_a_span_is_not_doubled(output: str, expected: str) -> None:
    target = unmasked(output, Segment("5 p.m.", (Span(0, 6),)), ["PH1"])
    assert target is not None and target.text == expected


@pytest.mark.parametrize("output", ["Nimm PH1, PH2!", "(PH2)PH1", "PH1-PH2", "PH2/PH1 3", "PH1PH2"])
def test_marks_and_masks_may_touch(output: str) -> None:
    segment = Segment("Take {a} and {b}.", (Span(5, 8), Span(13, 16)))
    target = unmasked(output, segment, ["PH1", "PH2"])
    assert target is not None
    assert target.text == output.replace("PH1", "{a}").replace("PH2", "{b}")


def test_a_mask_of_the_source_itself_is_never_used() -> None:
    assert masks_for("PH1 and PH3 of {x}, {y}", 2, "PH{n}") == ["PH2", "PH4"]


@given(segments())
def test_parts_between_are_the_text(segment: Segment) -> None:
    parts = between(segment)
    assert (
        "".join(
            segment.text[part.start : part.end] if isinstance(part, Span) else part.text for part in parts
        )
        == segment.text
    )
    assert tuple(part for part in parts if isinstance(part, Span)) == segment.spans
    assert all(part.text and not part.spans and not part.tags for part in parts if isinstance(part, Segment))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sur « {x} ».", ["sur ", "«", " ", "{x}", " ", "»", "."]),
        ("a (b {x}) (c)", ["a ", "(", "b ", "{x}", ")", " ", "(", "c", ")"]),
        ("a (b) {x} „c“ d", ["a (b) ", "{x}", " „c“ d"]),
    ],
)
def test_quotes_and_brackets_around_a_span_are_no_text(text: str, expected: list[str]) -> None:
    at = text.index("{x}")
    parts = between(Segment(text, (Span(at, at + 3),)))
    assert [part.text if isinstance(part, Segment) else "{x}" for part in parts] == expected


@pytest.mark.parametrize("output", ["Er Xavierer1 PH1.", "PH1 und CH1", "Servier1 serviert, PH1"])
def test_what_a_garbled_mask_leaves_behind_is_noticed(output: str) -> None:
    segment = Segment("See {x} there.", (Span(4, 7),))
    assert unmasked(output, segment, ["PH1"]) is None
    assert unmasked("PH1 ist da.", segment, ["PH1"]) is not None


def test_words_with_digits_of_the_source_are_no_masks() -> None:
    segment = Segment("See {x} on mp3.", (Span(4, 7),))
    target = unmasked("PH1 auf mp3.", segment, ["PH1"])
    assert target is not None and target.text == "{x} auf mp3."


def test_a_mask_that_is_a_span_of_the_source_does_not_come_twice() -> None:
    """Models that learned masks may write one that they were not given, which stands in the source."""
    segment = Segment("See {x} and PH1.", (Span(4, 7), Span(12, 15)))
    assert unmasked("Sieh XX1 und XX2 PH1.", segment, ["XX1", "XX2"]) is None
    target = unmasked("Sieh XX1 und XX2.", segment, ["XX1", "XX2"])
    assert target is not None and target.text == "Sieh {x} und PH1."


def test_time_is_linear() -> None:
    def seconds(count: int) -> float:
        output = "PH1 " + "ab" * count
        times = []
        for _ in range(3):
            began = time.thread_time()
            unmasked(output, Segment("{x}", (Span(0, 3),)), ["PH1"])
            times.append(time.thread_time() - began)
        return min(times)

    # Eight times the text in 64 times the time would be quadratic.
    assert seconds(16_000) < 24 * max(seconds(2_000), 1e-3)
