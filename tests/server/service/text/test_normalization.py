"""Invisible and look-alike characters become usual ones, spans keep theirs, and offsets stay right."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.normalization import fold_spaces, normalize, spell_out
from server.service.text.segment import Segment, Span, Tag


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e\u0301te\u0301", "été"),
        ("co\u00adoperate", "cooperate"),
        ("a\u200bb\u2060c\ufeff", "abc"),
        ("\u202eabc\u202c \u200fd", "abc d"),
        ("a\x00b\x1bc\x7f", "abc"),
        ("\ufb01ne o\ufb03ce", "fine office"),
        ("\uff28\uff45\uff4c\uff4c\uff4f\uff01", "Hello!"),
        ("\U0001d5d9\U0001d5ff\U0001d5f2\U0001d5f2 tea \u24b6", "Free tea A"),
        ("p\u0430yp\u0430l", "paypal"),
        ("W\u043erld", "World"),
        ("m\u0443 dog", "my dog"),
        ("\u03a4om", "Tom"),
        ("soooo coooool", "so col"),
        ("Nooooo!!!!", "No!!!!"),
        ("aaaa bbb", "aaaa bbb"),
        ("N-n-no, I-I-I can't, D-Day, a t-test, a-a-a-b", "No, I can't, D-Day, a t-test, a-a-a-b"),
        ("1000000 and 0.0001", "1000000 and 0.0001"),
        ("❤\ufe0f", "❤"),
        ("a\tb\nc", "a\tb\nc"),
        ("q\u0307\u0323x", "q\u0323\u0307x"),
    ],
)
def test_what_readers_do_not_see_is_gone(text: str, expected: str) -> None:
    assert normalize(Segment(text), len).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "Hello there.",
        "Привет мир",
        "ελληνικά",
        "Москва and Wien",
        "日本語",
        "naïve",
        "still",
        "",
        "50 €",
        "да",
        "x\u0434",
    ],
)
def test_usual_text_is_the_same_object(text: str) -> None:
    segment = Segment(text)
    assert normalize(segment, len) is segment


@pytest.mark.parametrize(("known", "expected"), [("so", "so good"), ("soo", "soo good")])
def test_the_model_chooses_how_a_long_word_is_short(known: str, expected: str) -> None:
    assert normalize(Segment("sooooo good"), lambda word: 1 if word == known else len(word)).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "World War III ended.",
        "Henry VIII and Louis XVIII",
        "Article 5(b)(iii)",
        "AAA and AAAA batteries",
        "IEEE 802.11, size XXXL, www",
        "Schifffahrt und Betttuch",
    ],
)
def test_three_letters_may_be_meant(text: str) -> None:
    assert normalize(Segment(text), len).text == text


def test_three_letters_of_a_usual_word_are_too_many() -> None:
    usual = {"so", "What", "No"}
    found = normalize(Segment("sooo Whaaat Nooo"), lambda word: 1 if word in usual else 2)
    assert found.text == "so What No"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello,how are you?", "Hello, how are you?"),
        ("Wait!what?who;me", "Wait! what? who; me"),
        ("Fish&Chips, AT&T, R&D", "Fish & Chips, AT&T, R&D"),
        ("Yes,I left(it was late), article(s)", "Yes, I left (it was late), article(s)"),
        ("1,5 and a,b and x!=y and Ab,C", "1,5 and a,b and x!=y and Ab,C"),
    ],
)
def test_a_mark_between_words_has_its_space(text: str, expected: str) -> None:
    assert normalize(Segment(text), len).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my son—he is ten—and I", "my son — he is ten — and I"),
        ('a house--it is old--and a)---"b"', 'a house -- it is old -- and a) --- "b"'),
        ("¿Sí? —dijo él—. Yo —que soy Ana—, no", "¿Sí? — dijo él —. Yo — que soy Ana —, no"),
        (
            "—Sí, 1950—2020, --force, well-known, a — b, a -- b",
            "—Sí, 1950—2020, --force, well-known, a — b, a -- b",
        ),
    ],
)
def test_a_dash_stands_between_spaces(text: str, expected: str) -> None:
    assert normalize(Segment(text), len).text == expected


@pytest.mark.parametrize("text", ["a\u00a0b", "a \u2003 b", "a\n\n b", "a\u3000b", "a  b", "a \t b"])
def test_white_space_is_one_space(text: str) -> None:
    assert fold_spaces(Segment(text)).text == "a b"


PIECES = st.sampled_from(
    ["a", "word", "soooo", "e\u0301", "\u0301", "\u00ad", "\u200b", "\u202e", "\x00", "\ufb01", "\uff21",
     "p\u0430y", "\u0430", "Ж", " ", "\u00a0", "  ", "\n", "😀", "\ufe0f", "語", "1", "."]
)  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    text = "".join(draw(st.lists(PIECES, max_size=16)))
    ends = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    spans = tuple(Span(start, end) for start, end in zip(ends[::2], ends[1::2], strict=False))
    tags = tuple(
        Tag(at, f"<{n}>")
        for n, at in enumerate(sorted(draw(st.lists(st.integers(0, len(text)), max_size=4))))
    )
    return Segment(text, spans, tags)


@given(segments())
def test_spans_keep_their_characters_and_tags_their_order(segment: Segment) -> None:
    for changed in (normalize(segment, len), fold_spaces(segment)):
        assert [changed.text[span.start : span.end] for span in changed.spans] == [
            segment.text[span.start : span.end] for span in segment.spans
        ]
        assert [tag.output for tag in changed.tags] == [tag.output for tag in segment.tags]
        places = [0, *(tag.at for tag in changed.tags), len(changed.text)]
        assert places == sorted(places)


@given(segments())
def test_what_is_normal_stays(segment: Segment) -> None:
    once = normalize(Segment(segment.text), len)
    assert not any(unicodedata.category(one) in ("Cc", "Cf") and one not in "\t\n" for one in once.text)
    folded = fold_spaces(once)
    assert fold_spaces(folded) is folded
    assert "  " not in folded.text


@given(
    st.lists(st.sampled_from(["ab", "\u00ad", "\u200b", " "]), max_size=12).map("".join), st.integers(0, 20)
)
def test_a_tag_stays_between_its_letters(text: str, place: int) -> None:
    at = min(place, len(text))
    changed = normalize(Segment(text, (), (Tag(at, "<b>"),)), len)
    letters = [one for one in text[:at] if one in "ab"]
    assert [one for one in changed.text[: changed.tags[0].at] if one in "ab"] == letters


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Es ist z. B. hier, d.h. dort.", "Es ist zum Beispiel hier, das heißt dort."),
        ("de", "Z.B. Nr. 5 (evtl. drei)", "Zum Beispiel Nummer 5 (eventuell drei)"),
        ("en", "a file (e.g. if it is new)", "a file (for example if it is new)"),
        ("fr", "une ville, p. ex. Lyon", "une ville, par exemple Lyon"),
        ("es", "una ciudad, p. ej. Soria", "una ciudad, por ejemplo Soria"),
        ("de", "Er ist z. Zt. hier", "Er ist zurzeit hier"),
        ("es", "En EE. UU. hay", "En Estados Unidos hay"),
        ("es", "La Sra. Ruiz; Avda. Sol", "La señora Ruiz; avenida Sol"),
        ("fr", "Tél. : non, av. Foch", "Téléphone : non, avenue Foch"),
        ("de", "Im 19. Jh. war", "Im 19. Jahrhundert war"),
        ("de", "zzgl. MwSt. und", "zuzüglich Mehrwertsteuer und"),
        ("de", "Das ist es bzw.", "Das ist es bzw."),  # the full stop may be the sentence's
        ("de", "www.z.b. Dr. Ab", "www.z.b. Dr. Ab"),
        ("pl", "np. z. B. to", "np. z. B. to"),
    ],
)
def test_abbreviations_that_a_model_would_spell_are_written_out(
    language: str, text: str, expected: str
) -> None:
    assert spell_out(Segment(text), language, len).text == expected
    assert spell_out(Segment(text), language, lambda _: 1).text == text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Order no. 4711 is No. 5.", "Order number 4711 is Number 5."),
        ("en", "No. 5 is it. Oh? No. 2 broke. No, not No.", "Number 5 is it. Oh? No. 2 broke. No, not No."),
        (
            "en",
            "On Sept. 5 or Dec. 3, ask Jan. He is in.",
            "On September 5 or December 3, ask Jan. He is in.",
        ),
        ("de", "Es hat ca. 5 m, mind. 3 m, ca.", "Es hat etwa 5 m, mindestens 3 m, ca."),
        ("en", "Tell no. 12 to wait, no.", "Tell number 12 to wait, no."),
        ("en", "Oh no. 2 broke. He said no. 5 left.", "Oh no. 2 broke. He said no. 5 left."),
        ("en", "tea w/o sugar, w/ milk (w/ice)", "tea without sugar, with milk (with ice)"),
        ("en", "4-6 hrs or so; a km/h; 4 hrs. or 3 hrs.", "4-6 hours or so; a km/h; 4 hrs. or 3 hours."),
        ("en", "no.5", "number 5"),
        ("fr", "la facture n° 12, N°3 ; 5 °C", "la facture numéro 12, Numéro 3 ; 5 °C"),
        ("es", "el n.º 12 y el nº 3 del s. XX", "el número 12 y el número 3 del siglo XX"),
        ("es", "3.º B, págs. XX", "3.º B, págs. XX"),
        ("de", "no. 5", "no. 5"),
        ("de", "Kolleg*innen, Kund:innen und Ärzt_innen", "Kolleginnen, Kundinnen und Ärztinnen"),
        ("de", "MitarbeiterInnen bei LinkedIn", "Mitarbeiterinnen bei LinkedIn"),
        ("de", "Bürger/-innen, eine/n Lehrer/in", "Bürgerinnen, eine Lehrerin"),
        ("de", "Jede*r und ein*e gute:r", "Jede und eine gute"),
        ("de", "check:in log_in Öl:ein um 8:r", "check:in log_in Öl:ein um 8:r"),
    ],
)
def test_what_is_short_beside_a_number_is_written_out(language: str, text: str, expected: str) -> None:
    assert spell_out(Segment(text), language, lambda _: 1).text == expected


def test_what_is_written_out_stays_in_its_element() -> None:
    segment = Segment("Order no. 5", tags=(Tag(6, "<b>", 0, opens=True), Tag(9, "</b>", 0)))
    assert [tag.at for tag in spell_out(segment, "en", len).tags] == [6, 12]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("It is infor-", "mation."), "It is information."),
        (("A well-", "known man."), "A well-known man."),
        (("Die Nord-", "und Ostsee."), "Die Nord- und Ostsee."),
        (("Anna-", "Lena ist da."), "Anna- Lena ist da."),
        (("We know it -", "or do we?"), "We know it - or do we?"),
    ],
)
def test_a_word_parted_at_the_end_of_a_line_is_whole(lines: tuple[str, str], expected: str) -> None:
    first, second = lines
    segment = Segment(f"{first} {second}", tags=(Tag(len(first) + 1, "\n"),))
    known = {"information": 1, "wellknown": 3, "well-known": 3}
    assert normalize(segment, lambda word: known.get(word, 4)).text == expected
    assert normalize(Segment(f"{first} {second}"), lambda word: 1).text == f"{first} {second}"  # no break
