from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from server.api.generate import GENERATE_SCHEMA, read_generate_fields
from server.api.schemas import (
    TRANSLATE_SCHEMA,
    DetectFields,
    read_detect_fields,
    read_translate_fields,
    translate_answer,
)
from server.errors import InvalidOptionError, InvalidRequestError
from server.service.text.codec import TextTranslation
from server.service.text.languages import Detection
from server.service.text.options import TextOptions
from server.service.translation.request import RequestedOptions, Translation, Work

REQUIRED = {"q": "a", "source": "en", "target": "de"}


def requested(**fields: Any) -> Any:
    return read_translate_fields(REQUIRED | fields, typed=True).requested_options()


def test_the_least_that_is_needed() -> None:
    fields = read_translate_fields(REQUIRED, typed=True)
    assert (fields.texts, fields.format, fields.requested_options().num_hypotheses) == (("a",), "text", 1)


def test_unknown_fields_and_nulls_are_tolerated() -> None:
    fields = read_translate_fields(
        REQUIRED | {"api_key": None, "format": None, "beam_size": None, "secret": [1], "beamsize": 3},
        typed=True,
    )
    assert fields.format == "text"


def test_forms_carry_strings() -> None:
    given = REQUIRED | {"alternatives": "3", "beam_size": "4", "length_penalty": "0.5", "scores": "true"}
    fields = read_translate_fields(given | {"format": "", "api_key": ""}, typed=False)
    assert (fields.alternatives, fields.beam_size, fields.length_penalty, fields.scores) == (
        3,
        4,
        0.5,
        True,
    )


def test_alternatives_may_be_a_string_in_json_too() -> None:
    assert requested(alternatives="2").num_hypotheses == 3


def test_options_are_passed_on() -> None:
    given = {
        "patience": 2,
        "early_stopping": "never",
        "repetition_penalty": 1.2,
        "no_repeat_ngram_size": 3,
        "sampling_topk": 0,
        "sampling_topp": 0.9,
        "sampling_temperature": 0.7,
        "seed": 2**32 - 1,
    }
    found = requested(**given)
    assert {name: found.get(name) for name in given} == given
    assert requested(early_stopping=False).get("early_stopping") is False
    assert requested() == RequestedOptions()


def test_forms_carry_these_options_too() -> None:
    given = REQUIRED | {"early_stopping": "true", "seed": "7", "sampling_topp": "0.5", "sampling_topk": "0"}
    found = read_translate_fields(given, typed=False).requested_options()
    assert found.stated == {"early_stopping": True, "seed": 7, "sampling_topp": 0.5, "sampling_topk": 0}
    never = read_translate_fields(REQUIRED | {"early_stopping": "never"}, typed=False).requested_options()
    assert never.get("early_stopping") == "never"


def test_a_prefix_is_for_one_text_or_for_all_or_for_each() -> None:
    assert requested(target_prefix="Der").target_prefixes == ("Der",)
    assert requested(target_prefix="").target_prefixes == ()
    assert requested(q=["a", "b"], target_prefix="Der").target_prefixes == ("Der", "Der")
    assert requested(q=["a", "b"], target_prefix=["", "Die"]).target_prefixes == ("", "Die")
    with pytest.raises(InvalidOptionError):
        requested(q=["a", "b"], target_prefix=["Die"])


def test_num_hypotheses_is_alternatives_and_one() -> None:
    assert requested(num_hypotheses=3).num_hypotheses == 3
    assert requested(num_hypotheses=3, alternatives=2).num_hypotheses == 3
    with pytest.raises(InvalidOptionError):
        requested(num_hypotheses=3, alternatives=3)


@pytest.mark.parametrize(
    "change",
    [
        {"q": None},
        {"q": 5},
        {"q": True},
        {"q": {}},
        {"q": [["a"]]},
        {"q": [None]},
        {"q": ["a", 1]},
        {"source": None},
        {"source": 1},
        {"target": ["de"]},
        {"format": "markdown"},
        {"format": 1},
        {"api_key": 5},
    ],
)
def test_wrong_types_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_translate_fields(REQUIRED | change, typed=True)
    assert next(iter(change)) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"beam_size": "2"},
        {"beam_size": 2.0},
        {"beam_size": True},
        {"beam_size": -1},
        {"beam_size": 0},
        {"beam_size": 10**30},
        {"length_penalty": "1"},
        {"length_penalty": 1e300},
        {"num_hypotheses": 0},
        {"max_decoding_length": 0},
        {"alternatives": -1},
        {"alternatives": True},
        {"alternatives": "many"},
        {"patience": 0},
        {"patience": 11},
        {"early_stopping": "always"},
        {"early_stopping": 1},
        {"repetition_penalty": 0},
        {"repetition_penalty": 1e9},
        {"no_repeat_ngram_size": -1},
        {"no_repeat_ngram_size": 101},
        {"target_prefix": 5},
        {"target_prefix": ["Der"]},
        {"sampling_topk": -1},
        {"sampling_topk": 1001},
        {"sampling_topk": 1.5},
        {"sampling_topp": 0},
        {"sampling_topp": 1.01},
        {"sampling_temperature": -1},
        {"sampling_temperature": 101},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
        {"scores": "yes"},
        {"scores": 1},
    ],
)
def test_options_are_strict_in_json(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        requested(**change)
    assert next(iter(change)) in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "x", "9" * 5000])
def test_numbers_in_forms_are_finite(value: str) -> None:
    with pytest.raises(InvalidOptionError):
        read_translate_fields(REQUIRED | {"length_penalty": value}, typed=False)


