"""Checked first, written then, forced last: with a model that answers as a test wants."""

from collections.abc import Sequence
from dataclasses import replace

from export.bundle import Framing
from server.engine.sequence import Hypothesis, SequenceResult
from server.service.text.glossary.enforcement import TermUse, merged
from server.service.text.glossary.entries import Glossary, make_entry
from server.service.text.jobs import ModelInput
from server.service.text.model_text import Measured, ModelText
from server.service.text.options import Way
from server.service.text.segment import Segment, Span, Tag
from server.service.text.sentences import SentenceTranslator, TranslatedSentence
from tests.server.fake_engine import EOS_ID, FakeTokenizer

GLOSSARY = Glossary([make_entry("dog", "Fido", ["Fidos"]), make_entry("save", "sichern")])
WAY = Way("en", "de", Framing((), (EOS_ID,), ()), glossary=GLOSSARY, guard="off")


class Model:
    """Without word tables: unequal words are linked along the diagonal, and no evidence speaks against."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.tokenizer = FakeTokenizer()
        self.answers = list(answers)
        self.asked: list[ModelInput] = []

    def translate(self, segment: Segment | str, way: Way = WAY) -> TranslatedSentence:
        model = ModelText(self.tokenizer, 64, None, Measured())
        job = SentenceTranslator(model).translate(
            segment if isinstance(segment, Segment) else Segment(segment), way
        )
        try:
            inputs = next(job)
            while True:
                self.asked += inputs
                inputs = job.send([self._result(one) for one in inputs])
        except StopIteration as ended:
            found: TranslatedSentence = ended.value
            return found

    def _result(self, one: ModelInput) -> SequenceResult:
        hypotheses = tuple(
            Hypothesis(tuple(self.tokenizer.encode(text)), -float(rank))
            for rank, text in enumerate(self.answers.pop(0))
        )
        return SequenceResult(hypotheses, "eos", len(one.ids), 1, 0.0, 0.0, 0.0)

    def read(self, number: int) -> str:
        return self.tokenizer.decode(self.asked[number].ids[:-1])


def hows(sentence: TranslatedSentence) -> list[str]:
    return [term.how for term in sentence.terms]


def test_a_sentence_without_a_term_takes_the_ordinary_way() -> None:
    model = Model(["die Katze"])
    found = model.translate("the cat")
    assert (found.texts, found.terms, len(model.asked)) == (("DIE KATZE",), (), 1)


def test_a_term_that_is_there_costs_nothing_more() -> None:
    model = Model(["der Fido"])
    found = model.translate("the dog")
    assert (found.texts, hows(found), len(model.asked)) == (("DER FIDO",), ["found"], 1)


def test_a_term_is_forced_where_its_words_are_of_another_kind() -> None:
    # The fake tokenizer answers in capitals: what stands for `save` is a noun, and `sichern` is none.
    model = Model(["wir halten es"], ["wir PH1 es"])
    found = model.translate("we save it")
    assert (found.texts, hows(found), found.guards) == (("WIR sichern ES",), ["forced"], ())
    assert model.read(1) == "WE PH1 IT"


def test_a_forced_term_leaves_spans_and_other_terms_alone() -> None:
    model = Model(["wir halten den Fido PH1"], ["den Fido PH2 wir PH1"])
    segment = Segment("we save the dog {x}", (Span(16, 19, "{x}"),))
    found = model.translate(segment)
    assert found.texts == ("DEN FIDO {x} WIR sichern",)
    assert hows(found) == ["forced", "found"]


def test_the_last_try_must_write_the_mask_and_a_term_is_not_worth_a_cut() -> None:
    lost = ["wir halten es"]
    model = Model(lost, lost, lost, lost, ["wir"], ["es"])
    found = model.translate("we save it")
    assert (found.texts, hows(found)) == (("WIR HALTEN ES",), ["missing"])
    assert found.guards == (("glossary", "kept"),)
    assert [bool(one.required) for one in model.asked] == [False, False, False, True, False, False]


def test_alternatives_without_the_term_are_left_out() -> None:
    model = Model(["wir sichern es", "wir halten es", "wir sichern alles"])
    found = model.translate("we save it", replace(WAY, hypotheses=3))
    assert found.texts == ("WIR SICHERN ES", "WIR SICHERN ALLES")


def test_a_sentence_that_is_a_term_needs_no_model() -> None:
    model = Model()
    assert model.translate("save").texts == ("sichern",)
    assert model.translate("Save!").texts == ("Sichern!",)
    assert model.translate("SAVE").texts == ("SICHERN",)
    tagged = model.translate(Segment("Save", tags=(Tag(0, "<b>", 0, opens=True), Tag(4, "</b>", 0))))
    assert tagged.texts == ("<b>Sichern</b>",)
    assert model.asked == []


def test_what_became_of_an_entry_is_said_once() -> None:
    first, second = GLOSSARY.entries
    uses = [TermUse(first, "found"), TermUse(second, "written"), TermUse(first, "missing")]
    assert merged(uses) == (TermUse(first, "missing"), TermUse(second, "written"))
    assert [use.satisfied for use in merged(uses)] == [False, True]
