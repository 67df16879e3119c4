"""A decoding option is defined once, and every surface shows the options of the definition."""

import inspect
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, create_model

from server.api.generate import GENERATE_SCHEMA, GenerateFields
from server.api.schemas import TRANSLATE_SCHEMA, TranslateFields, option_fields, read_translate_fields
from server.cli.commands import generate, translate
from server.cli.flags import option_flags
from server.engine.options import OPTIONS, DecodingOptions, Option, Range, define, options_of
from server.errors import InvalidOptionError
from server.service.request_limits import RequestLimits
from server.service.text.options import TEXT_OPTIONS
from server.service.translation.decoding_options import choose_options
from server.service.translation.request import RequestedOptions
from tests.support.options_table import TABLES, table, written

ROOT = Path(__file__).parents[2]
LIMITS = RequestLimits(1, 10, 20, 12, 100, 1, 8, (1, 2, 4, 8))
FIELDS = [one for one in OPTIONS if one.has_field]
NUMBERS = [one for one in FIELDS if one.range is not None]
OWN_FLAGS = {
    "bundle", "source", "target", "split", "n_best", "errors", "glossary", "pivot_language", "workers",
    "device", "shortlist", "progress", "features",
}  # fmt: skip
VALUES: dict[str, Any] = {"early_stopping": "never", "return_scores": True}
NEEDED = {
    "num_hypotheses": {"beam_size": 4},
    "sampling_topp": {"sampling_topk": 9},
    "sampling_temperature": {"sampling_topk": 9},
}


@dataclass(frozen=True, slots=True)
class WithOneMore(DecodingOptions):
    """The options as they would be with one more field."""

    length_bonus: float = define(0.5, "Added for every token.", range=Range(0, at_most=3))


ONE_MORE = options_of(WithOneMore)


def test_requests_have_a_field_for_every_option_with_its_bounds_and_help() -> None:
    own = set(TranslateFields.model_fields)
    assert set(TRANSLATE_SCHEMA.model_fields) - own == {one.field_name for one in (*FIELDS, *TEXT_OPTIONS)}
    properties = TRANSLATE_SCHEMA.model_json_schema()["properties"]
    for one in NUMBERS:
        allowed = one.range
        assert allowed is not None
        (number, null) = properties[one.field_name]["anyOf"]
        bounds = {"minimum": allowed.at_least, "exclusiveMinimum": allowed.above, "maximum": allowed.at_most}
        assert {name: number.get(name) for name in bounds} == bounds
        assert (null, properties[one.field_name]["description"]) == ({"type": "null"}, one.help)


def test_other_tasks_have_every_option_of_decoding() -> None:
    decoding = {one.field_name for one in FIELDS}
    assert set(GENERATE_SCHEMA.model_fields) - set(GenerateFields.model_fields) == decoding
    flags = [one.name for one in OPTIONS if one.has_flag]
    assert [name for name in inspect.signature(generate).parameters if name not in OWN_FLAGS] == flags


def test_the_command_has_a_flag_for_every_option() -> None:
    flags = [one.name for one in (*OPTIONS, *TEXT_OPTIONS) if one.has_flag]
    assert [name for name in inspect.signature(translate).parameters if name not in OWN_FLAGS] == flags


def test_the_documents_have_a_row_for_every_option() -> None:
    for file, options in TABLES.items():
        remedy = f"{file.name} differs from the options; run python -m tests.support.options_table"
        assert written(file.read_text(encoding="utf-8")) == table(options), remedy


@pytest.mark.parametrize("one", [one for one in FIELDS if not one.is_text], ids=lambda one: one.name)
def test_a_field_reaches_the_engine(one: Option) -> None:
    value = VALUES.get(one.name, 2 if one.type is int else 0.5)
    given = {"q": "a", "source": "en", "target": "de", one.field_name: value, **NEEDED.get(one.name, {})}
    requested = read_translate_fields(given, typed=True).requested_options()
    assert getattr(choose_options(requested, LIMITS, 10), one.name) == value != one.default


@pytest.mark.parametrize("one", NUMBERS, ids=lambda one: one.name)
def test_the_engine_refuses_what_is_out_of_range(one: Option) -> None:
    allowed = one.range
    assert allowed is not None
    low = allowed.above if allowed.above is not None else (allowed.at_least or 0) - 1
    for value in (low, (allowed.at_most or 0) + 1, float("nan")):
        with pytest.raises(InvalidOptionError, match=one.name):
            DecodingOptions(**{one.name: value}).validate()


def test_one_more_field_is_one_more_everywhere() -> None:
    (flag,) = [each for each in option_flags(ONE_MORE) if each.name == "length_bonus"]
    assert flag.annotation.__metadata__[0].help == "Added for every token."
    schema: type[BaseModel] = create_model("Schema", **option_fields(ONE_MORE))
    assert schema.model_validate({"length_bonus": "2"}).model_dump()["length_bonus"] == 2.0
    with pytest.raises(ValidationError):
        schema.model_validate({"length_bonus": 4})
    assert "|`length_bonus`|0.5|0 to 3|Added for every token.|\n" in table(ONE_MORE)


def test_an_option_without_rules_of_its_own_is_named_where_it_is_defined_and_in_the_search() -> None:
    for name in ("patience", "repetition_penalty"):
        found = subprocess.run(
            ["git", "grep", "-l", name, "--", "server/*.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        files = set(found.stdout.split())
        assert "server/engine/options.py" in files
        assert {f for f in files if not f.startswith("server/engine/search/")} == {"server/engine/options.py"}


def test_what_is_no_option_cannot_be_requested() -> None:
    with pytest.raises(TypeError):
        RequestedOptions(beamsize=4)
