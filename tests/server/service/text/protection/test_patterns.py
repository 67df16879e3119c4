"""What is no language is found whole; ordinary sentences hold nothing of it; time is linear."""

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.protection.patterns import compile_protected, find_numbers, find_spans
from server.service.text.segment import Segment, Span
from tests.support.examples import examples

PLACEHOLDERS = (
    "{name}", "{0}", "{}", "{{x}}", "{{ user.name }}", "{{{x}}}", "${x}", "#{x}", "%{x}", "%s", "%1$s",
    "50%%", "'{'", "'}'", "'{'{amount}'}'",
    "%d", "%i", "%ld", "%lu", "%.2f", "%5d", "%@", "%%", "%(x)s", "%(count)d", "%APPDATA%", "$t(x)",
    "$t(menu.open)", "__X__", "__CITY_NAME__", ":x", ":street", "{x:.2f}", "{x!r}", "{user.name}",
    "{items[0]}", "{count, number}", '<x id="1"/>', '<ph name="x"/>', "</x>", "<1>", "</1>", "<2/>",
    "$HOME", "$name", "[[NAME]]", "[%NAME%]", "<NAME>",
    "{{ price | currency }}", "<%= user.name %>", "{% if user %}", "{% endif %}",
    "%L1", "%n", "%zu", "%hd", "%[1]s", "%<name>s", "%name", "@{name}", "{ $name }", "{$name}", "{/color}",
    "$(name)", "$user->name", "\\(user.name)", "*|FNAME|*", "##NAME##", "@@name@@", "@PROJECT_NAME@",
    "$$NAME$$", "<<name>>", "[% name %]", "<?= $name ?>", "<?php echo $n; ?>", "[site:url]", "@:common.ok",
    "&brandShortName;", "&nbsp;", "&#160;", '{ DATETIME($day, month: "long") }', "{ -brand-name }",
    "office{'@'}mail.example", "\\C[2]", "\\SE[door]", "[SHOP-99|https://jira.example/SHOP-99]",
    "<strong>", '<a href="x">', "<br/>", "<@U04AB9XYZ>", "<#C02QWERTY|releases>", "<:wave:1234>",
)  # fmt: skip
ADDRESSES = (
    "https://a.example/b?c=1&d=2#e", "http://localhost:8000/x", "ftp://x.example", "my-app://a/b",
    "https://en.example.org/wiki/A_(b)", "www.example.org/x", "example.com", "docs.example.org/a/b",
    "a.b+c@mail.example", "mailto:x@y.de", "@someone", "@some_one1", "@some-one", "#topic", "#Über",
    "#2026goals", "git@code.example:team/app.git", "tom.o'neil+news@mail.example.co.uk",
    "@anna_k@social.example", "10.1038/s41586-020-2649-2", "arXiv:2101.00001v2",
)  # fmt: skip
PATHS = (
    "/etc/app/conf.d", "~/x/y", "./run.sh", "../a", "C:\\Data\\x.txt", "\\\\server\\share", "setup.py",
    "src/main.rs", "README.md", "main.c", "/usr/local/", "`a.b()`", "``x = 1``", "```x = 1\ny```",
    "--force", "--level=3", "-f", "DEBUG=true", "my_name", "call_me(x, y=2)", "print()", "com.example.Main",
    ".env", "r/cooking", "signal.sigwaitinfo", "datetime.UTC", "os.path.join()", 'method="POST"', "C#", "C++",
    ".NET", "ASP.NET", "src/main/flowers", "app/models/user", "\\\\\\\\server\\\\share",
    "rgba(0, 0, 0, 0.5)", "git pull", "docker compose up -d", "sudo apt-get install", "npm run build",
    "/tmp", "/help", "origin/main", "text/html", "application/ld+json",
    "upstream/fix-it", "feature/login-form", "release/v2.3", "refs/heads/x-1",
    "/tmp", "/help",
    "$x$", "$p^2$", "$x \\in \\mathbb{R}$", "$$ a + b $$", "\\(a + b\\)", "\\[ x^2 \\]",
    "\\cite[5]{smith2020}", "\\ref{fig:one}", "\\begin{itemize}",
    "HKEY_CURRENT_USER\\Software\\Notes", "%APPDATA%\\Notes\\plugins.ini", "ATGCCGTTAGACCTGAATTC",
)  # fmt: skip
STREETS = (
    "Lindenweg 4", "Hauptstraße 12 a", "14 Thistledown Close", "221B Baker Street", "12 rue des Lilas",
    "3 bis, avenue de l'Europe", "calle Mayor 3", "Avenida de la Paz, 15",
    "C/ Mayor, n.º 12", "Avda. de la Paz 3",
)  # fmt: skip
NUMBERS = (
    "1 234,5", "10 000", "10\u00a0000", "1.000.000", "1.234.567,50", "€19.99", "19,99 €",
    "$5", "5€", "€5", "$1,000", "US$ 5", "EUR 20", "20 EUR", "1,000 USD", "£3.50",
    "5:30 pm", "8 h 30", "14h30", "2026-11-27", "27.11.2026", "11/27/2026", "2026-11-27T12:30:00Z", "20 °C",
    "20°C", "5 km", "5 km/h", "10 kg", "75%", "75 %", "3.5 GB", "100 m²", "50 mph", "n = 5", "x >= 10",
    "10-12", "1984", "~2.5", "-0.21", "80 g/m²", "1920×1080", "2 × 3",
    "2 x 500mg", "3 x 4 m", "M8 x 40 mm", "10 x 15.5 cm", "12–18",
    "a != b", "x = y", "$100k–$150k", "€5–10", "49,– €", "49,-",
    "3 > 2", "2 + 2.5 = 4.5",
    "10-12", "9–17", "1984", "~2.5", "-0.21", "80 g/m²", "1920×1080", "2 × 3",
)  # fmt: skip
SERIALS = (
    "+44 20 7946 0812", "+1 (555) 123-4567", "555-123-4567", "01 23 45 67 89", "v1.2.3", "v2",
    "1.2.3-beta.1", "192.168.0.1", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000",
    "IBAN DE89 3704 0044 0532 0130 00", "IBAN", "ISBN", "BIC: DEUTDEDB", "BIC COBADEFFXXX",
    "978-3-16-148410-0", "550e8400-e29b-41d4-a716-446655440000", "a1b2c3d4e5", "MX-7040b", "COVID-19",
    "sk-4f9aA81bQ",
    "UTF-8", "R2-D2", "XVIII", "MMXXIV", "III", "ffffff", "c/o", "m/w/d",
    "PH1", "Q7", "XX1", "H2O", "A4", "mp3", "i18n", "0x8007064c", "Na+",
    "H₂O", "CO₂", "⌘⇧P",
)  # fmt: skip
PLAIN = (
    "Mr. Smith met Mrs. Jones at St. Mary's, i.e. in the old church, e.g. on Sundays.",
    "It is open 24/7, and/or on request :) isn't it?",
    "Here and/or there, this /and that, 5 /day, he/she/they, home/away, images/videos, tests and docs.",
    "DIX MIX CIVIL IL VI LE XIXe, XXL, MIL, VIXI; I, V, X. Et XL-XXL, l'III.",
    "Liebe Kolleg_innen und Ärzt_innen!",
    "The country of origin/destination, a feature/bug, the release/launch; 3 x chocolate.",
    "He came at 3, left at 8 and slept (badly) until noon; then: coffee! Um 8 am Montag, um 9 am besten.",
    "\"Well,\" said she, 'that's what I'd call a well-known, state-of-the-art, 13-year-old joke...'",
    "Chapter 3 of 12; the 1st, 2nd and 3rd of May; 9/11, 1/2 and 50 people. AC/DC & Co.",
    "I had 3 apples, 10 pears & 100 plums. U.S. firms - the big ones – paid.",
    "The 1980s were fun: a 5-star hotel, a 32bit computer, 64-bit software and a 3D printer.",
    "Am 3. Oktober kam z.B. Herr Dr. Müller, d.h. der Arzt, um 18 Uhr nach Köln (bzw. Bonn).",
    "Die 80er waren schön: ein 3D-Drucker, die CO2-Steuer, 24-Stunden-Dienst, 10jährig, 100prozentig.",
    "„Was?“, fragte sie; „du kommst um 8 nach Hause – schon wieder!“",
    "Qu'est-ce que c'est ? Aujourd'hui, M. Dupont a dit : « Venez, c.-à-d. tout de suite ! »",
    "Le 1er mai, la 2e fois, au XXe siècle, vers 7h, p. ex. l'après-midi… et/ou le soir.",
    "¿Qué hora es? ¡Son las 3! El Sr. García, p. ej., llegó a las 5 y se fue a las 10.",
    "Use the coupon & save; R&D; Q&A; a|b [see: note] ## title, 10 %ige Lösung, 50 %igen.",
    "Between $ and US$, or a dollar ($) and a pound; \\[see there\\], in A$.",
    "La 1ª vez, el 2º piso, EE. UU., etc.; «así es», dijo él.",
)  # fmt: skip
AROUND = [
    ("", ""), ("We saw ", " there."), ("(", ")"), ("Look: ", ", ok?"), ("Is it ", "?"), ("“", "”"),
    ("Take ", "; go"), ("See ", "."),
]  # fmt: skip
UNITS = (
    "a", "{", "{{", "${a", "%", "%(a", "__A_", ":a", "<x ", "<1", "http://", "http://a).", "www.", "a@a.",
    "a.", "a.a.com/", "a-", "1", "1,", "1 ", "1:", "+1 ", "+1(", "/a", "C:\\a", "\\\\a", "`", "``", "A1-",
    "AB12 ABCD ", "n = ", "&a", "*|", "[%", "<?=", "$a->", "%[1]", "@:a.", "<<a", "##A", "[a:",
    "[[A", "#a", "€1", "v1.", "1.1.1-", "0a1b2c3d-", "a1", "1a",
    "git pull ", "docker compose ", "1 + ", "$a ", "$", "\\(", "\\[a", "\\cite[", "\\ref{", "``a",
    "a(1, ", "@a@a.", "C:\\a A", ". ", " ....",
)  # fmt: skip

