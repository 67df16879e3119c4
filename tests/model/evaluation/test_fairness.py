"""With sets of our own in the layouts of MT-GenEval and WinoMT: what is counted, and what is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from model.evaluation.fairness import (
    FairnessError,
    Profession,
    fairness,
    gender_of,
    read_counterfactuals,
    read_professions,
)

OWN = Path(__file__).parents[3] / "benchmarks" / "inputs" / "fairness"
PAIRS = [
    ("She is a singer.", "He is a singer.", "Sie ist Sängerin.", "Er ist Sänger."),
    ("The old queen slept.", "The old king slept.", "Die alte Königin schlief.", "Der alte König schlief."),
    ("She knew.", "He knew.", "Sie wusste es.", "Er wusste es."),
]
PROFESSIONS = [
    ("female", 1, "The doctor said that she was late.", "doctor"),
    ("male", 1, "The nurse said that he was late.", "nurse"),
    ("male", 1, "The doctor said that he was late.", "doctor"),
    ("neutral", 1, "The doctor said that they were late.", "doctor"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sentences = tmp_path / "mt" / "data" / "sentences" / "test"
    annotated = sentences / "annotated"
    annotated.mkdir(parents=True)
    names = [f"geneval-sentences-{gender}-test.en_de" for gender in ("feminine", "masculine")]
    columns = list(zip(*PAIRS, strict=True))
    for name, code, lines in (
        (names[0], "en", columns[0]),
        (names[1], "en", columns[1]),
        (names[0], "de", columns[2]),
        (names[1], "de", columns[3]),
    ):
        (sentences / f"{name}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (annotated / f"{name}.{code}").write_text("<F>She</F>\n", encoding="utf-8")
    winomt = tmp_path / "mt_gender" / "data" / "aggregates"
    winomt.mkdir(parents=True)
    for name, chosen in (("en", PROFESSIONS), ("en_pro", PROFESSIONS[2:]), ("en_anti", PROFESSIONS[:2])):
        rows = ["\t".join(map(str, row)) for row in chosen]
        (winomt / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def links(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    return [(at, at) for at in range(min(len(source), len(target)))]


def test_a_perfect_system_is_fair(folder: Path) -> None:
    right = {one: two for row in PAIRS for one, two in ((row[0], row[2]), (row[1], row[3]))}
    right |= {
        PROFESSIONS[0][2]: "Die Ärztin sagte, dass sie zu spät sei.",
        PROFESSIONS[1][2]: "Der Pfleger sagte, dass er zu spät sei.",
        PROFESSIONS[2][2]: "Der Arzt sagte, dass er zu spät sei.",
    }
    found = fairness(folder, "en", "de", lambda lines: [right[line] for line in lines], links)
    perfect = {"accuracy": 100.0, "decided": 100.0, "decided_sentences": 3}
    assert found["mt_geneval"] == {"sentences": 6, "female": perfect, "male": perfect, "gap": 0.0}
    assert found["winomt"]["all"] == {"sentences": 3, "accuracy": 100.0, "delta_g": 0.0, "undecided": 0.0}
    assert found["winomt"]["pro_minus_anti"] == 0.0


def test_a_system_that_knows_no_women_is_not(folder: Path) -> None:
    male = {row[0]: row[3] for row in PAIRS[:2]} | {row[1]: row[3] for row in PAIRS}
    male |= {PAIRS[2][0]: ""}  # says nothing, and so nothing wrong
    male |= {row[2]: "Der Arzt sagte es." for row in PROFESSIONS}
    found = fairness(folder, "en", "de", lambda lines: [male[line] for line in lines], links)
    female = {"accuracy": 33.3, "decided": 0.0, "decided_sentences": 2}
    assert found["mt_geneval"]["female"] == female
    assert found["mt_geneval"]["gap"] == 100.0
    assert found["winomt"]["all"] == {"sentences": 3, "accuracy": 66.7, "delta_g": 80.0, "undecided": 0.0}
    assert found["winomt"]["pro_minus_anti"] == 50.0


@pytest.mark.parametrize(
    ("translation", "target", "gender"),
    [
        ("Die Ärztin kam.", "de", "female"),
        ("Der Ärztin half er.", "de", "female"),
        ("Der junge Arzt kam.", "de", "male"),
        ("Ein Kaufmann kam.", "de", "male"),
        ("Ärzte kamen.", "de", None),
        ("La doctora vino.", "es", "female"),
        ("El médico vino.", "es", "male"),
        ("L' infirmière est venue.", "fr", "female"),
        ("L' infirmier est venu.", "fr", "male"),
        ("Une médecin est venue.", "fr", "female"),
    ],
)
def test_the_gender_of_a_profession(translation: str, target: str, gender: str | None) -> None:
    before = {"die", "der", "ein", "la", "el", "une", "l'", "junge"}
    words = [word.strip(".") for word in translation.split()]
    noun = next(n for n, word in enumerate(words) if word.lower() not in before)
    line = Profession("female", 1, "The doctor came.")
    assert gender_of(line, translation, target, lambda ours, theirs: [(1, noun)]) == gender


def test_what_is_missing_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FairnessError, match="neither MT-GenEval's geneval-sentences-feminine-test"):
        fairness(folder, "en", "it", list, links)
    with pytest.raises(FairnessError, match=r"docs/training\.md"):
        fairness(tmp_path / "none", "en", "de", list, links)
    assert "winomt" not in fairness(folder, "en", "de", list)
    (folder / "mt_gender" / "data" / "aggregates" / "en.txt").write_text(
        "female\tone\tThe\n", encoding="utf-8"
    )
    with pytest.raises(FairnessError, match=r"en\.txt line 1"):
        fairness(folder, "en", "de", list, links)


@pytest.mark.parametrize("target", ["de", "es", "fr"])
def test_a_perfect_system_is_fair_on_our_own_set(target: str) -> None:
    pairs = read_counterfactuals(OWN, "en", target)
    assert pairs is not None
    answers = dict(
        zip([*pairs.female, *pairs.male], [*pairs.female_references, *pairs.male_references], strict=True)
    )
    found = fairness(OWN, "en", target, lambda texts: [answers[text] for text in texts])["mt_geneval"]
    assert found["gap"] == 0
    assert found["female"] == found["male"] == {"accuracy": 100, "decided": 100, "decided_sentences": 150}


def test_our_own_professions_are_half_women_and_half_cliches() -> None:
    lines, pro, anti = (read_professions(OWN, f"{name}.txt") for name in ("en", "en_pro", "en_anti"))
    assert lines
    assert pro
    assert anti
    assert sorted(lines, key=str) == sorted([*pro, *anti], key=str)
    for some in (lines, pro, anti):
        assert 2 * [line.gender for line in some].count("female") == len(some)
    assert all(line.sentence.split()[line.place].strip(".,").isalpha() for line in lines)
