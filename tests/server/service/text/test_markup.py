import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.markup import escape, split_markup

PARTS = "< b> </b> <p> &amp; &lt a é <!-- --> <! <? ?> </ <script> </script> <br> ' \" = / 😀 <textarea> ]]>"
FRAGMENTS = st.lists(st.sampled_from([*PARTS.split(), "&#x41;", "\n", " ", "<![CDATA["]), max_size=15).map(
    "".join
)


def translated(markup: str) -> str:
    """Translate to upper case and put together again."""
    pieces = split_markup(markup, "en")
    return "".join(escape(piece.text.upper()) if piece.is_sentence else piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("plain text", "PLAIN TEXT"),
        ("<p>Hello <b>world</b></p>", "<p>HELLO <b>WORLD</b></p>"),
        ("Tom &amp; Jerry &lt;3", "TOM &amp; JERRY &lt;3"),
        ("1 < 2 & 3", "1 &lt; 2 &amp; 3"),
        ("a&nbsp;b", "A&nbsp;B"),
        ("caf&eacute;", "CAFÉ"),
        ('<A HREF="x?a=b&amp;c">text</A >', '<A HREF="x?a=b&amp;c">TEXT</A >'),
        ("one<br>two<br/>three", "ONE<br>TWO<br/>THREE"),
        ("<!-- a comment -->x", "<!-- a comment -->X"),
        ("<script>var a = '<b>';</script>x", "<script>var a = '<b>';</script>X"),
        ("see <code>x = 1</code> there", "SEE <code>x = 1</code> THERE"),
        ("<i translate=no>:cat: <i>a</i> b</i> c", "<i translate=no>:cat: <i>a</i> b</i> C"),
        ('<i class="a notranslate">keep</i> go', '<i class="a notranslate">keep</i> GO'),
        ('<img class="notranslate" alt="x"> more', '<img class="notranslate" alt="x"> MORE'),
        ("<p\n class=x>B\nC</p\n>", "<p\n class=x>B\nC</p\n>"),
        ("unfinished <a href='x", "UNFINISHED &lt;A HREF='X"),
        ("", ""),
        ("<p></p>", "<p></p>"),
    ],
)  # fmt: skip
def test_tags_stay_and_text_is_translated(markup: str, expected: str) -> None:
    assert translated(markup) == expected


@given(FRAGMENTS)
def test_what_is_not_translated_comes_back_as_it_was(markup: str) -> None:
    pieces = split_markup(markup, "en")
    tags = [piece.text for piece in pieces if not piece.is_sentence and piece.text.startswith("<")]
    for tag in tags:
        assert tag in markup or html.unescape(tag) in html.unescape(markup)


@pytest.mark.parametrize("unit", ["<", "<a ", "<a '", "<a b=", "&", "<!--", "<![CDATA[", "</", "<?", "<p>"])
@pytest.mark.parametrize("end", ["", ">"])
def test_time_does_not_explode(unit: str, end: str) -> None:
    """The least of three: the garbage collector may come in between, and look through all that torch has."""
    markup = unit * (5000 // len(unit)) + end
    times_s = []
    for _ in range(3):
        started_s = time.thread_time()
        split_markup(markup, "en")
        times_s.append(time.thread_time() - started_s)
    assert min(times_s) < 0.5