# What begins once and goes on for long.
BEGUN = (("http://a", ")"), ("%", "0"), ("%", "0."), ("%1$", "0"), ("%(a)", "0"), ("%", "1"))


def found(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_spans(text)]


@pytest.mark.parametrize("kept", [*PLACEHOLDERS, *ADDRESSES, *PATHS, *STREETS, *NUMBERS, *SERIALS])
def test_it_is_found_whole_wherever_it_stands(kept: str) -> None:
    assert {before + behind: found(before + kept + behind) for before, behind in AROUND} == {
        before + behind: [kept] for before, behind in AROUND
    }


@pytest.mark.parametrize(
    "number", ["1,234.50", "1.234,50", "1'000", "12:30", "12:30:05", "3.14", "10.0.22", "7"]
)
def test_a_number_that_models_copy_is_found_whole_when_one_has_lost_it(number: str) -> None:
    text = f"We saw {number} there."
    assert found(text) == []
    assert [text[span.start : span.end] for span in find_numbers(Segment(text))] == [number]


def test_a_line_to_fill_in_comes_back_as_long_as_it_was() -> None:
    assert found("Name*: ____________, date: ___") == ["____________", "___"]
    assert found("a _ sign, a __ sign") == []
    assert found("Chapter 1 ........ 12, the end . . . . . 3") == ["........", ". . . . ."]
    assert found("wait.... I say..... a . . b") == []


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_sentences_have_nothing_to_protect(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("See https://a.example/b.", ["https://a.example/b"]),
        ("(see https://a.example/b).", ["https://a.example/b"]),
        ("(https://a.example/A_(b))", ["https://a.example/A_(b)"]),
        ("Is it https://a.example/?x=1!?", ["https://a.example/?x=1"]),
        ("“https://a.example/b”, he wrote", ["https://a.example/b"]),
        ("Put it into /etc/app.", ["/etc/app"]),
        ("See /usr/share/doc/x...", ["/usr/share/doc/x"]),
        ("{name}'s %s's", ["{name}", "%s"]),
        ("50% discount, 100% debated", ["50%", "100%"]),
        ("a 50%-share", ["50%"]),
        ("{a}{b} and %s%s", ["{a}{b}", "%s%s"]),
        ("It costs $5, or 3,50 €.", ["$5", "3,50 €"]),
        ("pre{x}post", ["pre{x}post"]),
        ("In C:\\Program Files (x86)\\My App\\a.exe now", ["C:\\Program Files (x86)\\My App\\a.exe"]),
        ("Move C:\\a to D:\\b or C:\\c Then \\\\s\\t", ["C:\\a", "D:\\b", "C:\\c", "\\\\s\\t"]),
        ("Doe et al. (2019) write it", ["et al.", "2019"]),
        ("Open 8 a.m. to 5 p.m. Monday, 9 am to 7:30 pm EST", ["8 a.m.", "5 p.m.", "9 am", "7:30 pm"]),
        ("From 9 a. m. on, at 6 P.M. GMT", ["9 a. m.", "6 P.M."]),
        ("Come at 10 a.m. Bring it (at 5 p.m.) until 6 p.m.", ["10 a.m", "5 p.m.", "6 p.m"]),
        ("Run pip install geo-tools to start.", ["pip install geo-tools"]),
        ("Then npm install -g a/b@2.0, or npm install again", ["npm install -g a/b@2.0", "npm install"]),
        ("see file(s), chapter(3) and a git (or two)", []),
        ("+44 20 7946 0812 20 °C", ["+44 20 7946 0812", "20 °C"]),
    ],
)
def test_marks_around_it_stay_with_the_sentence(text: str, kept: list[str]) -> None:
    assert found(text) == kept


