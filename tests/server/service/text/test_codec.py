from collections.abc import Sequence
from dataclasses import replace

import pytest

from export.bundle import Framing
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import TextTooLongError
from server.service.request_limits import RequestLimits
from server.service.text.codec import Document, Reading, TextCodec, TextTranslation
from server.service.text.model_text import ModelText
from server.service.text.options import TextOptions, Way
from server.service.text.truecasing import Truecaser
from tests.server.fake_engine import EOS_ID, FakeEngine, FakeTokenizer

LIMITS = RequestLimits(10, 1000, 100, 64, 64, 1, 4, (1, 2, 4))
WAY = Way("en", "de", Framing((), (EOS_ID,), ()))
HTML = Reading(is_html=True)


def codec_of(tokenizer: FakeTokenizer, truecaser: Truecaser | None = None, longest: int = 64) -> TextCodec:
    return TextCodec(ModelText(tokenizer, longest, truecaser), LIMITS)


@pytest.fixture
def codec() -> TextCodec:
    return codec_of(FakeTokenizer())


def translate(document: Document, hypotheses: int = 1, longest: int = 64) -> list[TextTranslation]:
    """Let the fake engine decode until nothing is left; it writes every word in capitals."""
    while document.inputs:
        results: list[SequenceResult] = []
        for one in document.inputs:
            options = DecodingOptions(
                beam_size=hypotheses,
                num_hypotheses=hypotheses,
                target_prefix=one.begin,
                max_decoding_length=longest,
            )
            results.append(FakeEngine().result(one.ids, options))
        document.resume(results)
    return document.translations(hypotheses)


def test_layout_survives(codec: TextCodec) -> None:
    text = "  Hello there.  How are you?\n\n\tFine!\r\n"
    document = codec.read([text], WAY, Reading())
    assert [len(one.ids) for one in document.inputs] == [3, 4, 2]
    assert all(one.ids[-1] == EOS_ID for one in document.inputs)
    assert translate(document)[0].hypotheses == (text.upper(),)


def test_equal_sentences_are_decoded_once(codec: TextCodec) -> None:
    document = codec.read(["Yes. Yes. No.", "Yes."], WAY, Reading())
    assert len(document.inputs) == 2
    assert [text.hypotheses[0] for text in translate(document)] == ["YES. YES. NO.", "YES."]


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\u3000", "...", "\u200b", "{name}", "12:30", "https://a.example/b", "😀", "b)", "%s: %d"],
)
def test_text_with_nothing_to_translate_is_copied(codec: TextCodec, text: str) -> None:
    document = codec.read([text], WAY, Reading())
    assert document.inputs == []
    assert document.translations(1) == [TextTranslation((text,), (0.0,), "eos")]


def test_a_sentence_that_the_tokenizer_drops_is_copied() -> None:
    class Dropping(FakeTokenizer):
        def encode(self, text: str) -> list[int]:
            return []

    document = codec_of(Dropping()).read(["one two"], WAY, Reading())
    assert document.inputs == []
    assert document.translations(1)[0].hypotheses == ("one two",)


def test_a_sentence_over_the_models_limit_is_cut_and_loses_nothing() -> None:
    text = " ".join(f"word{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10]}" for i in range(90))
    document = codec_of(FakeTokenizer(), longest=32).read([text], WAY, Reading())
    assert len(document.inputs) > 2
    assert max(len(one.ids) for one in document.inputs) <= 32
    assert translate(document)[0].hypotheses == (text.upper(),)


def test_a_request_over_the_limit_is_refused(codec: TextCodec) -> None:
    with pytest.raises(TextTooLongError, match=r"the request has 1\d\d tokens; at most 100"):
        codec.read([f"some words {'ab' * n} here." for n in range(1, 31)], WAY, Reading())


def test_html_is_unescaped_and_escaped(codec: TextCodec) -> None:
    document = codec.read(["<p>Tom &amp; <b>Jerry</b> &lt;3</p> <br>"], WAY, HTML)
    assert [one.ids for one in document.inputs] != []
    assert translate(document)[0].hypotheses == ("<p>TOM &amp; <b>JERRY</b> &lt;3</p> <br>",)


