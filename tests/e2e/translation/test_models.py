"""A real server process with several models: pairs of their own, through English, exchanged by name."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.factories import parallel_text, renamed
from tests.support.server_process import RunningServer, command, free_port, serving, wait_for

SENTENCES, TRANSLATIONS = parallel_text(12, seed=3)
MANY = [f"{text[:-1]} {n}." for n, text in enumerate(TRANSLATIONS * 20)]  # equal ones are computed once
LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class House:
    """A server with three models, which are one: only the first writes what its directions say."""

    server: RunningServer
    admin_port: int
    bundles: dict[str, Path]

    def translate(self, q: str | list[str], source: str, target: str, **fields: Any) -> httpx.Response:
        body = {"q": q, "source": source, "target": target, **fields}
        return httpx.post(f"{self.server.url}/translate", json=body, timeout=60)

    def models(self) -> dict[str, Any]:
        shown = httpx.get(f"{self.server.url}/models", timeout=20).json()["models"]
        return {model["name"]: model for model in shown}

    def series(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        text = httpx.get(f"{self.server.url}/metrics", timeout=20).text
        return {
            (name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))): float(value)
            for name, labels, value in LINE.findall(text)
        }

    def value(self, name: str, **labels: str) -> float:
        return self.series()[name, frozenset(labels.items())]

    def reload(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        asked = command("reload", "--admin-port", self.admin_port, *arguments)
        return subprocess.run(asked, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def house(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory, port = tmp_path_factory.mktemp("house"), free_port()
    bundles = {
        "tiny-en-de": renamed(tiny_bundle, directory / "a", "tiny-en-de", "en-de"),
        "tiny-de-en": renamed(tiny_bundle, directory / "b", "tiny-de-en", "de-en"),
        "tiny-en-fr": renamed(tiny_bundle, directory / "c", "tiny-en-fr", "en-fr"),
    }
    with serving(list(bundles.values()), directory / "log", admin_port=port, max_kv_cache_mib=300) as server:
        yield House(server, port, bundles)


def test_every_pair_is_translated_by_its_own_model(house: House) -> None:
    there = house.translate(SENTENCES, "en", "de").json()
    assert set(there) == {"translatedText"}
    assert sum(map(str.__eq__, there["translatedText"], TRANSLATIONS)) >= 6
    for name, (source, target) in {"tiny-de-en": ("de", "en"), "tiny-en-fr": ("en", "fr")}.items():
        before = house.value("dragoman_model_sentences_total", model=name)
        house.translate(TRANSLATIONS if source == "de" else SENTENCES, source, target)
        assert house.value("dragoman_model_sentences_total", model=name) == before + 12


def test_languages_lists_every_target_of_each_source(house: House) -> None:
    listed = httpx.get(f"{house.server.url}/languages", timeout=20).json()
    assert {entry["code"]: (entry["name"], set(entry["targets"])) for entry in listed} == {
        "en": ("English", {"de", "fr"}),
        "de": ("German", {"en", "fr"}),
        "fr": ("French", set()),
    }


def test_a_pair_without_a_model_goes_through_english_and_says_so(house: House) -> None:
    answer = house.translate(TRANSLATIONS, "de", "fr").json()
    assert answer["pivotLanguage"] == "en"
    english = house.translate(TRANSLATIONS, "de", "en").json()["translatedText"]
    assert answer["translatedText"] == house.translate(english, "en", "fr").json()["translatedText"]
    assert answer["translatedText"] != english
    assert house.value("dragoman_translations_total", source="de", target="fr", pivot="en") >= 1
    wait_for(lambda: '"pivot"' in house.server.log.read_text())
    line = next(line for line in reversed(house.server.log.read_text().splitlines()) if '"pivot"' in line)
    logged = json.loads(line)
    assert (logged["source"], logged["target"], logged["pivot"]) == ("de", "fr", "en")
    assert 12 < logged["sentences"] <= 24


def test_markup_alternatives_and_arrays_go_through_english(house: House) -> None:
    german = TRANSLATIONS[0]
    body = f'<p id="a">{german} <b>{TRANSLATIONS[1]}</b></p>\n<code>x &lt; y</code>'
    answer = house.translate([body, "", "..."], "de", "fr", format="html", alternatives=1, scores=True).json()
    first, empty, dots = answer["translatedText"]
    assert re.fullmatch(r'<p id="a">\w.* <b>\w.*</b>\W?</p>\n<code>x &lt; y</code>', first)
    assert (empty, dots) == ("", "...")
    assert [len(others) for others in answer["alternatives"]] == [1, 0, 0]  # nothing else to say
    assert [len(scores) for scores in answer["scores"]] == [2, 1, 1]
    assert answer["pivotLanguage"] == "en"


def test_a_pair_without_both_halves_is_a_clear_400(house: House) -> None:
    for source, target in (("fr", "de"), ("it", "it"), ("en", "zz")):
        answer = house.translate("x", source, target)
        assert (answer.status_code, answer.json()["code"]) == (400, "unsupported_language")


def test_auto_chooses_among_all_sources(house: House) -> None:
    answer = house.translate("Diese alte Stadt sucht eine kleine Lampe.", "auto", "fr").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["pivotLanguage"] == "en"
    answer = house.translate("This old city looks for a small lamp.", "auto", "fr").json()
    assert answer["detectedLanguage"]["language"] == "en"
    assert "pivotLanguage" not in answer


def test_texts_of_several_languages_are_one_request(house: House) -> None:
    mixed = ["Diese alte Stadt sucht eine kleine Lampe.", "12345", "This old city looks for a small lamp."]
    answer = house.translate(mixed, "auto", "fr").json()
    assert [one["language"] for one in answer["detectedLanguage"]] == ["de", "und", "en"]
    for text, translated in zip(mixed, answer["translatedText"], strict=True):
        assert translated == house.translate(text, "auto", "fr").json()["translatedText"]
    assert answer["translatedText"][1] == "12345"


def test_what_needs_no_model_comes_back_unchanged(house: House) -> None:
    assert house.translate(SENTENCES, "en", "en").json() == {"translatedText": SENTENCES}
    assert house.translate(SENTENCES, "de", "en", guard="flag").json() == {"translatedText": SENTENCES}
    assert house.translate("<p>Die <b>alte</b> Stadt</p>", "de", "de", format="html").json() == {
        "translatedText": "<p>Die <b>alte</b> Stadt</p>"
    }


def test_models_shows_each_with_its_reports(house: House) -> None:
    shown = house.models()
    assert set(shown) == set(house.bundles)
    for name, bundle in house.bundles.items():
        manifest = json.loads((bundle / "manifest.json").read_text())
        for report in ("parity", "quality", "directions", "version"):
            expected = manifest[report]
            no_ids = {f"{ids}_ids": [] for ids in ("source_prefix", "source_suffix", "target_prefix")}
            if report == "directions":
                expected = [pair | no_ids for pair in expected]
            assert shown[name][report] == expected
        assert shown[name]["parity"]["sentences"] > 0


def test_health_and_metrics_name_the_models(house: House) -> None:
    for path in ("livez", "readyz", "health"):
        assert httpx.get(f"{house.server.url}/{path}").json()["models"] == list(house.bundles)
    found = house.series()
    for name in house.bundles:
        assert found["dragoman_model_engine_alive", frozenset({("model", name)})] == 1
    assert found["dragoman_kv_cache_capacity_bytes", frozenset()] == 100 << 20
    pairs = {labels for name, labels in found if name == "dragoman_translations_total"}
    assert len(pairs) == 4


def test_a_deadline_holds_through_both_models(house: House) -> None:
    wait_for(lambda: house.value("dragoman_decode_slots", state="busy") == 0)
    fields = {"beam_size": 4, "min_decoding_length": 120, "max_decoding_length": 120}  # seconds of work
    answer = httpx.post(
        f"{house.server.url}/translate",
        json={"q": MANY, "source": "de", "target": "fr", **fields},
        headers={"X-Request-Timeout-Ms": "60"},
        timeout=60,
    )
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    wait_for(lambda: house.value("dragoman_decode_slots", state="busy") == 0)
    assert house.value("dragoman_queue_sentences") == 0


def test_a_client_that_leaves_frees_the_second_model(house: House) -> None:
    """What it wants of the second model takes it seconds."""
    fields = {"beam_size": 4, "min_decoding_length": 120, "max_decoding_length": 120}
    body = json.dumps({"q": MANY, "source": "de", "target": "fr", **fields}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", house.server.port)) as connection:
        connection.sendall(head.encode() + body)
        wait_for(lambda: house.value("dragoman_model_rows_busy", model="tiny-en-fr") > 0)
    wait_for(lambda: house.value("dragoman_model_rows_busy", model="tiny-en-fr") == 0, 10)
    assert house.value("dragoman_client_disconnects_total", phase="running") >= 1
    assert house.value("dragoman_model_queue_sentences", model="tiny-en-fr") == 0


def test_all_models_answer_at_once(house: House) -> None:
    pairs = [("en", "de"), ("de", "en"), ("en", "fr"), ("de", "fr")]
    texts = {"en": SENTENCES, "de": TRANSLATIONS}
    alone = {pair: house.translate(texts[pair[0]], *pair).json() for pair in pairs}
    with ThreadPoolExecutor(8) as clients:
        asked = [
            (pair, clients.submit(house.translate, texts[pair[0]], *pair))
            for _ in range(10)
            for pair in pairs
        ]
        assert all(answer.result().json() == alone[pair] for pair, answer in asked)


def version(bundle: Path, value: str) -> None:
    """Put another version in a bundle's place, all at once."""
    file, aside = bundle / "manifest.json", bundle.with_name(f"{bundle.name}.manifest")
    aside.write_text(json.dumps(json.loads(file.read_text()) | {"version": value}))
    aside.replace(file)


