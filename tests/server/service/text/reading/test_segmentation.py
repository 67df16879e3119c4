"""Sentences begin where a reader would say; `|` marks the borders."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.service.text.reading.segmentation import sentence_borders

PIECES = st.sampled_from(
    [
        *[
            "a",
            "B",
            "Dr",
            "etc",
            "3",
            ". ",
            ".",
            "?",
            "! ",
            "…",
            '"',
            "'",
            "«",
            "» ",
            "(",
            ") ",
            " ",
            "\n",
            "😀",
        ],
        *["\u200b", "\u3000", "。", "é", "e\u0301", "z. B. ", "U.S. ", "The ", "Der ", "\xa0"],
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
LANGUAGES = st.sampled_from(["en", "de", "fr", "es", "", "ja", "pl", "qq", "zh-Hant", "???"])

ENGLISH = """Hello Mr. Smith. |How are you?
I met Dr. Jane Brown at 5 p.m. |She was late.
I met Dr. Jane Brown at 5 p.m. on Monday.
The U.S. Army is big. |It has tanks.
He lives in the U.S. |He likes it.
J. R. R. Tolkien wrote it. |I read it.
J.R.R. Tolkien wrote it. |I read it.
See No. 5 for details. |Then go on.
No. |I do not like it.
It costs $3.50. |That is cheap.
Bring fruit, e.g. apples or pears. |Then eat.
Bring fruit, i.e. Apples. |Then eat.
Wait... |What did you say?
Wait… |What did you say?
Well... maybe not.
"Come here!" he said. |She came.
He said, "Come here." |She came.
He said “Come here.” |She came.
"Stop!" |"Why?"
He came. |"Hello," she said.
"Are you there?" asked Tom.
She asked (why?) and left. |He stayed.
(I was late.) |He waited.
What?! |No way!
omg!! |i know it. |Why?? |he left.
Is it 3.14? |Yes, it is 3.14.
Go to www.example.com. |It is good.
Version 2.0.1 is out. |Get it now.
Apple Inc. is big. |So is Alphabet Inc. |Both grow.
They sell pens, paper, etc. |You can buy them.
They sell pens, paper, etc. in the shop.
Smith et al. wrote it. |We read it.
On Jan. 5 we left. |It was cold.
I live at 5 Main St. |It is nice.
Hi! 😊 |How are you?
Approx. 5 people came. |We had approx. 6 chairs.
1. Open the door. |2. Close it.
I went.|She came.
Use Node.Js and System.Out today.
hello. |how are you. |i am fine.
Vitamin C. |It helps.
Help me. |I am lost."""
GERMAN = """Das ist z. B. gut. |Das auch.
Das ist z.B. Obst. |Das auch.
Am 3. Mai kam er. |Dann ging er.
Er kam am 3. |Dann ging er.
Im 19. Jahrhundert war es so. |Heute nicht.
Der 1. FC Köln gewann. |Alle jubelten.
Herr Dr. h. c. Maier kam. |Er blieb.
Wir haben d. h. keine Zeit. |Komm morgen.
Äpfel, Birnen usw. sind gut.
Das kostet 1.000,50 Euro. |Das ist viel.
„Komm her!“, sagte er. |Sie kam.
Er sagte: „Komm her.“ |Sie kam.
»Komm her!« |Sie kam.
Er kam. |»Hallo«, sagte er.
Um 18.30 Uhr. |Komm bitte.
Ludwig XIV. war König. |Er baute viel.
Ich bin 30. |Du bist 20.
Das war 1999. |Peter kam 2000.
Es sind 5 Mio. Euro. |Das ist viel.
Ich habe... Angst."""
FRENCH = """M. Dupont est là. |Mme Dupont aussi.
M. et Mme Martin sont là. |Ils mangent.
Mme. Martin et Mlle. Petit sont là. |Elles rient.
Demain, c.-à-d. lundi. |Voilà.
« Viens ! » dit-il. |Elle vint.
Il a dit : « Viens ici. » |Elle vint.
Où es-tu ? |Je suis là !
Des pommes, des poires, etc. |Tout est bon.
Il est né en janv. 1950. |Il vit.
En 50 av. J.-C. la ville brûla. |C'est vrai.
J.-P. Martin est là. |Il mange.
No. 5 est un parfum. |Il sent bon.
Le 1er mai, il est venu. |J'ai ri."""
SPANISH = """El Sr. García está aquí. |La Sra. Pérez también.
Fruta, p. ej. manzanas. |Es buena.
EE. UU. es grande. |Tiene tanques.
Vive en EE. UU. |Le gusta.
¡Hola! |¿Qué tal?
Véase pág. 5 y págs. 6-7. |Es claro.
«Ven aquí.» |Ella vino.
D. Juan y D.ª Ana llegaron. |Comieron.
A las 5 p. m. salimos. |Hacía frío.
Llegó a las 5 a. m. |Hacía frío.
El 3.º llegó. |El 4.º no.
No. |Me gusta."""
OTHER = """Hello there. |How are you?
Это хорошо. |Как дела?
これは本です。|あれは何ですか?|はい。
这是书。|那是什么？|是的！
यह अच्छा है। |कैसे हो?
هل أنت هنا؟ |نعم.
J. Smith came. |M. Dupont too."""
GOLD = [
    (language, line)
    for language, lines in [("en", ENGLISH), ("de", GERMAN), ("fr", FRENCH), ("es", SPANISH), ("", OTHER)]
    for line in lines.split("\n")
]


