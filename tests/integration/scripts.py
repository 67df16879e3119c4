"""Text in many scripts: words of made-up syllables, so that pieces can be learnt and ids compared."""

import random

_LETTERS = {
    "latin": "abcdefghijklmnoprstuvzéüñøčß",
    "greek": "αβγδεζηθικλμνξοπρστυφχψωάέ",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшыьюяї",
    "armenian": "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտ",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "devanagari": "कखगघचछजटडतथदधनपफबभमयरलवशसहािीुेो",
    "thai": "กขคงจชซดตถทนบปผพฟมยรลวสหอาิีุเแโ",
    "georgian": "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ",
    "han": "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年",
    "kana": "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほアイウエオカキクケコ",
    "hangul": "가나다라마바사아자차카타파하고노도로모보소오조초",
}
SCRIPTS = tuple(_LETTERS)
_MARKS = (".", ",", "!", "?", ";", ")", "%")
_ODD = ("ﬁne", "①②", "１２３", "Ａｂｃ", "½", "😀", "a\u0301", "e‍x", "x  y", "﷽", "Ǆ", "‘q’", "№ 5", "ſ")


def lines(count: int, seed: int = 0, *, odd: bool = False) -> list[str]:
    """Make lines of 1 to 12 words, scripts in turns, without spaces at their ends.

    Args:
        count: of lines.
        seed: of the draw.
        odd: whether characters occur that SentencePiece normalizes, or that no piece has.
    """
    draw = random.Random(seed)
    words = {name: [_word(draw, letters) for _ in range(60)] for name, letters in _LETTERS.items()}
    made = []
    for number in range(count):
        known = words[SCRIPTS[number % len(SCRIPTS)]]
        line = [draw.choice(known) for _ in range(draw.randint(1, 12))]
        if draw.random() < 0.3:
            line.append(str(draw.randint(0, 9999)))
        if odd and draw.random() < 0.4:
            line.insert(draw.randint(0, len(line)), draw.choice(_ODD))
        made.append((" ".join(line) + draw.choice(_MARKS)).strip())
    return made


def _word(draw: random.Random, letters: str) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randint(1, 7)))