PIECES = st.sampled_from(
    [
        *PLACEHOLDERS,
        *ADDRESSES,
        *PATHS,
        *STREETS,
        *NUMBERS,
        *SERIALS,
        *UNITS,
        " ",
        ", ",
        "é",
        "e\u0301",
        "語",
        "\n",
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join), st.booleans())
def test_spans_are_disjoint_ascending_and_never_empty(text: str, protect: bool) -> None:
    spans = find_spans(text, compile_protected(["a", "and", "{"]) if protect else ())
    places = [0, *(offset for span in spans for offset in (span.start, span.end)), len(text)]
    assert places == sorted(places)
    assert all(span.start < span.end and span.output is None for span in spans)
    for span in spans:  # a mask in its place touches no letter behind it
        assert not text[span.end : span.end + 1].isalnum()


def test_a_telephone_number_ends_before_another_number() -> None:
    assert found("Call +44 20 7946 0812 1.234.567,50 times.") == ["+44 20 7946 0812", "1.234.567,50"]
    assert found("Call +44 20 7946 0812 €19.99 now.") == ["+44 20 7946 0812", "€19.99"]
    assert found("Call +44 20 7946 0812, 1.234.567,50 times.") == ["+44 20 7946 0812", "1.234.567,50"]


def test_a_number_takes_no_sign_of_a_placeholder() -> None:
    assert found("Take 1.234.567,50 %(user)s or 20 %{key}, Tom.") == ["1.234.567,50", "%(user)s", "%{key}"]
    assert found("Call +44 20 7946 0812 $t(menu.open) now.") == ["+44 20 7946 0812", "$t(menu.open)"]
    assert found("It was 12,345.67 ${total} then.") == ["12,345.67", "${total}"]


