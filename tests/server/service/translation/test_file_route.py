"""Files through one model or two, and lines that come out as they went in."""

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import length_hint
from pathlib import Path
from typing import Any

import pytest

from export.bundle import BundleError
from server.errors import InvalidOptionError, UnsupportedLanguageError
from server.service.text.options import TextOptions
from server.service.translation.file_route import FileLeg, choose_route, translation_through
from server.service.translation.file_translation import (
    FileTranslator,
    LineError,
    choose_direction,
    request_of_lines,
    without_limits,
)
from server.service.translation.request import RequestedOptions
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, manifest, served_model
from tests.server.fake_router import directions
from tests.support.factories import renamed

GERMAN = "Der Bus fährt heute nicht über den Marktplatz.\n"


class File:
    """A file of lines through fake models: `File("fr-en", "en-de")` goes through two."""

    def __init__(self, *pairs: str, requested: RequestedOptions | None = None, **options: Any) -> None:
        self.engines = [FakeEngine() for _ in pairs]
        self.complaints: list[str] = []
        legs = [FileLeg(Path(pair), *pair.split("-")) for pair in pairs]
        models = [
            served_model(engine, name=pair, directions=directions(pair))
            for engine, pair in zip(self.engines, pairs, strict=True)
        ]
        request = request_of_lines(
            requested or RequestedOptions(),
            options.pop("text", TextOptions()),
            every_hypothesis=options.pop("n_best", False),
        )
        if legs:
            request = replace(request, source=legs[0].source, target=legs[-1].target)
        through = translation_through(legs, models, without_limits(Settings()))
        self.translator = FileTranslator(through, request, report=self.complaints.append, **options)

    def __call__(self, *lines: bytes, together: int = 50) -> list[str]:
        batches = [list(lines[at : at + together]) for at in range(0, len(lines), together)]
        self.done = list(self.translator.run(batches))
        return [line.text for line in self.done]


@pytest.mark.parametrize("pairs", [("en-de",), ("fr-en", "en-de")])
@pytest.mark.parametrize("together", [1, 7, 500])
def test_lines_stay_in_order_with_their_ends_and_sizes(pairs: tuple[str, ...], together: int) -> None:
    lines = [b"line %d.%b%b" % (n, b" And more." * (n % 5), (b"\n", b"\r\n")[n % 2]) for n in range(300)]
    lines[5:7] = [b"\n", b"  \r\n"]
    lines[-1] = b"the last one"
    file = File(*pairs)
    assert file(*lines, together=together) == [line.decode().upper() for line in lines]
    assert [line.source_bytes for line in file.done] == list(map(len, lines))
    assert file.done[-1].is_last_of_batch
    assert file.complaints == []


@pytest.mark.parametrize("pairs", [("en-fr",), ("en-de", "de-fr")])
def test_a_line_that_is_not_utf8_loses_only_itself(pairs: tuple[str, ...]) -> None:
    file = File(*pairs)
    assert file(b"one\n", b"caf\xe9 au lait\r\n", b"two\n", b"\xff\xfe") == [
        "ONE\n",
        "caf\ufffd au lait\r\n",
        "TWO\n",
        "\ufffd\ufffd",
    ]
    assert file.complaints == [
        "line 2: not valid UTF-8 at byte 4; it is written as it is, untranslated",
        "line 4: not valid UTF-8 at byte 1; it is written as it is, untranslated",
    ]
    assert [line.source_bytes for line in file.done] == [4, 14, 4, 2]


def test_of_many_bad_lines_the_rest_is_counted() -> None:
    file = File("en-de")
    assert file(*[b"\xff\n"] * 250) == ["\ufffd\n"] * 250
    assert len(file.complaints) == 101
    assert file.complaints[-1] == "150 more lines were not valid UTF-8"


@pytest.mark.parametrize(
    ("pairs", "good"), [((), "good\n"), (("fr-de",), "GOOD\n"), (("fr-en", "en-de"), "GOOD\n")]
)
def test_errors_may_fail_instead_after_the_lines_before(pairs: tuple[str, ...], good: str) -> None:
    file = File(*pairs, errors="fail")
    lines: Iterator[Any] = file.translator.run([[b"good\n"] * 64, [b"good\n", b"\xff\n", b"good\n"]])
    found = []
    with pytest.raises(LineError, match="line 66: not valid UTF-8 at byte 1"):
        for line in lines:
            found.append(line.text)
    assert found == [good] * 65


def test_without_a_model_lines_come_out_as_they_are() -> None:
    lines = [b"one\n", b"", b"  Two.\r\n", b"caf\xe9\n", b"\n", b"three"]
    file = File()
    assert file(*lines, together=4) == ["one\n", "", "  Two.\r\n", "caf\ufffd\n", "\n", "three"]
    assert file.complaints == ["line 4: not valid UTF-8 at byte 4; it is written as it is, untranslated"]
    assert [line.source_bytes for line in file.done] == list(map(len, lines))
    assert [line.is_last_of_batch for line in file.done] == [False, False, False, True, False, True]
    assert File(n_best=True)(b"one\n", b"two\n") == ["0 ||| one ||| 0\n", "1 ||| two ||| 0\n"]
    explained = File(text=TextOptions(alignments=True))(b"one\n")
    assert list(map(json.loads, explained)) == [{"translatedText": "one", "alignments": []}]