def test_alternatives_combine_hypotheses_of_the_same_rank(codec: TextCodec) -> None:
    (text,) = translate(codec.read(["One. Two."], replace(WAY, hypotheses=2, guard="off"), Reading()), 2)
    assert text.hypotheses == ("ONE. TWO.", "ONE. ONE. TWO. TWO.")
    assert text.scores == (-0.5, -1.5)


def test_alternatives_that_differ_in_marks_alone_are_left_out() -> None:
    class Exclaiming(FakeTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return super().decode(ids[:1]) + "!" * len(ids)

    document = codec_of(Exclaiming()).read(["One."], replace(WAY, hypotheses=2, guard="flag"), Reading())
    assert translate(document, 2)[0].hypotheses == ("ONE.!",)


def test_a_cut_sentence_marks_its_text(codec: TextCodec) -> None:
    way = replace(WAY, may_be_cut=True)
    document = codec.read(["One two three. Four.", "Four."], way, Reading())
    assert [text.finish_reason for text in translate(document, longest=2)] == ["length", "eos"]


def test_a_prefix_is_for_the_first_sentence_of_its_text(codec: TextCodec) -> None:
    texts = ["-- Yes. No.", "Yes. Yes.", "..."]
    document = codec.read(texts, replace(WAY, guard="off"), Reading(), ["oh yes", "", "unused"])
    assert [len(one.begin) for one in document.inputs] == [2, 0, 0]
    found = [text.hypotheses[0] for text in translate(document)]
    assert found == ["-- OH YES YES. NO.", "YES. YES.", "..."]


class _Undoes(Truecaser):
    """Stands in for a truecaser with a vocabulary."""

    def __init__(self) -> None:
        pass

    def restore(self, sentence: str) -> tuple[str, bool]:
        return sentence.lower(), sentence.isupper()


class _Keeping(FakeTokenizer):
    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).lower()


def test_translations_of_capitals_are_put_into_capitals() -> None:
    codec = codec_of(_Keeping(), _Undoes())
    document = codec.read(["YES. yes. Mop."], replace(WAY, guard="off"), Reading())
    assert len(document.inputs) == 2  # capitals and small letters are the same to the model
    assert translate(document)[0].hypotheses == ("YES. yes. mop.",)


def test_what_is_protected_keeps_its_letters_in_capitals() -> None:
    codec = codec_of(FakeTokenizer(), _Undoes())
    reading = Reading(TextOptions(protect=("Mop", "/w[a-z]t/")))
    document = codec.read(["PRESS {key} now, Mop wet"], WAY, reading)
    assert translate(document)[0].hypotheses == ("PRESS {key} NOW, Mop wet",)


def test_guards_off_leave_the_models_words_alone() -> None:
    class Stuttering(FakeTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return "Ja ja ja ja ja ja ja ja ja."

    codec = codec_of(Stuttering())
    text = "one two three"
    (off,) = translate(codec.read([text], replace(WAY, guard="off"), Reading()))
    assert (off.hypotheses, off.warnings) == (("Ja ja ja ja ja ja ja ja ja.",), ())
    flagging = codec.read([text], replace(WAY, guard="flag"), Reading())
    (flagged,) = translate(flagging)
    assert "loop" in flagged.warnings
    assert flagging.guards[("loop", "kept")] == 1
    (mended,) = translate(codec.read([text], WAY, Reading()))
    assert len(mended.hypotheses[0].split()) < 6


def test_a_whole_text_is_one_input_as_it_is(codec: TextCodec) -> None:
    texts = ["Keep {this}. HELLO THERE?\n- a list", "", " \n"]
    document = codec.read(texts, WAY, Reading(whole=True))
    assert [len(one.ids) for one in document.inputs] == [len(texts[0].split()) + 1]
    whole, empty, blank = translate(document)
    assert whole.hypotheses == (" ".join(texts[0].split()).upper(),)
    assert empty == blank == TextTranslation(("",), (0.0,), "eos")
