"""Inline marks become tags; what only looks like a mark stays text. Expected texts follow CommonMark."""

from itertools import count

import pytest

from server.service.text.reading.markdown import read_inline
from server.service.text.segment import Segment


def read(source: str, references: tuple[str, ...] = ()) -> Segment:
    return read_inline(source, (), references, count().__next__)


@pytest.mark.parametrize(
    ("source", "text", "outputs"),
    [
        ("a *b* **c** _d_ __e__ ~~f~~", "a b c d e f", "* * ** ** _ _ __ __ ~~ ~~"),
        ("==a b== c ~~==d==~~", "a b c d", "== == ~~ == == ~~"),
        ("***a***", "a", "* ** ** *"),
        ("~a~ ~5 or ~6, ~/a ~/b, a~b~c", "a ~5 or ~6, ~/a ~/b, a~b~c", "~ ~"),  # WhatsApp
        ("'''a''' b's 'c'", "a b's 'c'", "' '' '' '"),  # MediaWiki
        ("**a *b* c**", "a b c", "** * * **"),
        ("*a **b***", "a b", "* ** ** *"),
        ("**Note:** a", "Note: a", "** **"),
        ("a**b**c", "abc", "** **"),
        ("[a](http://x) b", "a b", "[ ](http://x)"),
        ('[a *b*](<x y> "t") c', "a b c", '[ * * ](<x y> "t")'),
        ("![a](b.png) [![c](d)](e)", "a c", "![ ](b.png) [ ![ ](d) ](e)"),
        ("[a](b(c)d)", "a", "[ ](b(c)d)"),
        ('[a]( "t") b', "a b", '[ ]( "t")'),
        ("[a][1] b[^2]", "a b", "[ ][1] [^2]"),
        ("[b]a[/b] [url=http://x]c[/url] d", "a c d", "[b] [/b] [url=http://x] [/url]"),
        ('[button url="/a" style="b"]c[/button]', "c", '[button url="/a" style="b"] [/button]'),
        ("[center][wave amp=5]a![/wave][/center]", "a!", "[center] [wave amp=5] [/wave] [/center]"),
        ('[gallery id="3"] a [B]c[/b]', " a c", '[gallery id="3"] [B] [/b]'),
        ("<color=#ff0000>a</color> <size=20>b</size>", "a b", "<color=#ff0000> </color> <size=20> </size>"),
        ('a <sprite name="b"> c', "a  c", '<sprite name="b">'),
        ("a <b>c</b> <i class='x'>d</i>", "a c d", "<b> </b> <i class='x'> </i>"),
        ('<g id="1">a</g> b', "a b", '<g id="1"> </g>'),
        ("<0>a</0> b", "a b", "<0> </0>"),
        ("<foo>a</foo> b", "a b", "<foo> </foo>"),
        ("a</b> <i>b", "a b", "</b> <i>"),
        ('a<x id="1"/> b', "a b", '<x id="1"/>'),
        ("a <!-- x --> b", "a  b", "<!-- x -->"),
        ("{\\i1}a{\\i0} {\\an8}b", "a b", "{\\i1} {\\i0} {\\an8}"),
        ("<![CDATA[a]]>", "a", "<![CDATA[ ]]>"),
        ("a?\\! b.\\| c\\! d\\^", "a? b. c\\! d", "\\! \\| \\^"),
        ("a \\emph{b c} \\textbf{d}, ``e'' or ``f''", "a b c d, e or f", "\\emph{ } \\textbf{ } `` '' `` ''"),
        (
            "\\section{A \\emph{b}}\\label{c} d~\\cite[5]{e}",
            "A b d",
            "\\section{ \\emph{ } } \\label{c} ~\\cite[5]{e}",
        ),
        ("\\emph{a ``b {c}'' d} ``e } f''", "a b {c} d ``e } f''", "\\emph{ `` '' }"),
        ("\\*a\\* \\[b\\]", "a b", "\\* \\* \\[ \\]"),
    ],
)
def test_marks_become_tags(source: str, text: str, outputs: str) -> None:
    segment = read(source)
    assert segment.text == text
    assert " ".join(tag.output for tag in segment.tags) == outputs
    assert segment.spans == ()


@pytest.mark.parametrize(
    "source",
    [
        "snake_case and _private and a_b_c",
        "2 * 3 * 4 and 2*3*4 and a*b",
        "**not closed and *this",
        "a ** b ** c",
        "[DOOR OPENS] and [a] (b)",
        "[b] and [/i] and [color=red] and [b/]",
        "*|NAME|* and *|A|*",
        "5 < 6 and 7 > 3",
        "<NAME> and <your-name> and <username>",
        "__NAME__ and {a_b_c} {*x*}",
        "https://a.example/b_c_d*e*f and www.x.example/_y_",
        "a == b, c==d or e==f, a ===b===",
        "a ` b and ``c",
        "costs 5~6 and a ~ b",
        "****",
        "<!-- not closed",
        "for $x_1^*$ and $y_1^*$, \\(a*b*c\\), \\[ a_b^*c_d^* \\]",
        "\\emph{a and ``b",
        "it's 'fine' \\ and C:\\dir",
        "\\\\server\\a_b\\_c and D:\\x\\_y_\\*.txt",
    ],
)
def test_what_is_no_mark_stays_text(source: str) -> None:
    assert read(source) == Segment(source)


@pytest.mark.parametrize(
    ("source", "text", "output"),
    [
        ("`a b`", "a b", "`a b`"),
        ("``a`b``", "a`b", "``a`b``"),
        ("``a = ''``", "a = ''", "``a = ''``"),
        ("<code>a</code>", "a", "<code>a</code>"),
        ("[code]a[/code]", "a", "[code]a[/code]"),
        ("<KBD class=x>a</KBD>", "a", "<KBD class=x>a</KBD>"),
        ("<https://x.example/a_b>", "<https://x.example/a_b>", None),
        ("<a@b.example>", "<a@b.example>", None),
        ("snake\\_case", "snake\\_case", None),
        ("[[A page]]", "[[A page]]", None),
        ('<x id="1"/>', '<x id="1"/>', None),
    ],
)
def test_what_is_no_language_becomes_a_span(source: str, text: str, output: str | None) -> None:
    segment = read(f"Say {source} now")
    assert segment.text == f"Say {text} now"
    [span] = segment.spans
    assert (segment.text[span.start : span.end], span.output) == (text, output)
    assert segment.tags == ()


def test_the_label_of_a_defined_link_is_kept_for_it_finds_the_target() -> None:
    segment = read("See [Home][] and [here][home] and [home].", ("home",))
    assert segment.text == "See [Home][] and here and [home]."
    assert [segment.text[span.start : span.end] for span in segment.spans] == ["[Home][]", "[home]"]
    assert [tag.output for tag in segment.tags] == ["[", "][home]"]


def test_pairs_that_cross_are_not_made() -> None:
    segment = read("*a [b* c](d) <b>e *f</b> g*")
    assert segment.text == "*a b* c e *f g*"
    assert [tag.output for tag in segment.tags] == ["[", "](d)", "<b>", "</b>"]


def test_line_breaks_become_tags_before_the_next_word() -> None:
    segment = read_inline("a *b\n> c* d", [(4, 7)], (), count().__next__)
    assert segment.text == "a b c d"
    assert [(tag.at, tag.output) for tag in segment.tags] == [(2, "*"), (4, "\n> "), (5, "*")]
