"""Whatever a model does with masks, each span is there once; the guard keeps the better translation."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.bundle import Framing
from model.tokenizer import Tokenizer
from server.engine.sequence import FinishReason, Hypothesis, SequenceResult
from server.service.text.jobs import Job, ModelInput, T, together
from server.service.text.model_text import Measured, ModelText
from server.service.text.options import Way
from server.service.text.segment import Segment, Span, Tag
from server.service.text.sentences import SentenceTranslator, TranslatedSentence
from server.service.text.truecasing import Truecaser
from tests.server.fake_engine import EOS_ID, FakeTokenizer
from tests.support.examples import examples

WAY = Way("en", "de", Framing((), (EOS_ID,), ()))
OFF = replace(WAY, guard="off")
MASK = re.compile(r"(?:PH|Q|XX)\d+")

Answer = Callable[[ModelInput, list[str]], list[list[str]]]
"""From an input and its words to the words of each hypothesis."""


class Model:
    """A tokenizer with one id a word, and an engine that answers as a test wants."""

    def __init__(self, answer: Answer, measured: Measured | None = None, longest: int = 64) -> None:
        self.tokenizer = FakeTokenizer()
        self.answer = answer
        self.asked: list[ModelInput] = []
        self.reason: FinishReason = "eos"
        self.translator = SentenceTranslator(ModelText(self.tokenizer, longest, None, measured or Measured()))

    def words(self, ids: Sequence[int]) -> list[str]:
        return [self.tokenizer.decode([one]) for one in ids]

    def result(self, one: ModelInput) -> SequenceResult:
        hypotheses = tuple(
            Hypothesis(tuple(self.tokenizer.encode(" ".join(words))), -0.5 - rank)
            for rank, words in enumerate(self.answer(one, self.words(one.ids[:-1])))
        )
        return SequenceResult(hypotheses, self.reason, len(one.ids), 1, 0.0, 0.0, 0.0)

    def run(self, job: Job[T]) -> T:
        answers: list[SequenceResult] | None = None
        while True:
            try:
                asked = next(job) if answers is None else job.send(answers)
            except StopIteration as ended:
                result: T = ended.value
                return result
            self.asked += asked
            answers = [self.result(one) for one in asked]

    def translate(self, segment: Segment | str, way: Way = WAY) -> TranslatedSentence:
        segment = Segment(segment) if isinstance(segment, str) else segment
        return self.run(self.translator.translate(segment, way))


def copying(one: ModelInput, words: list[str]) -> list[list[str]]:
    return [words]


def translated(words: list[str]) -> list[str]:
    """Gives words another ending; marks, masks and numbers stay."""
    return [word if MASK.search(word) else re.sub(r"([a-z]+)", r"\1en", word.lower()) for word in words]


def translating(one: ModelInput, words: list[str]) -> list[list[str]]:
    return [translated(words)]


def with_spans(text: str) -> Segment:
    """Make spans of what stands in braces."""
    return Segment(text, tuple(Span(*match.span()) for match in re.finditer(r"\{\w+\}", text)))


def loses(*templates: str, required: bool = False) -> Answer:
    """Drops masks of some templates, and those that must be there."""

    def answer(one: ModelInput, words: list[str]) -> list[list[str]]:
        if one.required and not required:
            return [words]
        lost = re.compile("|".join(rf"{template}\d" for template in templates))
        return [[word for word in words if not lost.search(word)]]

    return answer


@pytest.mark.parametrize(
    ("answer", "rung", "inputs"),
    [
        (copying, 0, 1),
        (loses("PH"), 1, 2),
        (loses("PH", "Q"), 2, 3),
        (loses("PH", "Q", required=True), 3, 6),  # and three parts
    ],
)
def test_spans_go_down_the_ladder_as_far_as_they_must(answer: Answer, rung: int, inputs: int) -> None:
    model = Model(answer)
    found = model.translate(with_spans("put {a} and {b} there"), OFF)
    assert found.texts == ("PUT {a} AND {b} THERE",)
    assert found.rung == rung
    assert len(model.asked) == inputs
    assert [bool(one.required) for one in model.asked[:3]] == [False, False, True][: len(model.asked)]


def test_what_stands_between_spans_keeps_its_white_space() -> None:
    found = Model(loses("PH", "Q", required=True)).translate(with_spans("{a} + {b}, {c} here"), OFF)
    assert (found.texts, found.rung) == (("{a} + {b}, {c} HERE",), 3)
    blank_inside = Segment("put a  there", (Span(4, 6, "⟦a⟧"),))
    assert Model(loses("PH", "Q", required=True)).translate(blank_inside, OFF).texts == ("PUT ⟦a⟧ THERE",)


def test_masks_are_those_that_were_measured() -> None:
    model = Model(loses("ZZ"), Measured(masks=("ZZ{n}", "YY{n}")))
    found = model.translate(with_spans("put {a} there"), OFF)
    assert (found.texts, found.rung) == (("PUT {a} THERE",), 1)
    assert [model.words(one.ids[:-1])[1] for one in model.asked] == ["ZZ1", "YY1"]


def test_a_mask_of_the_text_is_not_used() -> None:
    model = Model(copying)
    assert model.translate(with_spans("PH1 is not {a} here"), OFF).texts == ("PH1 IS NOT {a} HERE",)
    assert "PH2" in model.words(model.asked[0].ids[:-1])


def test_spans_go_where_the_model_puts_their_masks() -> None:
    model = Model(lambda one, words: [words[::-1]])
    assert model.translate(with_spans("put {a} and {b} there"), OFF).texts == ("THERE {b} AND {a} PUT",)


class Careless:
    """Loses, doubles, garbles and moves masks, forgets words, repeats itself; each time alike."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, one: ModelInput, words: list[str]) -> list[list[str]]:
        draw = random.Random(repr((self.seed, words, bool(one.required), one.no_repeat_ngram_size)))
        kinds = (["keep"] * 3 + ["drop", "double", "garble"]) if draw.random() < 0.9 else ["drop"]
        hypotheses = []
        for _ in range(2):
            output: list[str] = []
            for word in words:
                kind = draw.choice(kinds if MASK.search(word) else ["keep"] * 9 + ["drop", "double"])
                output += {"keep": [word], "drop": [], "double": [word, word]}.get(kind, [f"x{word}", "PH9"])
            if draw.random() < 0.3:
                draw.shuffle(output)
            hypotheses.append(output * draw.choice([1, 1, 1, 1, 5]))
        return hypotheses


