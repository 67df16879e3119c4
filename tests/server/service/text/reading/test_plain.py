"""Plain text becomes blocks, and comes back byte for byte."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.reading.plain import read_plain
from server.service.text.segment import Segment

BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
PIECES = st.sampled_from([
    "a", "Be", "the ", "word", ". ", "! ", ", ", "\n", "\n", "\r\n", "\u2028", " ", "  ", "\t", "    ",
    "\u00a0", "- ", "* ", "1. ", "a) ", "# ", "## ", "> ", ">> ", "[x] ", "• ", "|", " | ", "---",
    "```", "~~~", "$$", "**", "*", "_", "__", "~~", "`", "``", "[", "]", "](u)", "![", '](a "t")',
    "[^1]", "[r]: x", "][r]", '\\', "<b>", "</b>", "<x id='1'/>", "<g id='1'>", "</g>", "<code>",
    "</code>", "<!--", "-->", "<li>", "<u@v.w>", "1\n00:00:01,000 --> 00:00:02,000\n", "WEBVTT\n",
    "NOTE x", "{\\i1}", "{\\i0}", "♪ ", "[12:01] Al: ", "key=", "key: ", '"k": "v",', '{"a": "b c"}',
    'msgid "a"', "a,b,c", "é", "e\u0301", "😀", "語。", "\ufeff",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=30).map("".join)


def written(segment: Segment) -> str:
    """Write a segment as it was: the inverse of reading."""
    parts: list[str] = []
    events = [(tag.at, 0, tag.at, tag.output) for tag in segment.tags]
    events += [
        (span.start, 1, span.end, span.output or segment.text[span.start : span.end])
        for span in segment.spans
    ]
    position = 0
    for start, _, end, output in sorted(events, key=lambda event: event[:2]):
        parts.append(segment.text[position:start])
        if output.lstrip(" \t\xa0\u3000\ufeff")[:1] in tuple(BREAKS) and parts[-1][-1:] == " ":
            parts[-1] = parts[-1][:-1]
        parts.append(output)
        position = end
    return "".join([*parts, segment.text[position:]])


def blocks(text: str, *, every_line: bool = False) -> list[str]:
    return [part.text for part in read_plain(text, every_line=every_line) if isinstance(part, Segment)]


@given(TEXTS, st.booleans())
def test_what_is_read_is_written_back(text: str, every_line: bool) -> None:
    parts = read_plain(text, every_line=every_line)
    assert "".join(part if isinstance(part, str) else written(part) for part in parts) == text


@given(TEXTS)
def test_offsets_ascend_and_pairs_nest(text: str) -> None:
    numbers: set[int] = set()
    for part in read_plain(text):
        if isinstance(part, str):
            continue
        assert part.text.strip()
        assert not any(char in part.text for char in BREAKS) or part.spans
        ends = [offset for span in part.spans for offset in (span.start, span.end)]
        assert ends == sorted(ends)
        assert all(0 <= offset <= len(part.text) for offset in ends)
        offsets = [tag.at for tag in part.tags]
        assert offsets == sorted(offsets)
        assert not any(span.start < at < span.end for span in part.spans for at in offsets)
        stack: list[int] = []
        for tag in part.tags:
            if tag.opens:
                assert tag.pair not in numbers
                numbers.add(tag.pair)
                stack.append(tag.pair)
            elif tag.pair >= 0:
                assert stack.pop() == tag.pair
        assert stack == []


@given(st.text(st.sampled_from("aBé1 .,!?;'\"()-_w语\u0301"), min_size=1, max_size=16))
def test_a_simple_line_is_read_as_any_other(text: str) -> None:
    with_break = [part for part in read_plain(f"{text}\n") if isinstance(part, Segment)]
    assert [part for part in read_plain(text) if isinstance(part, Segment)] == with_break


@given(TEXTS)
def test_every_line_joins_no_lines(text: str) -> None:
    for part in read_plain(text, every_line=True):
        if isinstance(part, Segment):
            assert not any(char in tag.output for tag in part.tags for char in BREAKS)


@pytest.mark.parametrize(
    "text",
    [
        "The old fisherman went out to sea\nevery morning before the sun was up.",
        "My neighbour, who is a teacher at the\nschool in our village, plays the piano\nevery evening.",
        "Meine Schwester hat gestern ein neues\nFahrrad gekauft.",
        "Der Zug nach München hat heute leider\netwa zwanzig Minuten\nVerspätung.",
        "Am Montag, den\n5. Mai kommt er\nzu uns.",
        "    The cat that lives next door\n    comes to our kitchen every day\n    because we give it milk.",
        "She met Mr.\nSmith in town.",
        "> I think that this is\n> a good idea.",
        "The quick brown fox jumps over the lazy dog and then it runs to\nPeter's house, where it sleeps.",
        "Line with two blanks  \nand more text here.",
        "We visited our friends in New\nYork last summer.",
        "Take the bus number\n5 to the station.",
        "The answer is yes\nbecause I say so",
        "A hard break is\\\nin this line.",
        "**A bold line that goes\non here** and ends.",
    ],
)
def test_wrapped_lines_are_one_block(text: str) -> None:
    assert len(blocks(text)) == 1
    assert len(blocks(text, every_line=True)) == text.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "Peter Smith\n12 Main Street\nLondon NW1\nUnited Kingdom",
        "Roses are red,\nViolets are blue,\nSugar is sweet,\nAnd so are you.",
        "apples\npears\na glass of milk\nbread",
        "Soup of the day\nFish and chips\nIce cream",
        "Dear Sir,\nI write to you.\nYours\nTom",
        "Das Haus ist rot\nDer Hund ist braun\nDie Katze schläft",
        "It is late.\nWe go home.\nhe stays.",
        "Dear all in the kitchen\nThe soup is hot.",
        "Liebe Anna,\nwir danken dir für den Brief.",
        "— Hola.\n— Adiós.",
        "He said:\nI am here",
        "> One\n>> two is deeper",
        "# A heading that is rather long\nand text",
    ],
)
def test_lines_that_stand_alone_are_blocks(text: str) -> None:
    assert len(blocks(text)) == text.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# One\n\n- two\n  * three\n1. four\na) five\n(2) six\n• seven",
            "One two three four five six seven",
        ),
        ("§ 2 One\n(a) two; and\n(b) three", "§ 2 One two; and three"),
        ("One\n1.1 Two\n1.2 Three\n## 2.1.3. Four", "One Two Three Four"),
        ("Q: One?\nA: Two three\nB: “Four”", "One? Two three “Four”"),
        ('[quote="Ann"]One[/quote]\n[list]\n[*]Three\n[*]Four\n[/list]', "One Three Four"),
        ("Open C:\\new\\notes.txt, \\\\nas\\new now", "Open C:\\new\\notes.txt, \\\\nas\\new now"),
        ("One\\nTwo\\n\\nThree\\r\\n2. Four", "One Two Three 2. Four"),
        ("1\n00:00:01,000 --> 00:00:02,000\nANNA: One two.\nDR. X: THREE FOUR", "One two. DR. X: THREE FOUR"),
        ("See HKEY_CURRENT_USER\\Name now", "See HKEY_CURRENT_USER\\Name now"),
        ("1. One ........ 3\n2. Two ........ 14", "One Two"),
        ('!!! note "One"\n    Two three four.', '"One" Two three four.'),
        ("{{#a}}You have {{n}}.{{/a}}{{^a}}None.{{/a}}", "You have {{n}}. None."),
        ("One {% if n == 1 %}two{% else %}{{ n }} threes{% endif %} four.", "One two {{ n }} threes four."),
        ("<% if @a %>Hello<% else %>Bye<% end %>", "Hello Bye"),
        ('<a class="{% if x %}b{% endif %}">Hello</a>', "Hello"),
        ("![One](a.png) [Two three](b)\n[![Four](c)](d) *[Five](e)*", "One  Two three Four  Five"),
        ("- [ ] One\n- [x] Two\n## Three ##\n### Four {#id}", "One Two Three Four"),
        ("One: [ ] two [x] three\n☐ Four ☑ Five\n( ) Six ( ) seven", "One: two three Four Five Six seven"),
        ("> [!NOTE]\n> One.\n\n::: tip Two\n:::", "One. Two"),
        ("| One | Two |\n|:---|---:|\n| Three | 4 |", "One Two Three"),
        ("One\tTwo\n3\tFour", "One Two Four"),
        ("One: {{ price | currency }} and `a | b`", "One: {{ price | currency }} and a | b"),
        ("```py\nx = 1\n```\nOne.\n~~~\ny\n~~~", "One."),
        ("One.\n\n    x = f(1);\n    y = 2;\n\nTwo.", "One. Two."),
        ("$ pip install x\n\n$$\na^2\n$$\nOne\n===\n\n---", "One"),
        ("#include <a.h>\n#define MAX 5\n#define f(x) x\n#define kSize 4\nOne", "One"),
        ("One.\n-- \nTwo", "One. Two"),
        ("-----One two-----\n== Three ==\n*** Four ***\n--- a b.c", "One two Three Four --- a b.c"),
        ("2024-05-01T12:00:05Z ERROR [main] a.b.C - One\n[INFO] Two\nWARN Three", "One Two WARN Three"),
        ("Ann (10:32): One?\nBob B [10:33 AM]: Two", "One? Two"),
        ('One\n    at a.b (c.js:1:2)\n  File "a.py", line 3\nat two (or so)', "One at two (or so)"),
        ('export default {\n  a: "One",\n  b: "Two",\n}', "One Two"),
        ("\\begin{x}[b]\n  \\item One\n\\end{x}\n\\maketitle\n\\section{Two}", "One Two"),
        ("Term\n: One\n\n[^1]: Two\n[link]: http://a.example", "Term One Two"),
        ('[a]: <b c> (d)\n[e]: ./f "G h"\n[i]: #j \'k\'\n[l]: #\n[m]: ./n "O \\"p\\" q"\nOne', "One"),
        ("[12:01] Ann: One?\n12/05/2024, 10:15 - Bob B: Two\n<al> Three", "One? Two Three"),
        ("[00:12.00]One\n{100}{200}Two", "One Two"),
        ("2024-01-05 12:00:01 One\n10:30 Two", "One Two"),
        ("<resources>\n<a href='x'>\nOne", "One"),
        ("WEBVTT A title\n\n00:01.000 --> 00:02.000\nOne", "One"),
        ("WEBVTT is one.\nSRT is two.", "WEBVTT is one. SRT is two."),
        ("[Ann]: <i>One</i>\n\n    $ 5 is two.", "[Ann]: One $ 5 is two."),
        ("<ul><li>One</li><li>Two</li></ul>", "One Two"),
        ("\ufeffOne", "One"),
    ],
)
def test_marks_and_what_is_no_language_are_copied(text: str, expected: str) -> None:
    assert " ".join(blocks(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "12:30 is late.",
        "5:30 p.m. is late.",
        "18:00 Uhr ist gut.",
        "Note: the door is shut.",
        "[Ann]: The door is shut.",
        "$ 5 is the price of the book.",
        "#include me in the list, please.",
        "#define a word, please.",
        "#define your 3 goals.",
        "Dialogue: 1 is late.",
        "[DOOR OPENS]",
        "I. came",
        "A man: he",
        "C: is full.",
        "1.5 million people came.",
        "[laughs]",
    ],
)
def test_what_only_looks_like_a_mark_is_text(text: str) -> None:
    assert blocks(text)[0].endswith(text[3:])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=One\nc.d=Two, too\nsize=12\nname=a_b\n", ["One", "Two, too"]),
        ('a,"One, two"\nb,"Three"\n', ["a", "One, two", "b", "Three"]),
        ("name;city\nAnn;Rome\n", ["name", "city", "Ann", "Rome"]),
        ("[main]\ngreeting = One\n", ["One"]),
        ('{"a": "One two", "id": "btn_x", "n": 5, "l": ["red"]}', ["One two", "red"]),
        ('{\n  "a": "One.\\nTwo.",\n  "b": 1\n}', ["One.", "Two."]),
        ('"k" = "One two";\n', ["One two"]),
        ('title: One\nbody: "Two."\nlang: en_US\n', ["One", "Two."]),
        ("---\ntitle: One\n---\n\nnote: Two\n", ["One", "note: Two"]),
        ('#: a.c:5\nmsgid "One"\nmsgstr ""\n', ["One"]),
        ('msgctxt "x"\nmsgid "One"\nmsgstr "Eins"\n', ["Eins"]),
        (
            'id,name,price\n1,One pie,3.50\n2,"Two, white",2\n',
            ["id", "name", "price", "One pie", "Two, white"],
        ),
        (
            '1,"He said ""Stop, please"", then left.",One\n2,"a ""b""",Two\n',
            ['He said ""Stop, please"", then left.', "One", 'a ""b""', "Two"],
        ),
        ('<string name="a">One</string>\n<string name="b">Two</string>', ["One", "Two"]),
        ('<?xml?>\n<r>\n    <string name="a">One</string>\n    <!-- x -->\n    <b>Two</b>\n', ["One", "Two"]),
    ],
)
def test_keys_stay_and_values_are_blocks(text: str, expected: list[str]) -> None:
    assert blocks(text) == expected