def test_lines_in_the_target_language_or_another_script_come_out_as_they_are() -> None:
    lines = [GERMAN, "The bus does not stop here today.\n", "今日は\n"]
    raw = [line.encode() for line in lines]
    assert File("en-de")(*raw) == [lines[0], lines[1].upper(), lines[2]]
    assert File("en-fr", "fr-de")(*raw) == [lines[0], lines[1].upper(), lines[2]]
    assert File("en-de", text=TextOptions(guard="off"))(*raw) == [line.upper() for line in lines]


def test_n_best_lists_name_every_line() -> None:
    requested = RequestedOptions(num_hypotheses=2, beam_size=2)
    file = File("fr-en", "en-de", requested=requested, n_best=True)
    rows = [row for text in file(b"one\n", b"\xff\n", b"two\n") for row in text.splitlines()]
    assert [row.split(" ||| ")[0] for row in rows] == ["0", "0", "1", "2", "2"]
    assert rows[2] == "1 ||| \ufffd ||| 0"
    assert [options.num_hypotheses for _, _, options, _ in file.engines[0].submitted] == [1]


def test_models_may_call_the_language_between_otherwise() -> None:
    assert File("fra_Latn-eng_Latn", "en-de")(b"one\n") == ["ONE\n"]


def test_options_that_a_model_cannot_serve_are_refused_at_once() -> None:
    with pytest.raises(InvalidOptionError):
        File("fr-en", "en-de", requested=RequestedOptions(beam_size=3))


def test_memory_is_bounded_with_two_models() -> None:
    file = File("fr-en", "en-de")
    arrived = iter([[b"line\n"] * 32] * 10_000)
    lines = file.translator.run(arrived)
    for _ in range(2000):
        next(lines)
    assert len(file.engines[0].submitted) <= 2000 // 32 + 65
    assert length_hint(arrived) > 10_000 - 200
    lines.close()


@pytest.fixture
def bundles(tiny_bundle: Path, tmp_path: Path) -> dict[str, Path]:
    return {
        "fr": renamed(tiny_bundle, tmp_path / "a", "first", "fr-en"),
        "en": renamed(tiny_bundle, tmp_path / "b", "second", "en-de", "en-es"),
    }


def test_routes_have_one_leg_or_two(bundles: dict[str, Path]) -> None:
    french, english = bundles.values()
    both = [english, french]
    assert choose_route(both, None, None, "en") == (FileLeg(english, "en", "de"),)
    assert choose_route(both, None, "es", "en") == (FileLeg(english, "en", "es"),)
    assert choose_route(both, "fr", None, "en") == (FileLeg(french, "fr", "en"),)
    assert choose_route(both, "fr", "es", "en") == (FileLeg(french, "fr", "en"), FileLeg(english, "en", "es"))
    for source, target, pivot in (
        ("fr", "es", None),
        ("fr", "es", "de"),
        ("de", "fr", "en"),
        ("it", None, "en"),
    ):
        with pytest.raises(
            UnsupportedLanguageError, match=r"no bundle translates from .* there are en-de, en-es, fr-en"
        ):
            choose_route(both, source, target, pivot)
    for source in ("en", "auto"):
        with pytest.raises(UnsupportedLanguageError) as caught:
            choose_route([french], source, "fr", "en")
        assert str(caught.value) == f"no bundle translates from {source} to fr; there are fr-en"


def test_a_language_goes_into_itself_without_a_bundle(bundles: dict[str, Path]) -> None:
    both = list(bundles.values())
    for source, target in (("fr", "fr"), ("en", "en"), ("de", "DE"), ("es-MX", "es"), ("fra", "fr_CA")):
        for pivot in ("en", None):
            assert choose_route(both, source, target, pivot) == ()
    with pytest.raises(UnsupportedLanguageError, match="no bundle translates from it to it; there are fr-en"):
        choose_route(both, "it", "it", "en")


def test_a_direction_that_a_bundle_lacks_is_refused_with_those_it_has() -> None:
    has = manifest(directions=directions("en-de+en-fr"))
    for source, target, asked in (
        (None, "en", "any language to en"),
        ("de", None, "de to any language"),
        ("de", "fr", "de to fr"),
        ("auto", "de", "auto to de"),
    ):
        with pytest.raises(UnsupportedLanguageError) as caught:
            choose_direction(has, source, target)
        assert str(caught.value) == f"{asked} is not a direction of this bundle: en-de, en-fr"


def test_a_refused_manifest_says_whose_it_is(bundles: dict[str, Path]) -> None:
    (bundles["en"] / "manifest.json").write_text(json.dumps({}))
    with pytest.raises(BundleError) as caught:
        choose_route(list(bundles.values()), None, None, None)
    assert caught.value.bundle == bundles["en"]
