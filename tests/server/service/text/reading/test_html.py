"""Blocks of HTML: what is text, what is copied, and that nothing is lost."""

import html
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.protection.writing import write_segment
from server.service.text.reading.html import read_attributes, read_html
from server.service.text.segment import Segment

PARTS = (
    "< b> </b> <b> <i> </i> <p> </p> <a~href=x> </a> &amp; &lt a é . <br> <!-- <!--x--> --> <! <? ?> </"
    " <script> </script> <code> </code> <b~translate=no> <i~translate=yes> <p~translate=no> <u~lang=fr> </u>"
    " ' \" = / <textarea> </textarea> ]]> m 2 <sup> </sup> H <sub> </sub> <li> <td> <div> </div> <x/>"
    " <svg> </svg> <title>"
)
FRAGMENTS = st.lists(
    st.sampled_from(
        [*[part.replace("~", " ") for part in PARTS.split(" ")], "&#x41;", "\n", " ", "<![CDATA["]
    ),
    max_size=20,
).map("".join)


def written(piece: str | Segment) -> str:
    """Write a piece back as it was."""
    if isinstance(piece, str):
        return piece
    return write_segment(piece)


def shown(markup: str) -> list[str]:
    """The blocks: their text, tags at their places as `[...]`, spans as `{...}`."""
    blocks = []
    for piece in read_html(markup, "en"):
        if isinstance(piece, str):
            continue
        marks = [(tag.at, f"[{tag.output}]") for tag in piece.tags]
        marks += [(span.end, "}") for span in piece.spans]
        marks += [(span.start, "{") for span in piece.spans]
        text = piece.text
        for at, mark in sorted(marks, key=lambda mark: mark[0])[::-1]:
            text = text[:at] + mark + text[at:]
        blocks.append(text)
    return blocks


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("plain text", ["plain text"]),
        ("<a href=/x/>y</a> <a href='/'/> z", ["[<a href=/x/>]y[</a>] [<a href='/'/> ]z"]),
        ("&#00000000065;&#99999999;B", ["AB"]),
        ("<p>Hello <b>world</b></p>", ["Hello [<b>]world[</b>]"]),
        ("<p>One</p> <p>Two</p>", ["One", "Two"]),
        ("<div><p>The window is open</div>", ["The window is open"]),
        ("<ol><li>Open it.</li><li>Go.<ul><li>the big</li></ul></li></ol>", ["Open it.", "Go.", "the big"]),
        ("<p>Press <button>Save</button> now</p>", ["Press", "Save", "now"]),
        ("<p> He\n\tlives   <i> in</i> a\nhouse. </p>", ["He lives [<i>]in[</i>] a house."]),
        ("<b>Tom &amp; Jerry</b> &lt;3&nbsp;x", ["[<b>]Tom & Jerry[</b>] <3\u00a0x"]),
        ("A book<!-- price? --> for", ["A book[<!-- price? -->] for"]),
        ("Look at <img src=x> it", ["Look at [<img src=x> ]it"]),
        ("Open <i class=x></i> Files <i>y</i> z", ["Open [<i class=x>][</i> ]Files [<i>]y[</i>] z"]),
        ("<a><img src=x> Home</a> a", ["[<a>][<img src=x> ]Home[</a>] a"]),
        ("Wednes<wbr>day", ["Wednes[<wbr>]day"]),
        ("<!-- wp -->\n<h3>Our team</h3>\n<!-- /wp -->", ["Our team"]),
        ("<br><br><p>&nbsp;</p><p> 100 % </p><hr>", ["100 %"]),
        ("5 < 6 and 7 > 3", ["5 < 6 and 7 > 3"]),
        ("I </3 you", ["I </3 you"]),
        ("<A HREF='x?a=b&amp;c>d'>text</A >", ["[<A HREF='x?a=b&amp;c>d'>]text[</A >]"]),
        ("<td>Tom <g id=1>x</g> <x/> y</td>", ["Tom [<g id=1>]x[</g>] [<x/> ]y"]),
        # Line breaks.
        ("We go to<br>the park", ["We go to [<br>]the park"]),
        ("We go.<br>the park<br>Berlin", ["We go.", "the park", "Berlin"]),
        ("Dear John,<br>\nthank you", ["Dear John,", "thank you"]),
        ("Dear me, we go,<br>he stays", ["Dear me, we go, [<br>]he stays"]),
        ("a<br><br>b", ["a", "b"]),
        # What is not translated.
        ("Use <code>print(&quot;a  b&quot;)</code> here", ['Use {print("a b")} here']),
        ("<p>Ask <span translate=no>Rolling <b>Stone</b></span>!</p>", ["Ask {Rolling Stone}!"]),
        ("A <i class='x notranslate'>keep</i> go", ["A {keep} go"]),
        ("An <svg><title>x</title></svg> icon", ["An [<svg><title>x</title></svg> ]icon"]),
        ("<p><code>x</code> </p><pre>a b\nc</pre><script>'<p>a'</script>", []),
        ("<div translate=no>a <p translate=yes>b c</p> d</div> e", ["b c", "e"]),
        ("<span translate=no>a <i translate=yes>b c</i> d</span> e", ["[<i translate=yes>]b c[</i>]", "e"]),
        ("<p translate=no>a<p>b", ["b"]),
        ("<p>Say <i lang=fr>a &amp; b</i> <i lang=en-US>c</i></p>", ["Say {a & b} [<i lang=en-US>]c[</i>]"]),
        ("<html lang=de><p lang=de>x</p><p lang=fr>y</p></html>", ["x"]),
        ("<textarea>a  b\n  <c> d\n</textarea>e", ["a  b", "<c> d", "e"]),
        ("<p style='white-space: pre-wrap'>a  <b>b</b>\n c</p>", ["a  [<b>]b[</b>]", "c"]),
        ("A <b0>car</b0> is <x1>red</x1><h2>a</h2>", ["A [<b0>]car[</b0>] is [<x1>]red[</x1>]", "a"]),
        ("<p><i class=x></i> Delete it <i></i></p>", ["Delete it"]),
        # Formulas and footnotes.
        ("It has 85 m<sup>2</sup>.", ["It has 85 {m²}."]),
        ("H<sub>2</sub>O, C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> are", ["{H₂O}, {C₆H₁₂O₆} are"]),
        ("the car<sup><a>[3]</a></sup> is", ["the car[<sup><a>[3]</a></sup>] is"]),
        ("war.<a><sup>55</sup></a> It", ["war.[<a><sup>55</sup></a>] It"]),
        ("the <a><sup>st</sup></a> car", ["the [<a>][<sup>]st[</sup>][</a>] car"]),
        ("<ruby>東<rp>(</rp><rt>Tō</rt></ruby> is", ["[<ruby>]東[<rp>(</rp>][<rt>Tō</rt>][</ruby>] is"]),
        ("the 1<sup>st</sup> car", ["the 1[<sup>]st[</sup>] car"]),
        # Rows of links.
        ("<a>Home</a> | <a>About us</a>", ["[<a>]Home[</a>] | ", "[<a>]About us[</a>]"]),
        ("See <a>this</a> <a>book</a>", ["See [<a>]this[</a>] [<a>]book[</a>]"]),
        # What is broken.
        ("<b><i>x</b></i> y", ["x[</b>]", "y"]),
        ("x</b> y", ["x", "y"]),
        ("<p>Hello <b>world</p>z", ["Hello [<b>]world", "z"]),
        ("Hello <a href='x", ["Hello"]),
        ("Hello </stro", ["Hello"]),
        ("x <y and so on", ["x <y and so on"]),
        ("<a href=\"x>text</a> more 'text'", ["[<a href=\"x>]text[</a>] more 'text'"]),
        ("a <!-- b c", ["a"]),
        ("<a title='x'y>b</a", ["[<a title='x'y>]b"]),
        ("<?php if ($a->b) ?>x<![CDATA[a > b]]><!DOCTYPE html>", ["x"]),
        ("", []),
    ],
)  # fmt: skip
def test_blocks(markup: str, expected: list[str]) -> None:
    assert shown(markup) == expected
    written_back = "".join(map(written, read_html(markup, "en")))
    assert as_bare(written_back) == as_bare(markup.replace("&#99999999;", ""))