def test_one_model_is_exchanged_by_its_name_and_all_without(house: House) -> None:
    for bundle in house.bundles.values():
        version(bundle, "second")
    done = house.reload("tiny-de-en")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"serving tiny-de-en second \(\w{12}\), loaded in [\d.]+ s\n", done.stdout)
    assert [model["version"] for model in house.models().values()].count("second") == 1
    done = house.reload()
    assert (done.returncode, done.stdout.count("\n")) == (0, 3)
    assert [model["version"] for model in house.models().values()] == ["second"] * 3
    done = house.reload("nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there are: tiny-en-de, tiny-de-en, tiny-en-fr" in done.stderr
    house.server.process.send_signal(signal.SIGHUP)
    version(house.bundles["tiny-en-fr"], "third")
    wait_for(lambda: house.reload("tiny-en-fr").returncode == 0)
    assert house.models()["tiny-en-fr"]["version"] == "third"


def test_a_bundle_that_takes_anothers_pair_is_refused_and_the_rest_goes_on(house: House) -> None:
    bundle = house.bundles["tiny-de-en"]
    kept = bundle.with_name("kept")
    bundle.rename(kept)
    renamed(kept, bundle, "tiny-de-en", "en-de")
    done = house.reload()
    assert done.returncode == 3
    assert "tiny-de-en: setting bundle: tiny-en-de and tiny-de-en both translate en to de" in done.stderr
    assert "reloaded: tiny-en-de, tiny-en-fr" in done.stderr
    assert house.translate(TRANSLATIONS[0], "de", "fr").json()["pivotLanguage"] == "en"
    shutil.rmtree(bundle)
    renamed(kept, bundle, "tiny-es-en", "es-en")
    assert house.reload("tiny-de-en").returncode == 0
    assert house.translate(TRANSLATIONS[0], "de", "fr").status_code == 400
    assert house.translate(TRANSLATIONS[0], "es", "fr").json()["pivotLanguage"] == "en"
    names = {dict(labels).get("model") for _, labels in house.series()} - {None}
    assert names == {"tiny-en-de", "tiny-es-en", "tiny-en-fr"}


def ended(*bundles: object, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        command("serve", *bundles, "--port", 0),
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_what_cannot_be_served_together_ends_the_start(tiny_bundle: Path, tmp_path: Path) -> None:
    other = renamed(tiny_bundle, tmp_path / "other", "other", "fr-de", "en-de")
    name = json.loads((tiny_bundle / "manifest.json").read_text())["name"]
    said = (
        f"dragoman serve: setting bundle: {name} and other both translate en to de; serve only one of them\n"
    )
    assert ended(tiny_bundle, other) == (2, said)
    assert ended(DRAGOMAN_BUNDLE=f"{tiny_bundle},{other}") == (2, said)
    code, said = ended(tiny_bundle, tiny_bundle)
    assert (code, said.count("\n")) == (2, 1)
    assert f"two bundles are called {name}" in said


def test_one_bad_bundle_among_several_ends_the_start(tiny_bundle: Path, tmp_path: Path) -> None:
    bad = renamed(tiny_bundle, tmp_path / "bad", "bad", "fr-en")
    (bad / "encoder.onnx").unlink()
    code, said = ended(tiny_bundle, bad)
    assert (code, said) == (3, f"dragoman serve: cannot load bundle {bad}: encoder.onnx: is missing\n")


def test_without_a_pivot_the_pair_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    two = (
        renamed(tiny_bundle, tmp_path / "a", "a", "fr-en"),
        renamed(tiny_bundle, tmp_path / "b", "b", "en-de"),
    )
    with serving(two, tmp_path / "log", pivot_language="none") as server:
        fields = {"q": "x", "source": "fr", "target": "de"}
        assert httpx.post(f"{server.url}/translate", data=fields, timeout=30).status_code == 400
        listed = httpx.get(f"{server.url}/languages", timeout=20).json()
        assert {entry["code"]: entry["targets"] for entry in listed} == {"fr": ["en"], "en": ["de"], "de": []}
