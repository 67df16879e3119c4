"""Tags come back at the right words, all of them, well nested, whatever links and translations are."""

import re
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.service.text.protection import projection
from server.service.text.protection.projection import place_tags
from server.service.text.protection.writing import write
from server.service.text.segment import Segment, Span, Tag, Target


class Dictionary:
    """Links words that a list of pairs names, in order."""

    def __init__(self, pairs: str) -> None:
        self._pairs = [tuple(pair.split("=")) for pair in pairs.split()]

    def __call__(self, source_words: Sequence[str], target_words: Sequence[str]) -> list[tuple[int, int]]:
        return [
            (one, other)
            for one, word in enumerate(source_words)
            for other, theirs in enumerate(target_words)
            if (word, theirs) in self._pairs
        ]


class FixedLinks:
    def __init__(self, found: list[tuple[int, int]]) -> None:
        self._found = found

    def __call__(self, source_words: Sequence[str], target_words: Sequence[str]) -> list[tuple[int, int]]:
        return [
            (one % len(source_words), other % len(target_words))
            for one, other in self._found
            if source_words and target_words
        ]


TAG = re.compile(r"</?\w[^>]*>|\n")


def tagged(markup: str) -> Segment:
    """Make a segment of simple tags; those of `b i u` without id may repeat, `br` and `img` stand alone."""
    text, tags, open_tags, number = "", [], [], 0
    at = 0
    for match in TAG.finditer(markup):
        text += markup[at : match.start()]
        at = match.end()
        output = match.group()
        name = output.strip("</>\n").split(" ")[0]
        text += " " * (output == "\n")
        if name in ("br", "img", ""):
            tags.append(Tag(len(text), output))
        elif output[1] != "/":
            tags.append(Tag(len(text), output, number, True))
            open_tags.append((name, number))
            number += 1
        elif open_tags and open_tags[-1][0] == name:
            tags.append(Tag(len(text), output, open_tags.pop()[1]))
        else:
            tags.append(Tag(len(text), output, number))
            number += 1
    return Segment(text + markup[at:], (), tuple(tags), "html")


def project(source: str, target: str, pairs: str) -> str:
    segment, translation = tagged(source), Target(target)
    return write(target, (), place_tags(segment, translation, Dictionary(pairs)), "html")


