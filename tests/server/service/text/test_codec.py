from collections.abc import Sequence

import pytest

from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, SequenceResult
from server.errors import TextTooLongError
from server.service.request_limits import RequestLimits
from server.service.text.codec import Document, TextCodec, TextTranslation
from server.service.text.truecasing import Truecaser
from tests.server.fake_engine import EOS_ID, FakeEngine, FakeTokenizer, manifest

LIMITS = RequestLimits(10, 1000, 100, 8, 64, 1, 4, (1, 2, 4))


@pytest.fixture
def codec() -> TextCodec:
    return TextCodec(FakeTokenizer(), manifest().special_tokens, LIMITS)


def translate(codec: TextCodec, document: Document, hypotheses: int = 1) -> list[TextTranslation]:
    options = DecodingOptions(beam_size=hypotheses, num_hypotheses=hypotheses)
    results = [FakeEngine().result(sequence, options) for sequence in document.sequences]
    return codec.decode(document, results, hypotheses)


def test_layout_survives(codec: TextCodec) -> None:
    text = "  Hello there.  How are you?\n\n\tFine!\r\n"
    document = codec.encode([text], "en", is_html=False)
    assert [len(sequence) for sequence in document.sequences] == [3, 4, 2]
    assert all(sequence[-1] == EOS_ID for sequence in document.sequences)
    assert translate(codec, document)[0].hypotheses == (text.upper(),)


def test_equal_sentences_share_a_sequence(codec: TextCodec) -> None:
    document = codec.encode(["Yes. Yes. No.", "Yes."], "en", is_html=False)
    assert len(document.sequences) == 2
    assert [text.hypotheses[0] for text in translate(codec, document)] == ["YES. YES. NO.", "YES."]


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000", "...", "\u200bx\u200b".replace("x", "")])
def test_text_with_nothing_to_translate_is_copied(codec: TextCodec, text: str) -> None:
    document = codec.encode([text], "en", is_html=False)
    assert document.sequences == ()
    assert codec.decode(document, [], 1) == [TextTranslation((text,), (0.0,), "eos")]


def test_a_sentence_that_the_tokenizer_drops_is_copied() -> None:
    class Dropping(FakeTokenizer):
        def encode(self, text: str) -> list[int]:
            return []

    codec = TextCodec(Dropping(), manifest().special_tokens, LIMITS)
    document = codec.encode(["a"], "en", is_html=False)
    assert document.sequences == ()
    assert codec.decode(document, [], 1)[0].hypotheses == ("a",)


def test_a_sentence_over_the_models_limit_is_refused(codec: TextCodec) -> None:
    codec.encode(["w " * 7], "en", is_html=False)
    with pytest.raises(TextTooLongError, match="a sentence has 9 tokens; the model reads at most 8"):
        codec.encode(["w " * 8], "en", is_html=False)


def test_html_is_unescaped_and_escaped(codec: TextCodec) -> None:
    document = codec.encode(["<p>Tom &amp; <b>Jerry</b> &lt;3</p> <br>"], "en", is_html=True)
    assert translate(codec, document)[0].hypotheses == ("<p>TOM &amp; <b>JERRY</b> &lt;3</p> <br>",)


def test_alternatives_combine_hypotheses_of_the_same_rank(codec: TextCodec) -> None:
    document = codec.encode(["One. Two."], "en", is_html=False)
    (text,) = translate(codec, document, hypotheses=2)
    assert text.hypotheses == ("ONE. TWO.", "ONE. ONE. TWO. TWO.")
    assert text.scores == (-0.5, -1.5)


def test_too_few_hypotheses_are_filled_with_the_last(codec: TextCodec) -> None:
    document = codec.encode(["One."], "en", is_html=False)
    result = SequenceResult((Hypothesis((4,), -1.0),), "eos", 2, 1, 0.0, 0.0, 0.0)
    assert codec.decode(document, [result], 2)[0].hypotheses == ("ONE.", "ONE.")


def test_a_cut_sentence_marks_its_text(codec: TextCodec) -> None:
    document = codec.encode(["One two three. Four.", "Four."], "en", is_html=False)
    options = DecodingOptions(max_decoding_length=2)
    results = [FakeEngine().result(sequence, options) for sequence in document.sequences]
    assert [text.finish_reason for text in codec.decode(document, results, 1)] == ["length", "eos"]


def test_a_prefix_is_for_the_first_sentence_of_its_text(codec: TextCodec) -> None:
    texts = ["-- Yes. No.", "Yes. Yes.", "..."]
    document = codec.encode(texts, "en", is_html=False, target_prefixes=["oh yes", "", "unused"])
    assert [len(prefix) for prefix in document.target_prefixes] == [2, 0, 0]
    assert len(document.sequences) == 3  # "Yes." with the prefix, "No.", "Yes." without
    results = [
        FakeEngine().result(sequence, DecodingOptions(target_prefix=prefix))
        for sequence, prefix in zip(document.sequences, document.target_prefixes, strict=True)
    ]
    found = [text.hypotheses[0] for text in codec.decode(document, results, 1)]
    assert found == ["OH YES -- YES. NO.", "YES. YES.", "..."]


class _Undoes(Truecaser):
    """Stands in for a truecaser with a vocabulary."""

    def __init__(self) -> None:
        pass

    def restore(self, sentence: str) -> tuple[str, bool]:
        return sentence.lower(), sentence.isupper()


def test_translations_of_capitals_are_put_into_capitals() -> None:
    class Keeping(FakeTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return super().decode(ids).lower()

    codec = TextCodec(Keeping(), manifest().special_tokens, LIMITS, _Undoes())
    document = codec.encode(["YES. yes. Mop.", "<b>A & B</b> yes"], "en", is_html=False)
    assert document.capitals.count(True) == 1
    assert document.sequences[0] == document.sequences[1]
    assert [text.hypotheses[0] for text in translate(codec, document)] == [
        "YES. yes. mop.",
        "<b>a & b</b> yes",
    ]
    marked = codec.encode(["<p>A &amp; B</p>"], "en", is_html=True)
    assert translate(codec, marked)[0].hypotheses == ("<p>A &amp; B</p>",)