@pytest.mark.parametrize("schema", [TRANSLATE_SCHEMA, GENERATE_SCHEMA, DetectFields])
def test_of_many_wrong_items_only_the_first_is_described(schema: type[BaseModel]) -> None:
    entry = {"source": "a", "target": "b", "forms": [1] * 1000}
    wrong: list[tuple[str, object]] = [("glossary", [entry])] if schema is TRANSLATE_SCHEMA else []
    for items in ([1] * 1000, [{}] * 1000, {f"{n}": 1 for n in range(1000)}):
        wrong += [(name, items) for name in schema.model_fields]
    for name, value in wrong:
        with pytest.raises((ValidationError, InvalidOptionError)) as caught:
            schema.model_validate({name: value}, strict=True)
        if isinstance(caught.value, ValidationError):
            assert caught.value.error_count() < 10, name


@pytest.mark.parametrize("field", ["q", "target_prefix", "protect"])
@pytest.mark.parametrize("value", [5, {"a": "b"}, [5], ["a", None]])
def test_a_field_of_texts_says_what_it_takes(field: str, value: object) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{field} must be a string or an array of strings$"):
        read_translate_fields(REQUIRED | {field: value}, typed=True)


def test_messages_never_repeat_the_input() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_translate_fields(REQUIRED | {"format": "SECRET", "source": ["SECRET"]}, typed=True)
    assert "SECRET" not in str(caught.value)


def test_detect_takes_one_string() -> None:
    assert read_detect_fields({"q": "a"}, typed=True).q == "a"
    with pytest.raises(InvalidRequestError, match=r"^q: input should be a valid string$"):
        read_detect_fields({"q": ["a"]}, typed=True)


def test_a_form_may_have_a_blank_field_of_text_beside_features() -> None:
    assert read_generate_fields({"inputs": "", "features": "k"}, typed=False).texts == ("k",)
    assert read_generate_fields({"inputs": "", "features": ""}, typed=False).texts == ("",)
    for given, typed in (({"inputs": "a", "features": "k"}, False), ({"inputs": "", "features": "k"}, True)):
        with pytest.raises(InvalidRequestError, match="give one of them"):
            read_generate_fields(given, typed=typed)


def translation(
    count: int, reason: str = "eos", detected: tuple[Detection, ...] = (), pivot: str | None = None
) -> Translation:
    text = TextTranslation(("x", "y"), (-0.1234567, -2.0), reason)
    return Translation((text,) * count, "en", "de", Work(count, 1, 1), detected, pivot)


def test_the_answer_has_the_callers_shape() -> None:
    one = read_translate_fields(REQUIRED, typed=True)
    several = read_translate_fields(REQUIRED | {"q": ["a", "b"]}, typed=True)
    assert translate_answer(one, translation(1)) == {"translatedText": "x"}
    assert translate_answer(several, translation(2)) == {"translatedText": ["x", "x"]}


def test_the_answer_holds_what_was_asked_for() -> None:
    fields = read_translate_fields(REQUIRED | {"q": ["a"], "alternatives": 1, "scores": True}, typed=True)
    assert translate_answer(fields, translation(1, detected=(Detection("en", 90),))) == {
        "translatedText": ["x"],
        "detectedLanguage": [{"confidence": 90, "language": "en"}],
        "alternatives": [["y"]],
        "scores": [[-0.123457, -2.0]],
        "finishReason": ["eos"],
    }


def test_a_pivot_is_said_once_whatever_the_shape() -> None:
    for fields in (REQUIRED, REQUIRED | {"q": ["a", "b"]}):
        read = read_translate_fields(fields, typed=True)
        assert translate_answer(read, translation(2, pivot="en"))["pivotLanguage"] == "en"


def test_a_cut_translation_always_says_so() -> None:
    fields = read_translate_fields(REQUIRED, typed=True)
    assert translate_answer(fields, translation(1, "length"))["finishReason"] == "length"


def test_options_of_texts_come_from_the_request_or_the_server() -> None:
    def options(defaults: TextOptions = TextOptions(), **fields: object) -> TextOptions:  # noqa: B008
        return read_translate_fields(REQUIRED | fields, typed=True).text_options(defaults)

    assert options() == TextOptions()
    assert options(TextOptions(guard="off")).guard == "off"
    assert options(TextOptions(guard="off"), guard="flag").guard == "flag"
    assert options(protect="Acme").protect == ("Acme",)
    assert options(protect=["Acme", "/x+/"], split_lines=True, translate_attributes=True) == TextOptions(
        protect=("Acme", "/x+/"), split_lines=True, translate_attributes=True
    )
    for wrong in (
        {"guard": "maybe"},
        {"guard": 1},
        {"protect": [1]},
        {"protect": ["/(/"]},
        {"warnings": "x"},
    ):
        with pytest.raises(InvalidOptionError, match=next(iter(wrong))):
            options(**wrong)


def test_a_form_states_options_of_texts_too() -> None:
    given = REQUIRED | {"protect": "Acme", "split_lines": "true", "guard": "off", "warnings": ""}
    assert read_translate_fields(given, typed=False).text_options(TextOptions()) == TextOptions(
        guard="off", protect=("Acme",), split_lines=True
    )


@pytest.mark.parametrize(("q", "expected"), [("a", ["loop"]), (["a"], [["loop"]])])
def test_warnings_have_the_shape_of_the_texts(q: object, expected: object) -> None:
    done = translation(1)
    done = replace(done, texts=tuple(replace(text, warnings=("loop",)) for text in done.texts))
    fields = read_translate_fields(REQUIRED | {"q": q, "warnings": True}, typed=True)
    assert translate_answer(fields, done)["warnings"] == expected
    assert "warnings" not in translate_answer(read_translate_fields(REQUIRED | {"q": q}, typed=True), done)