def test_subtitles_keep_their_numbers_times_and_speakers() -> None:
    srt = (
        "1\n00:00:01,000 --> 00:00:03,000\n{\\an8}I saw Peter\nPeterson.\n\n"
        "2\n00:00:04,000 --> 00:00:05,000\n-Hi.\n- <i>Hello.</i>\n\n"
        "3\n00:00:06,000 --> 00:00:07,000\n♪ La la love ♪\n"
    )
    assert blocks(srt) == ["I saw Peter Peterson.", "Hi.", "Hello.", "La la love"]
    assert blocks(
        "1\n00:00:01,000 --> 00:00:03,000\nI was--\n\n2\n00:00:04,000 --> 00:00:05,000\n--you were?\n- Ah—\n"
    ) == [
        "I was",
        "you were?",
        "Ah",
    ]
    sound = "1\n00:00:01,000 --> 00:00:03,000\n(SIGHS) I know\nit all.\n- [door opens] Hi.\n"
    assert blocks(sound) == ["(SIGHS)", "I know it all.", "[door opens]", "Hi."]
    vtt = (
        "WEBVTT - title\nKind: captions\n\nNOTE this is a note\nof two lines\n\n"
        "intro\n00:01.000 --> 00:02.000 align:start\n<v Fred>Hello there</v>\n\n"
        "STYLE\n::cue { color: red }\n\n00:03.000 --> 00:04.000\n<c.loud>Bye</c> <00:03.500>now\n"
    )
    assert blocks(vtt) == ["Hello there", "Bye now"]
    ssa = (
        "[Script Info]\nTitle: x\nFormat: Layer, Start\n"
        "Dialogue: 0,0:00:05.00,0:00:07.00,Default,,0,0,0,,{\\i1}One,{\\i0}\\Ntwo."
    )
    assert blocks(ssa) == ["One, two."]
    line = "Dialogue: 0,0:00:05.00,0:00:07.00,Default,,0,0,0,,"
    assert blocks(f"{line}One.\n{line}Two.") == ["One.", "Two."]  # no table