def marked(text: str, borders: list[int]) -> str:
    return "|".join(text[start:end] for start, end in zip([0, *borders], [*borders, len(text)], strict=True))


@pytest.mark.parametrize(("language", "line"), GOLD)
def test_borders_of_a_list_made_by_hand(language: str, line: str) -> None:
    text = line.replace("|", "")
    assert marked(text, sentence_borders(text, language)) == line


@given(TEXTS, LANGUAGES, st.data())
def test_borders_ascend_and_cut_no_kept_part(text: str, language: str, data: st.DataObject) -> None:
    ends = sorted(set(data.draw(st.lists(st.integers(0, len(text)), max_size=6))))
    kept = list(zip(ends[::2], ends[1::2], strict=False))
    borders = sentence_borders(text, language, kept)
    assert borders == sorted(set(borders))
    for border in borders:
        assert 0 < border < len(text)
        assert not any(start < border < end for start, end in kept)


@given(TEXTS, LANGUAGES)
def test_no_sentence_begins_with_white_space_and_each_has_a_character(text: str, language: str) -> None:
    borders = sentence_borders(text, language)
    for start, end in zip([0, *borders], [*borders, len(text)], strict=True):
        assert start == 0 or not text[start].isspace()
        assert end > start or not text


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("See https://a.example/Is. Good|{x}. |Next one.", ["https://a.example/Is. Good|{x}"]),
        ("You have #. |Next one.", ["#"]),
        ("Hello {name.First}! |{name} is here.", ["{name.First}", "{name}"]),
        ("Fine! 😀 |And you?", ["😀"]),
        ("I live at 12 Main St. in Boston. |It is nice.", ["12 Main St"]),
        ("See room 1000. |then go home.", ["1000"]),
    ],
)
def test_kept_parts_are_words(line: str, parts: list[str]) -> None:
    inner = line
    for part in parts:
        inner = inner.replace(part, part.replace("|", "\0"))
    text = inner.replace("|", "").replace("\0", "|")
    kept, position = [], 0
    for part in parts:
        start = text.index(part, position)
        position = start + len(part)
        kept.append((start, position))
    assert marked(text, sentence_borders(text, "en", kept)) == line


@pytest.mark.parametrize("space", ["\u0085", "\u00a0", "\u2003", "\u2028", "\u202f", "\u3000"])
def test_wide_spaces_are_spaces(space: str) -> None:
    text = "Take vitamin B{0}. All is{0}good.".format
    assert sentence_borders(text(space), "en") == sentence_borders(text(" "), "en") == [17]


def test_the_sentences_of_a_long_text_are_those_of_its_parts() -> None:
    sentence = "He met Dr. Brown at 5 p.m. and said “Well, go.” "
    count = 1000  # more than one call of the library takes
    borders = sentence_borders(sentence * count, "en")
    assert borders == [len(sentence) * number for number in range(1, count)]


@pytest.mark.parametrize(
    "unit", ["a", "ha ", "Mr. ", '"(«', " ", "e.g. ", ". 😀 ", "A. ", "). ) ", "これは。"]
)
def test_time_grows_with_the_length(unit: str) -> None:
    # A tenfold text takes 10 times as long if the work is linear, 100 if quadratic.
    def least_s(length: int) -> float:
        text = "x" + unit * (length // len(unit)) + "x"
        taken_s = []
        for _ in range(3):
            started_s = time.thread_time()
            sentence_borders(text, "en")
            taken_s.append(time.thread_time() - started_s)
        return min(taken_s)

    assert least_s(100_000) < 40 * least_s(10_000) + 0.05