@pytest.mark.parametrize(
    ("source", "pairs", "expected"),
    [
        ("By <b>May 15.</b> you must pay.", "By=Sie must=müssen pay=zahlen May=Mai 15=15",
         "Sie müssen zahlen <b>Mai 15</b>."),
        ("A <b>red</b> car.", "A=Ein red=rotes car=Auto", "Ein <b>rotes</b> Auto."),
        ("I have <i>never</i> seen him.", "I=Ich have=habe never=nie seen=gesehen him=ihn",
         "Ich habe ihn <i>nie</i> gesehen."),
        ("<b>Note:</b> The door", "Note=Hinweis The=Die door=Tür", "<b>Hinweis:</b> Die Tür"),
        ("<b>Note:</b> The door", "Note=Die The=Die door=Tür", "<b>Hinweis:</b> Die Tür"),
        ("<b>Note</b>: The door", "Note=Hinweis The=Die door=Tür", "<b>Hinweis</b>: Die Tür"),
        ("He said <q>I am tired</q>.",
         "He=Er said=sagte I=Ich am=bin tired=müde", "Er sagte <q>Ich bin müde</q>."),
        ("He said <q>\"Go!\"</q>.", "He=Er said=sagte Go=Geh", "Er sagte <q>„Geh!“</q>."),
        # Words without links follow their neighbors.
        ("<b>Good morning everyone</b>, Tom", "morning=Morgen everyone=allerseits",
         "<b>Guten Morgen allerseits</b>, Tom"),
        ("Take <a>the green line</a> now", "Take=Nimm green=grüne line=Linie now=jetzt",
         "Nimm jetzt <a>die grüne Linie</a>"),
        # Parted words.
        ("I <b>have bought</b> <i>last week</i> a car",
         "I=Ich have=habe bought=gekauft last=letzte week=Woche car=Auto",
         "Ich habe <i>letzte Woche</i> ein Auto <b>gekauft</b>"),
        ("I <a>bought</a> <i>last week</i> a car",
         "I=Ich bought=habe bought=gekauft last=letzte week=Woche car=Auto",
         "Ich habe <i>letzte Woche</i> ein Auto <a>gekauft</a>"),
        ("<b>She</b> forgot the old house", "She=Sie She=sie forgot=vergaß old=alte house=Haus",
         "<b>Sie</b> vergaß sie das alte Haus"),
        ("He <b>has gone</b> home",
         "He=Er has=ist gone=gegangen home=Hause", "Er <b>ist nach Hause gegangen</b>"),
        # Nesting is kept.
        ("<a><b>Visit</b> the garden</a> now", "Visit=Besuchen garden=Garten now=jetzt",
         "jetzt <a>den Garten <b>Besuchen</b></a>"),
        ("<a><b>x y</b></a>", "x=p", "<a><b>p q</b></a>"),
        # Nothing that had words is emptied.
        ("a <b>very</b> good <i>idea</i>", "a=eine good=gute idea=Idee", "eine <b>gute</b> <i>Idee</i>"),
        # Tags inside of words.
        ("We <b>sw</b>im today", "We=Wir swim=schwimmen today=heute", "Wir <b>schwimmen</b> heute"),
        ("A Wednes<img>day", "A=Ein Wednesday=Mittwoch", "Ein <img>Mittwoch"),
        ("See <b>Te</b>x now", "See=Siehe now=nun", "Siehe <b>Te</b>x nun"),
        ("3-<i>Berlin, Wien</i>", "3-Berlin=3-Berlin Wien=Wien", "3-<i>Berlin, Wien</i>"),
        # What stands alone.
        ("Look at <img> it, Tom", "Look=Sieh it=es at=an", "Sieh <img>es an, Tom"),
        ("A book<img> for <br>me", "A=Ein book=Buch me=mich for=für", "Ein Buch<img> für <br>mich"),
        ("Go <img>.", "Go=Geh", "Geh<img>."),
        ("Get 5 off<img> all shoes", "Get=Nur 5=5 all=alle shoes=Schuhe", "Nur 5<img> auf alle Schuhe"),
        ("<b>Go <img></b> home", "Go=Geh home=Hause", "nach Hause <b>Geh<img></b>"),
        ("Go <a id=x></a>home", "Go=Geh home=heim", "Geh <a id=x></a>heim"),
        # Elements that go on beyond the sentence.
        ("He <b>sings well", "He=Er sings=singt well=gut", "Er <b>singt gut"),
        ("He sings</b> well", "He=Er sings=singt well=gut", "Er singt</b> gut"),
        ("He sings.<b>", "He=Er sings=singt", "Er singt.<b>"),
        # What overlaps keeps its order.
        ("a <b>b <i>c</b> d</i>", "", "e <b>f <i>g</b> h</i>"),
        # Inner line breaks.
        ("He sings\nwell today", "He=Er sings=singt well=gut today=heute", "Heute\nsingt er gut"),
        ("a\nb\nc", "", "d\ne\nf"),
        ("Today <br>he <b>sings <br>well</b>", "Today=heute He=er sings=singt well=gut",
         "Er <br><b>singt <br>gut</b> heute"),
    ],
)  # fmt: skip
def test_tags_follow_their_words(source: str, pairs: str, expected: str) -> None:
    target = TAG.sub(lambda match: " " if match.group() == "\n" else "", expected)
    assert project(source, target, pairs) == expected


def test_spans_are_words_and_write_what_they_are() -> None:
    segment = Segment(
        "Ask Tom & Co for it",
        (Span(4, 12, "<code>Tom &amp; Co</code>"),),
        (Tag(4, "<b>", 0, True), Tag(12, "</b>", 0)),
        "html",
    )
    target = Target("Für es & mehr frag Tom & Co", (Span(19, 27, "<code>Tom &amp; Co</code>"),))
    placed = place_tags(segment, target, Dictionary("Ask=frag"))
    assert (
        write(target.text, target.spans, placed, "html")
        == "Für es &amp; mehr frag <b><code>Tom &amp; Co</code></b>"
    )


def test_what_holds_elements_stays_in_its_own() -> None:
    tags = (Tag(0, "<a>", 0, True), Tag(10, "</a>", 0))
    segment = Segment("Go there x now", (Span(9, 10, "<code>x</code>"),), tags)
    target = Target("Geh nun x dahin", (Span(8, 9, "<code>x</code>"),))
    placed = place_tags(segment, target, Dictionary("Go=Geh there=dahin now=nun"))
    assert write(target.text, target.spans, placed, "html") == "<a>Geh nun <code>x</code> dahin</a>"
    beside = Segment("Go there x now", segment.spans, (Tag(0, "<a>", 0, True), Tag(8, "</a>", 0)))
    placed = place_tags(beside, target, Dictionary("Go=Geh there=dahin now=nun"))
    assert write(target.text, target.spans, placed, "html") == "Geh nun <code>x</code> <a>dahin</a>"