def test_a_written_line_break_is_kept_as_one_or_as_a_border() -> None:
    assert blocks("One line<br>Another line") == ["One line", "Another line"]
    [segment] = [part for part in read_plain("We go to the<br />old town.") if isinstance(part, Segment)]
    assert segment.text == "We go to the old town."
    assert [(tag.at, tag.output) for tag in segment.tags] == [(13, "<br />")]


def test_lines_of_a_script_without_spaces_join_without_one() -> None:
    assert blocks("これは長い文章なので、ここで改行\nされています。") == [
        "これは長い文章なので、ここで改行されています。"
    ]


@pytest.mark.parametrize("unit", [
    "a ", "A\n", "**a*", "`", "](", "<a b=", "<!--", "\\*", "a\\_", "| ", "   ", "- ", "a: b\n", '{"a":',
    "a,b,c\n", "\\emph{", "$a_", "``a''",
])  # fmt: skip
def test_time_grows_with_the_length(unit: str) -> None:
    assert_linear("x", unit, " x")


@pytest.mark.parametrize(
    ("begin", "unit", "end"),
    [
        ("100% x", " ", "y"),
        ("x", " \t", "y"),
        ('"a" = "b"', " ", "y"),
        ("~", "~", "`"),
        ("\n{n, plural, other {x", " ", "y}}"),
        ("\n{n, plural, other {[x](", " ", "y}}"),
    ],
)
def test_time_grows_with_the_length_of_a_run(begin: str, unit: str, end: str) -> None:
    assert_linear(begin, unit, end)


def assert_linear(begin: str, unit: str, end: str) -> None:
    # A tenfold text takes 10 times as long if the work is linear, 100 if quadratic.
    def least_s(length: int) -> float:
        text = begin + unit * (length // len(unit)) + end
        taken_s = []
        for _ in range(3):
            started_s = time.thread_time()
            read_plain(text)
            taken_s.append(time.thread_time() - started_s)
        return min(taken_s)

    assert least_s(60_000) < 40 * least_s(6_000) + 0.05