def as_bare(markup: str) -> str:
    """Without white space, and with entities decoded twice: text may have been escaped once on its way."""
    return re.sub(r"\s", "", html.unescape(html.unescape(markup)))


def test_codes_of_three_letters_mean_the_same_language() -> None:
    for piece in ("<p lang=de>Guten Tag</p>", "<p lang=deu>Guten Tag</p>"):
        assert any(isinstance(part, Segment) for part in read_html(piece, "deu_Latn"))


def test_what_is_not_text_comes_back_byte_for_byte() -> None:
    markup = (
        "<!doctype html>\n<p  class=x\n>A  b.</p >\r\n<ul>\n <li>c</ul><!-- &amp; --> &copy; <br />&#169;"
    )
    assert "".join(map(written, read_html(markup, "en"))) == markup.replace("A  b", "A b")


def test_attributes_for_people_are_segments() -> None:
    markup = (
        "<img alt=Tree title='A &quot;b&quot;' x=40><a data-title=c title=''>d</a><p translate=no title=e>"
        '<code aria-label="f">g</code></p><input placeholder="h i" value=j><iframe title="k"></iframe>'
    )
    pieces = read_attributes(markup, "en")
    texts = [piece.text for piece in pieces if isinstance(piece, Segment)]
    assert texts == ["Tree", 'A "b"', "h i", "k"]
    assert "".join(map(written, pieces)) == markup.replace("alt=Tree", 'alt="Tree"')


@given(FRAGMENTS)
def test_nothing_is_lost(markup: str) -> None:
    pieces = read_html(markup, "en")
    assert as_bare("".join(map(written, pieces))) == as_bare(markup)
    assert "".join(map(written, read_attributes(markup, "en"))) == markup
    for piece in pieces:
        if isinstance(piece, Segment):
            open_pairs: list[int] = []
            pairs = [tag.pair for tag in piece.tags if tag.opens]
            for tag in piece.tags:
                assert tag.output.rstrip(" ") in markup
                if tag.opens:
                    open_pairs.append(tag.pair)
                elif tag.pair in pairs:  # what began in this block ends in the order of nesting
                    while open_pairs.pop() != tag.pair:
                        raise AssertionError("overlapping tags in one block")


UNITS = (
    "<", "<a ", "<a '", "<a b=",
    '<a b=">"', "<a b='", "&", "&#9", "<!--", "<![CDATA[", "</", "</b>", "<?", "<b>",
    "<p>", "<b><i></b>", "<br>", "a<br><!---->", "<script>", "<textarea>", "m<sup>2</sup>", "<sup>1</sup>",
    "<code>", "<a>b</a> ", "<i translate=no><b translate=yes>", "<?php", "<a lang=x>", "<x/>", "a <b>",
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("end", ["", "'>"])
def test_time_is_linear(unit: str, end: str) -> None:
    """It takes tenths of a second; quadratic time would be a minute or more."""
    started_s = time.thread_time()
    read_html(unit * (200_000 // len(unit)) + end, "en")
    assert time.thread_time() - started_s < 10