WORDS = st.sampled_from(
    ["word", "and", "Tom", "3", "(yes)", '"no"', "it,", "end.", "PH1", "Q2", "a", "-", "é", "which"]
)
KEPT = st.sampled_from(["{x}", "PH1", "12:30", "%s", " ", " x ", "_"])


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Words with spans, each of which is written in a way of its own, and elements around some."""
    text, spans, tags = draw(WORDS), [], []
    for number in range(draw(st.integers(1, 24))):
        text += draw(st.sampled_from([" ", " ", " ", ""]))
        if draw(st.integers(0, 2)) == 0:
            kept = draw(KEPT)
            spans.append(Span(len(text), len(text) + len(kept), f"⟦{number}⟧"))
            text += kept
            if kept[-1].isalnum():
                text += " "
        else:
            if draw(st.integers(0, 9)) == 0:
                tags.append(Tag(len(text), f"⟨{number}⟩"))
            text += " " + draw(WORDS)
    return Segment(text, tuple(spans), tuple(tags), draw(st.sampled_from(["none", "html"])))


def check_that_nothing_is_lost(segment: Segment, seed: int, guard: str) -> None:
    found = Model(Careless(seed), longest=24).translate(segment, replace(WAY, guard=guard, hypotheses=2))
    for text in found.texts:
        written = re.findall("⟦[0-9]+⟧", text)
        assert sorted(written) == sorted(span.output or "" for span in segment.spans)
        assert sorted(re.findall("⟨[0-9]+⟩", text)) == sorted(tag.output for tag in segment.tags)
        assert "\ufffd" not in text
    assert 0 <= found.rung <= 3
    assert 1 <= len(found.texts) == len(found.scores) <= 2


GUARDS = st.sampled_from(["off", "flag", "mend"])


@settings(max_examples=examples(300))
@given(segments(), st.integers(0, 99), GUARDS)
def test_every_span_is_there_once_whatever_the_model_does(segment: Segment, seed: int, guard: str) -> None:
    check_that_nothing_is_lost(segment, seed, guard)


@pytest.mark.exhaustive
@settings(max_examples=10_000)
@given(segments(), st.integers(0, 9999), GUARDS)
def test_every_span_is_there_once_in_ten_thousand_sentences(segment: Segment, seed: int, guard: str) -> None:
    check_that_nothing_is_lost(segment, seed, guard)


@settings(max_examples=examples(50))
@given(st.lists(segments(), min_size=1, max_size=5), st.integers(0, 99), GUARDS)
def test_a_sentence_is_the_same_alone_and_among_others(texts: list[Segment], seed: int, guard: str) -> None:
    way = replace(WAY, guard=guard, hypotheses=2)
    alone = [Model(Careless(seed), longest=24).translate(text, way) for text in texts]
    model = Model(Careless(seed), longest=24)
    jobs = [model.translator.translate(text, way) for text in [*texts, *texts]]
    assert model.run(together(jobs)) == alone * 2


def test_hypotheses_without_their_masks_are_left_out() -> None:
    model = Model(lambda one, words: [words, words[:1], [*words, "ja"]])
    found = model.translate(with_spans("put {a} there"), replace(OFF, hypotheses=3))
    assert (found.texts, found.scores) == (("PUT {a} THERE", "PUT {a} THERE JA"), (-0.5, -2.5))


def test_alternatives_differ_in_words() -> None:
    model = Model(lambda one, words: [words, [f"{word}!" for word in words], [*words, "ja"]])
    flagged = replace(OFF, hypotheses=3, guard="flag")
    assert model.translate("one two", flagged).texts == ("ONE TWO", "ONE TWO JA")
    off = replace(OFF, hypotheses=3)
    assert len(model.translate("one two", off).texts) == 3  # the model's own words, all of them


LONG = "the old man came home late, because a train was slow, and his dog was asleep"
LONG_TRANSLATED = " ".join(translated(LONG.split())).upper()


def test_long_sentences_are_cut_into_clauses_and_lose_nothing() -> None:
    model = Model(translating, Measured(comfortable_tokens=8))
    assert model.translate(LONG).texts == (LONG_TRANSLATED,)
    assert len(model.asked) > 1
    assert all(len(one.ids) <= 9 for one in model.asked)
    whole = Model(translating)
    assert whole.translate(LONG).texts == (LONG_TRANSLATED,)
    assert len(whole.asked) == 1


def test_a_clause_that_did_not_end_marks_the_sentence() -> None:
    model = Model(translating, Measured(comfortable_tokens=8))
    model.reason = "length"
    assert model.translate(LONG, replace(WAY, may_be_cut=True)).finish_reason == "length"


def looping_if_long(one: ModelInput, words: list[str]) -> list[list[str]]:
    return [["ja", "so", "ja"] * 9] if len(words) > 10 else [translated(words)]


def test_a_loop_is_mended_in_clauses() -> None:
    found = Model(looping_if_long).translate(LONG)
    assert found.texts == (LONG_TRANSLATED,)
    assert found.guards == (("loop", "mended"),)


def test_without_the_guard_a_loop_is_the_models_word() -> None:
    off = Model(looping_if_long).translate(LONG, OFF)
    assert off.texts == (" ".join(["JA SO JA"] * 9),)
    assert off.guards == ()
    flagged = Model(looping_if_long).translate(LONG, replace(WAY, guard="flag"))
    assert flagged.texts == off.texts
    assert flagged.guards == (("loop", "kept"),)


def untranslated_if_long(one: ModelInput, words: list[str]) -> list[list[str]]:
    if len(words) > 8:
        return [
            ["he", "did", "not", "know", "that", "we", "had", "been", "at", "the", "house", "with", "her"]
        ]
    return [["wir", "waren", "in", "dem", "alten", "haus"]]


def test_what_stayed_in_the_source_language_is_mended_in_clauses(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = FakeTokenizer.decode
    monkeypatch.setattr(FakeTokenizer, "decode", lambda self, ids: decode(self, ids).lower())  # no title
    found = Model(untranslated_if_long).translate(LONG)
    assert found.guards == (("language", "mended"),)
    assert "wir waren" in found.texts[0]
    flagged = Model(untranslated_if_long).translate(LONG, replace(WAY, guard="flag"))
    assert flagged.guards == (("language", "kept"),)


def looping_unless_blocked(one: ModelInput, words: list[str]) -> list[list[str]]:
    may = one.no_repeat_ngram_size or "TRAIN" in words
    return [translated(words) if may else ["ja"] * 9]


def test_a_short_loop_is_tried_again_without_repetition() -> None:
    model = Model(looping_unless_blocked)
    found = model.translate("one two three", WAY)
    assert found.texts == ("ONEEN TWOEN THREEEN",)
    assert [one.no_repeat_ngram_size for one in model.asked] == [0, 3]


def test_a_clause_that_loops_is_tried_again_alone() -> None:
    model = Model(looping_unless_blocked, Measured(comfortable_tokens=8))
    assert model.translate(LONG).texts == (LONG_TRANSLATED,)
    assert model.translate(LONG).guards == (("loop", "mended"),)
    flagged = model.translate(LONG, replace(WAY, guard="flag"))
    assert "JA JA JA" in flagged.texts[0]


def test_what_is_no_better_is_not_taken() -> None:
    model = Model(lambda one, words: [["nein", "da"] * 9] if one.no_repeat_ngram_size else [["ja"] * 9])
    found = model.translate("one two three", WAY)
    assert found.texts == ("JA",)  # the loop of the first translation, shortened
    assert ("loop", "kept") in found.guards


def test_a_lost_number_is_protected() -> None:
    model = Model(lambda one, words: [[word for word in translated(words) if word != "17"]])
    found = model.translate("she has 17 dogs")
    assert found.texts == ("SHEEN HASEN 17 DOGSEN",)
    assert found.guards == (("numbers", "mended"),)


def test_a_second_try_keeps_what_the_first_one_cut() -> None:
    def loops_and_forgets(one: ModelInput, words: list[str]) -> list[list[str]]:
        said = ["ja"] * 30 if len(words) > 12 else translated(words)
        return [[word for word in said if word != "17"]]

    model = Model(loops_and_forgets, Measured(comfortable_tokens=128))
    found = model.translate("one two three four five six, and seven eight nine 17 ten eleven twelve")
    assert "17" in found.texts[0].split()
    assert found.guards == (("loop", "mended"), ("numbers", "mended"))
    assert [len(one.ids) > 12 for one in model.asked] == [True, False, False, False, False]


@pytest.mark.parametrize("nothing", ["save", ""])
@pytest.mark.parametrize(("guard", "expected"), [("mend", ["save", "Save"]), ("off", ["Save"])])
def test_a_label_that_comes_back_or_is_lost_is_read_as_it_stands(
    repository: Path, guard: str, expected: list[str], nothing: str
) -> None:
    tokenizer = Tokenizer.load(repository / "bundles/en-de/source.spm")
    translator = SentenceTranslator(ModelText(tokenizer, 64, Truecaser(tokenizer)))
    job = translator.translate(Segment("Save"), replace(WAY, guard=guard, framing=Framing((), (), ())))
    asked = [next(job)[0]]
    said = nothing if guard == "mend" else "Save"
    while True:
        tokens = tuple(tokenizer.encode_target_batch([said])[0])
        result = SequenceResult((Hypothesis(tokens, -0.5),), "eos", 1, 1, 0.0, 0.0, 0.0)
        try:
            asked += job.send([result])
        except StopIteration as ended:
            assert ended.value.texts == ("Save" if guard == "off" else "Sichern",)
            break
        said = "sichern"
    assert [tokenizer.decode(one.ids) for one in asked] == expected


def test_what_the_model_has_no_word_for_comes_back_as_it_was() -> None:
    found = Model(lambda one, words: [[]]).translate("one")
    assert (found.texts, found.guards) == (("one",), (("truncated", "kept"),))


def test_lost_quotes_come_back() -> None:
    model = Model(lambda one, words: [[word.replace('"', "") for word in translated(words)]])
    found = model.translate('she said "no" today')
    assert found.texts == ('SHEEN SAIDEN "NOEN" TODAYEN',)
    assert found.guards == (("marks", "mended"),)


def test_alternatives_get_lost_quotes_too() -> None:
    model = Model(lambda one, words: [["she", said, "no"] for said in ("said", "asked")])
    found = model.translate('she said "no"', replace(WAY, hypotheses=2))
    assert found.texts == ('SHE SAID "NO"', 'SHE ASKED "NO"')


def test_nothing_to_translate_asks_nobody() -> None:
    model = Model(copying)
    model.tokenizer.encode = lambda text: []  # type: ignore[method-assign]
    assert model.translate("one two").texts == ("one two",)
    assert model.asked == []


@pytest.mark.parametrize("sign", ["💨 ", " 💨", "💨"])
@pytest.mark.parametrize("at", [0, 5, 9])
def test_a_sign_leaves_no_white_space_at_the_ends(sign: str, at: int) -> None:
    model = Model(lambda one, words: [words[::-1]])
    (text,) = model.translate(Segment("wind weak", (), (Tag(at, sign),)), OFF).texts
    assert text.replace("💨", "").split() == ["WEAK", "WIND"]
    assert text == text.strip()
    assert "  " not in text