def test_what_the_client_names_is_found_as_a_word() -> None:
    protect = compile_protected(["Acme", "C++", "", " ", "Acme One"])
    text = "Acme One, Acme and Acmeville use C++ daily."
    assert [text[span.start : span.end] for span in find_spans(text, protect)] == ["Acme One", "Acme", "C++"]
    assert compile_protected([" "]) == []


def test_what_the_client_names_may_overlap() -> None:
    text = "We saw the red car park today."
    protect = compile_protected(["red car", "car park"])
    assert [text[span.start : span.end] for span in find_spans(text, protect)] == ["red car park"]


def test_numbers_are_those_outside_of_spans() -> None:
    segment = Segment("Take 3 of {0} at 15th", (Span(10, 13),))
    assert [segment.text[span.start : span.end] for span in find_numbers(segment)] == ["3", "15th"]


def test_a_number_takes_no_letters_of_a_span() -> None:
    segment = Segment("Take 12px and x34 now", (Span(7, 9), Span(14, 15)))
    assert [segment.text[span.start : span.end] for span in find_numbers(segment)] == ["12", "34"]


def seconds(text: str, protect: Sequence[Any] = ()) -> float:
    """Processor time of the fastest of three."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        find_spans(text, protect)
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize(("before", "unit"), [*(("", unit) for unit in UNITS), *BEGUN])
def test_time_is_linear(before: str, unit: str) -> None:
    size = 4_000 * examples(1)
    short, long = (before + unit * (count // len(unit)) for count in (size, 8 * size))
    # Eight times the text in 64 times the time would be quadratic.
    assert seconds(long) < 24 * max(seconds(short), 1e-4)


def test_time_is_linear_in_the_matches_of_a_word() -> None:
    size = 1_000 * examples(1)
    protect = [re.compile("a")]
    short, long = ("b" + "a" * count for count in (size, 8 * size))
    assert seconds(long, protect) < 24 * max(seconds(short, protect), 1e-4)
