"""Whether women and men are translated alike: MT-GenEval's pairs, and WinoMT's professions.

MT-GenEval (Currey et al., 2022) has each sentence about a woman and about a man, with references that differ
in the words of gender alone. WinoMT (Stanovsky et al., 2019) has sentences whose pronoun tells the gender of
a person in a profession. The word for the profession is found in the translation by word alignment, its
gender by article and ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Translate = Callable[[Sequence[str]], list[str]]
Links = Callable[[Sequence[str], Sequence[str]], list[tuple[int, int]]]
"""From the words of a sentence and of its translation to pairs of indices."""

Gender = Literal["female", "male"]
_WORD = re.compile(r"[^\W_]+(?:[-’'][^\W_]+)*[’']?")
_WORDS_BEFORE = 3


@dataclass(frozen=True)
class _Grammar:
    """What tells the gender of a word for a person.

    Attributes:
        female: articles, and determiners alike.
        male: likewise.
        female_endings: of nouns; they tell more than an article, which may be of another case.
        male_endings: likewise.
    """

    female: frozenset[str]
    male: frozenset[str]
    female_endings: tuple[str, ...]
    male_endings: tuple[str, ...] = ()


_GRAMMARS = {
    "de": _Grammar(
        frozenset({"die", "eine", "einer", "keine", "diese", "jene", "meine", "seine", "ihre", "unsere"}),
        frozenset({"der", "den", "dem", "des", "ein", "einen", "einem", "eines", "kein", "dieser", "diesen"}),
        ("erin", "orin", "istin", "ärztin", "öchin", "ärin", "äuerin", "wältin", "ündin", "frau", "euse"),
        ("mann",),
    ),
    "es": _Grammar(
        frozenset({"la", "las", "una", "unas", "esta", "esa", "aquella", "nuestra"}),
        frozenset({"el", "los", "un", "unos", "al", "del", "este", "ese", "aquel", "nuestro"}),
        ("ora", "triz", "esa"),
    ),
    "fr": _Grammar(
        frozenset({"la", "une", "cette", "ma", "sa"}),
        frozenset({"le", "un", "au", "du", "ce", "cet", "mon", "son"}),
        ("ère", "ienne", "trice", "euse"),
        ("ier", "ien", "teur", "eur"),
    ),
}
LANGUAGES = tuple(_GRAMMARS)
"""Target languages of WinoMT here."""


@dataclass(frozen=True)
class Counterfactuals:
    """Sentences about a woman, the same about a man, and references of both."""

    female: Sequence[str]
    male: Sequence[str]
    female_references: Sequence[str]
    male_references: Sequence[str]


@dataclass(frozen=True)
class Profession:
    """A line of WinoMT: the gender that its pronoun tells, and the place of the profession in the words."""

    gender: str
    place: int
    sentence: str


class FairnessError(ValueError):
    """A folder has none of the sets, or one is damaged. The message says what is wanted."""


def fairness(
    folder: Path, source: str, target: str, translate: Translate, links: Links | None = None
) -> dict[str, Any]:
    """Translate the sets of a folder and tell how women and men fare.

    Args:
        folder: of the sets, at any depth, by the names of their repositories' files.
        source: language code; the sets are English.
        target: language code.
        translate: the system.
        links: word alignment, which WinoMT needs; None leaves it out.

    Returns:
        JSON values under ``mt_geneval`` and ``winomt``, of what is there.

    Raises:
        FairnessError: nothing is there for this pair.
    """
    found: dict[str, Any] = {}
    if (pairs := read_counterfactuals(folder, source, target)) is not None:
        found["mt_geneval"] = score_counterfactuals(pairs, translate)
    if source == "en" and target in _GRAMMARS and links is not None:
        for name, file in (("all", "en.txt"), ("pro", "en_pro.txt"), ("anti", "en_anti.txt")):
            if (lines := read_professions(folder, file)) is not None:
                found.setdefault("winomt", {})[name] = score_professions(lines, target, translate, links)
    if {"pro", "anti"} <= found.get("winomt", {}).keys():
        sets = found["winomt"]
        sets["pro_minus_anti"] = round(sets["pro"]["accuracy"] - sets["anti"]["accuracy"], 1)
    if not found:
        raise FairnessError(
            f"{folder}: has neither MT-GenEval's geneval-sentences-feminine-test.{source}_{target}.* nor "
            "WinoMT's en.txt (which needs a bundle from English to "
            f"{', '.join(LANGUAGES)}); docs/training.md says where they are"
        )
    return found


def read_counterfactuals(folder: Path, source: str, target: str) -> Counterfactuals | None:
    """Read MT-GenEval's test set of a pair; None if it is not there."""
    texts = []
    for gender in ("feminine", "masculine"):
        for code in (source, target):
            name = f"geneval-sentences-{gender}-test.{source}_{target}.{code}"
            # Beside them are the same files with marks around the words of gender.
            paths = [path for path in sorted(folder.rglob(name)) if path.parent.name != "annotated"]
            texts.append(_lines(paths[0]) if paths else None)
    female, female_references, male, male_references = texts
    if female is None or male is None or female_references is None or male_references is None:
        return None
    if not len(female) == len(male) == len(female_references) == len(male_references):
        raise FairnessError(f"{folder}: the files of {source}_{target} differ in their number of lines")
    return Counterfactuals(female, male, female_references, male_references)


