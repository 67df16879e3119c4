"""A server on everything that the repository ships: its pairs, and what goes through English."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from export.bundle import load_manifest
from tests.support.server_process import RunningServer, serving

INTO_ENGLISH = {("de", "en"), ("es", "en"), ("fr", "en")}
OWN = INTO_ENGLISH | {(target, source) for source, target in INTO_ENGLISH}
THROUGH_ENGLISH = set(itertools.permutations(("de", "es", "fr"), 2))
STATIONS = {
    "en": "Where is the train station?",
    "de": "Wo ist der Bahnhof?",
    "es": "¿Dónde está la estación de tren?",
    "fr": "Où est la gare ?",
}
STATION = {"en": "station", "de": "Bahnhof", "es": "estación", "fr": "gare"}


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("shipped") / "log"
    served = [repository / "bundles", repository / "bundles" / "tasks" / "g2p"]
    with serving(served, log, workers=0, guard="mend") as running:
        yield running


def translate(server: RunningServer, q: str, source: str, target: str, **fields: Any) -> httpx.Response:
    body = {"q": q, "source": source, "target": target, **fields}
    return httpx.post(f"{server.url}/translate", json=body, timeout=60)


def test_they_fit(repository: Path) -> None:
    sizes = []
    for file in sorted((repository / "bundles").glob("*/manifest.json")):
        manifest = load_manifest(file.parent)
        sizes.append(sum(entry.size_bytes for entry in manifest.files.values()) + file.stat().st_size)
        assert manifest.precision == "int8"
        assert manifest.batch_invariant
        assert manifest.quality is not None
        assert "CC BY 2.0 FR" in (file.parent / "NOTICE").read_text(encoding="utf-8")
    assert max(sizes) <= 15_000_000
    assert sum(sizes) <= 90_000_000


def test_the_model_of_pronunciations_is_small_and_says_what_readme_shows(
    server: RunningServer, repository: Path
) -> None:
    files = (repository / "bundles" / "tasks" / "g2p").iterdir()
    assert sum(file.stat().st_size for file in files) <= 5_000_000
    body = {"inputs": ["speech", "dragoman"]}
    answer = httpx.post(f"{server.url}/generate", json=body, timeout=60).text
    assert answer in (repository / "README.md").read_text(encoding="utf-8")
    assert json.loads(answer)["outputs"][0] == "S P IY CH"


def test_languages_lists_every_pair(server: RunningServer) -> None:
    listed = httpx.get(f"{server.url}/languages").json()
    pairs = {(entry["code"], target) for entry in listed for target in entry["targets"]}
    assert pairs == OWN | THROUGH_ENGLISH


@pytest.mark.parametrize(("source", "target"), sorted(OWN))
def test_every_pair_is_translated(server: RunningServer, source: str, target: str) -> None:
    answer = translate(server, STATIONS[source], source, target).json()
    assert STATION[target] in answer["translatedText"]
    assert "pivotLanguage" not in answer


@pytest.mark.parametrize(("source", "target"), sorted(THROUGH_ENGLISH))
def test_the_others_go_through_english_and_say_so(server: RunningServer, source: str, target: str) -> None:
    answer = translate(server, STATIONS[source], source, target).json()
    assert answer["pivotLanguage"] == "en"
    between = translate(server, STATIONS[source], source, "en").json()["translatedText"]
    assert answer["translatedText"] == translate(server, between, "en", target).json()["translatedText"]
    assert STATION[target] in answer["translatedText"]


@pytest.mark.parametrize("source", ["de", "es", "fr"])
def test_the_language_is_found_out(server: RunningServer, source: str) -> None:
    answer = translate(server, STATIONS[source], "auto", "en").json()
    assert answer["detectedLanguage"]["language"] == source
    assert "station" in answer["translatedText"]


def test_a_pair_that_nobody_translates_is_a_clear_400(server: RunningServer) -> None:
    refused = translate(server, STATIONS["de"], "de", "it")
    assert (refused.status_code, refused.json()["code"]) == (400, "unsupported_language")
    assert refused.json()["error"] == "target is not a supported language; see GET /languages"


def test_capitals_and_numbers_survive(server: RunningServer) -> None:
    assert translate(server, "WO IST DER BAHNHOF?", "de", "en").json()["translatedText"].isupper()
    for source, text in {
        "de": "Der Zug fährt um 17:45 ab.",
        "es": "El tren sale a las 17:45.",
        "fr": "Le train part à 17:45.",
    }.items():
        assert "17:45" in translate(server, text, source, "en").json()["translatedText"]


@pytest.mark.parametrize(
    ("target", "greeting", "keys", "appointment"),
    [
        (
            "de",
            ["Hallo, wie geht es dir"],
            ["ich finde meine Schlüssel nicht", "ich kann meine Schlüssel nicht finden"],
            "Wir treffen uns um 17:45 Uhr in Reykjavík, Zimmer B-12.",
        ),
        (
            "es",
            ["Hola, cómo estás", "Hola, ¿cómo estás"],
            ["no puedo encontrar mis llaves", "no encuentro mis llaves"],
            "Nos vemos a las 17:45 en Reykjavík, habitación B-12.",
        ),
        (
            "fr",
            ["Bonjour, comment allez-vous"],
            ["je ne trouve pas mes clés"],
            "Retrouve-moi à 17:45 à Reykjavík, chambre B-12.",
        ),
    ],
)
def test_english_as_people_type_it(
    server: RunningServer, target: str, greeting: list[str], keys: list[str], appointment: str
) -> None:
    typed = ["HELLO, how are you", "i cant find my keys", "Meet me at 17:45 in Reykjavík, room B-12."]
    answers = [translate(server, text, "en", target).json()["translatedText"] for text in typed]
    assert answers[0] in greeting
    assert answers[1] in keys
    assert answers[2] == appointment


@pytest.mark.parametrize(
    ("source", "typed"),
    [
        (
            "de",
            [
                "HALLO, wie geht es dir",
                "ich kann meine Schlüssel nicht finden",
                "Wir treffen uns um 17:45 Uhr in Reykjavík, Zimmer B-12.",
                "Tschüss!",
            ],
        ),
        (
            "es",
            [
                "Hola, ¿CÓMO estás?",
                "no encuentro mis llaves",
                "Nos vemos a las 17:45 en Reykjavík, habitación B-12.",
                "¡Adiós!",
            ],
        ),
        (
            "fr",
            [
                "BONJOUR, comment allez-vous",
                "je ne trouve pas mes clés",
                "Retrouve-moi à 17:45 à Reykjavík, chambre B-12.",
                "Au revoir",
            ],
        ),
    ],
)
def test_into_english_as_people_type_it(server: RunningServer, source: str, typed: list[str]) -> None:
    answers = [translate(server, text, source, "en").json()["translatedText"] for text in typed]
    # A mark that nobody typed is not added.
    mark = "?" * typed[0].endswith("?")
    assert answers[0] in ("Hello, how are you" + mark, "Good morning, how are you" + mark)
    assert answers[1] == "I can't find my keys"
    assert answers[2] in (f"{begin} at 17:45 in Reykjavík, room B-12." for begin in ("Meet me", "See you"))
    assert answers[3].rstrip("!") in ("Bye", "Goodbye")
    assert answers[3].endswith("!") == typed[3].endswith("!")


def test_alignments_in_the_callers_shape(server: RunningServer) -> None:
    one = translate(server, "The red car.", "en", "de", alignments=True).json()
    several = translate(server, ["The red car.", "¡Ja!"], "en", "de", alignments=True).json()  # type: ignore[arg-type]
    assert several["alignments"][0] == one["alignments"]
    assert {(tuple(each["source"]), tuple(each["target"])) for each in one["alignments"]} >= {
        ((8, 11), (9, 13))
    }
    assert "alignments" not in translate(server, "The red car.", "en", "de").json()


def test_alignments_through_english_meet_in_it(server: RunningServer) -> None:
    text = "Das Auto ist rot."
    answer = translate(server, text, "de", "fr", alignments=True).json()
    words = {
        text[slice(*one["source"])]: answer["translatedText"].encode()[slice(*one["target"])].decode()
        for one in answer["alignments"]
    }
    assert words["Auto"] == "voiture"
    assert words["rot"] == "rouge"


def test_attention_of_one_model_and_of_none(server: RunningServer) -> None:
    """It comes beside the usual answer, a row for each piece; two models look nowhere together."""
    plain = translate(server, "Tom has two cars.", "en", "de").json()
    answer = translate(server, "Tom has two cars.", "en", "de", attention=True).json()
    (look,) = answer.pop("attention")
    assert answer == plain
    assert look["sourcePieces"] == ["▁Tom", "▁has", "▁two", "▁car", "s", ".", "</s>"]
    assert look["target"] == [0, len(plain["translatedText"].encode())]
    assert [len(row) for row in look["weights"]] == [7] * len(look["targetPieces"])
    assert all(abs(sum(row) - 1) < 0.01 for row in look["weights"])
    refused = translate(server, "Das ist gut.", "de", "fr", attention=True)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_option")
    assert refused.json()["error"].startswith("attention: de to fr goes through en")


def test_confidence_of_one_model_and_of_none(server: RunningServer) -> None:
    answer = translate(server, "Tom has two cars.", "en", "de", confidence=True).json()
    (sentence,) = answer["confidence"]["sentences"]
    assert sentence["target"] == [0, len(answer["translatedText"])]
    assert answer["confidence"]["words"][0]["target"] == [0, 3]
    refused = [
        translate(server, "Das ist gut.", "de", "fr", confidence=True),
        translate(server, "Tom has two cars.", "en", "de", confidence=True, sampling_topk=10),
    ]
    assert [one.status_code for one in refused] == [400, 400]
    assert all(one.json()["error"].startswith("confidence") for one in refused)