NAMES = ("b", "i", "a", "u id=1")
PARTS = (*NAMES, "/", "<br>", "<img>", "\n", "un", "x", "yz", ",", " ", ".")


@st.composite
def sentences(draw: st.DrawFn) -> Segment:
    """Random words with well-nested elements, some of which have one tag in a neighboring sentence."""
    parts = draw(st.lists(st.sampled_from(PARTS), max_size=30))
    markup, names = "", []
    for part in parts:
        if part in NAMES:
            names.append(part.split()[0])
            markup += f"<{part}>"
        elif part == "/":
            if names:
                markup += f"</{names.pop()}>"
        else:
            markup += part if part[0] == "<" else f"{part} " if part in ("x", "un") else part
    if draw(st.booleans()):
        markup += "".join(f"</{name}>" for name in reversed(names))
    elif draw(st.booleans()):
        markup = f"{draw(st.sampled_from(['x ', '']))}</q>{markup}" if not names else markup
    return tagged(markup)


def check(segment: Segment, target: Target, links: list[tuple[int, int]]) -> None:
    placed = place_tags(segment, target, FixedLinks(links))
    before, after = Counter(segment.tags), Counter(tag for _, tag in placed)
    assert before == after
    parents = parents_of(list(segment.tags))
    assert parents_of([tag for _, tag in placed]) == parents
    assert re.sub(r"\s", "", TAG.sub("", write(target.text, target.spans, placed, "none"))) == re.sub(
        r"\s", "", target.text
    )
    words = [match.span() for match in re.finditer(r"\w+", target.text)]
    copied = set(re.findall(r"\w+", segment.text)) | {"unx", "xyz"}
    for offset, _ in placed:
        assert not any(start < offset < end and target.text[start:end] not in copied for start, end in words)


def parents_of(tags: list[Tag]) -> dict[Tag, set[int]]:
    """The pair around each tag; pairs that are open at the beginning are around all before their end."""
    begun = {tag.pair for tag in tags if tag.opens}
    stack = [-1, *dict.fromkeys(tag.pair for tag in reversed(tags) if tag.closes and tag.pair not in begun)]
    found: dict[Tag, set[int]] = {}
    for tag in tags:
        if tag.closes:
            assert stack.pop() == tag.pair
        if tag.output[0] == "<":
            found.setdefault(tag, set()).add(stack[-1])
        if tag.opens:
            stack.append(tag.pair)
    return found


TARGETS = st.lists(st.sampled_from(["un", "der", "x", "yz", "rot", ",", "."]), max_size=12).map(" ".join)
LINKS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=15)


@settings(max_examples=500)
@given(sentences(), TARGETS, LINKS)
def test_no_tag_is_lost_and_nesting_is_kept(
    segment: Segment, target: str, links: list[tuple[int, int]]
) -> None:
    check(segment, Target(target), links)


@pytest.mark.exhaustive
@settings(max_examples=10_000, deadline=None)
@given(sentences(), TARGETS, LINKS)
def test_no_tag_is_lost_in_ten_thousand_sentences(
    segment: Segment, target: str, links: list[tuple[int, int]]
) -> None:
    check(segment, Target(target), links)


@settings(max_examples=300)
@given(sentences(), TARGETS.filter(str.strip), LINKS)
def test_elements_decide_and_not_the_fall_back(
    segment: Segment, target: str, links: list[tuple[int, int]]
) -> None:
    def by_position(*_: object) -> list[tuple[int, Tag]]:
        raise AssertionError("tags were placed by position")

    kept, projection._by_position = projection._by_position, by_position
    try:
        place_tags(segment, Target(target), FixedLinks(links))
    finally:
        projection._by_position = kept


@pytest.mark.parametrize("unit", ["<b>x</b> ", "<b>", "x ", "<br>", "<b></b>", "<b><br>", "\nx "])
def test_long_sentences_take_little_time(unit: str) -> None:
    segment = tagged(unit * 5_000)
    started_s = time.thread_time()
    place_tags(segment, Target("y " * 5_000))
    assert time.thread_time() - started_s < 10