def read_professions(folder: Path, name: str) -> list[Profession] | None:
    """Read a file of WinoMT: gender, place, sentence, profession; None if it is not there."""
    paths = sorted(folder.rglob(name))
    if not paths:
        return None
    found = []
    for number, line in enumerate(_lines(paths[0]), start=1):
        cells = line.split("\t")
        if len(cells) < 3 or not cells[1].isdecimal():
            raise FairnessError(f"{paths[0]} line {number}: is not gender, place, sentence, profession")
        found.append(Profession(cells[0], int(cells[1]), cells[2]))
    return found


def score_counterfactuals(pairs: Counterfactuals, translate: Translate) -> dict[str, Any]:
    """Score translations by the words that one reference has and the other has not.

    ``accuracy`` is the official one: a translation is right if it has no word of the other reference alone,
    so an empty one is right, too. ``decided`` is the share of right ones of those that have words of exactly
    one; ``gap`` is what men have more of it.
    """
    outputs = translate([*pairs.female, *pairs.male])
    half = len(pairs.female)
    female, male = pairs.female_references, pairs.male_references
    report: dict[str, Any] = {"sentences": len(outputs)}
    for name, lines, own, other in (
        ("female", outputs[:half], female, male),
        ("male", outputs[half:], male, female),
    ):
        has_own, has_other = [], []
        for line, mine, theirs in zip(lines, own, other, strict=True):
            said, ours, others = (set(_WORD.findall(text.lower())) for text in (line, mine, theirs))
            has_own.append(bool(said & (ours - others)))
            has_other.append(bool(said & (others - ours)))
        right = sum(one and not two for one, two in zip(has_own, has_other, strict=True))
        wrong = sum(two and not one for one, two in zip(has_own, has_other, strict=True))
        report[name] = {
            "accuracy": _percent(has_other.count(False), len(has_other)),
            "decided": _percent(right, right + wrong),
            "decided_sentences": right + wrong,
        }
    report["gap"] = round(report["male"]["decided"] - report["female"]["decided"], 1)
    return report


def score_professions(
    lines: Sequence[Profession], target: str, translate: Translate, links: Links
) -> dict[str, Any]:
    """Score the gender of professions.

    Returns:
        ``accuracy`` with what is undecided counted as wrong, ``delta_g``, which is what the F1 of men has
        more, and the share that is undecided.
    """
    asked = [line for line in lines if line.gender in ("female", "male")]
    outputs = translate([line.sentence for line in asked])
    told = [gender_of(line, text, target, links) for line, text in zip(asked, outputs, strict=True)]
    gold = [line.gender for line in asked]
    right = sum(one == other for one, other in zip(told, gold, strict=True))
    return {
        "sentences": len(asked),
        "accuracy": _percent(right, len(asked)),
        "delta_g": round(_f1("male", gold, told) - _f1("female", gold, told), 1),
        "undecided": _percent(told.count(None), len(told)),
    }


def gender_of(line: Profession, translation: str, target: str, links: Links) -> Gender | None:
    """Tell the gender of a profession in a translation by its ending and what stands before it.

    Args:
        line: the sentence.
        translation: of it.
        target: language of the translation, one of `LANGUAGES`.
        links: word alignment.

    Returns:
        None if it cannot be told.
    """
    grammar = _GRAMMARS[target]
    place = sum(_WORD.search(word) is not None for word in line.sentence.split(" ")[: line.place])
    words = _WORD.findall(translation)
    for at in sorted(other for one, other in links(_WORD.findall(line.sentence), words) if one == place):
        word = words[at].lower()
        if word.endswith(grammar.female_endings):
            return "female"
        for before in reversed([one.lower() for one in words[max(0, at - _WORDS_BEFORE) : at]]):
            if before in grammar.female:
                return "female"
            if before in grammar.male:
                return "male"
        if grammar.male_endings and word.endswith(grammar.male_endings):
            return "male"
    return None


def _f1(gender: Gender, gold: Sequence[str], told: Sequence[str | None]) -> float:
    right = sum(one == other == gender for one, other in zip(gold, told, strict=True))
    total = gold.count(gender) + told.count(gender)
    return 200 * right / total if total else 0.0


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8-sig").splitlines()
