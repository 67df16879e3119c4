"""`dragoman pull` as a user types it, with a hub and an index of Argos packages on loopback."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctranslate2.converters import TransformersConverter

from export.bundle import verify_bundle
from model.checkpoint import load_checkpoint
from tests.export.fetch.hub import Hub
from tests.export.fetch.mirror import Mirror
from tests.export.fetch.network import NOWHERE, Network
from tests.export.fetch.remote_settings import firefox_records, serve_firefox
from tests.support.listening import listening

NAME = "Helsinki-NLP/opus-mt-en-de"


@pytest.fixture(scope="module")
def package(original: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An Argos package of a real model."""
    directory = tmp_path_factory.mktemp("argos")
    TransformersConverter(str(original)).convert(str(directory / "model"), quantization="int8")
    path = directory / "package.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("model.bin", "config.json", "shared_vocabulary.json"):
            archive.write(directory / "model" / name, f"translate-en_de/model/{name}")
        archive.write(original / "source.spm", "translate-en_de/sentencepiece.model")
        metadata = {"from_code": "en", "to_code": "de", "package_version": "1.9", "argos_version": "1.9.0"}
        archive.writestr("translate-en_de/metadata.json", json.dumps(metadata))
    return path.read_bytes()


def entry(url: str, version: str = "1.9", **changes: object) -> dict[str, object]:
    """An entry as the public index has them."""
    return {
        "package_version": version,
        "argos_version": "1.9.0",
        "from_code": "en",
        "from_name": "English",
        "to_code": "de",
        "to_name": "German",
        "links": ["ipfs://bafkreigh2akiscaildc", f"{url}/gone.argosmodel", f"{url}/v{version}.argosmodel"],
    } | changes


@pytest.fixture
def network(original: Path, package: bytes, tmp_path: Path) -> Iterator[Network]:
    directory = Path(shutil.copytree(original, tmp_path / "repository"))
    with listening(Hub(NAME, directory)) as hub, listening(Mirror({})) as mirror:
        hub.large["model.safetensors"] = hashlib.sha256(
            (directory / "model.safetensors").read_bytes()
        ).hexdigest()
        index = [
            entry(mirror.url),
            entry(mirror.url, "1.10"),
            entry(mirror.url, to_code="fr"),
            {"type": "sbd"},
        ]
        mirror.files = {"/index.json": json.dumps(index).encode(), "/v1.10.argosmodel": package}
        serve_firefox(mirror, *firefox_records())
        yield Network(hub, mirror, tmp_path)


@pytest.mark.timeout(600)
def test_a_name_becomes_a_bundle_that_is_served(network: Network) -> None:
    done = network.pull("opus-mt-en-de", "--out", network.home / "bundle")
    assert done.returncode == 0, done.stderr
    assert "files, " in done.stderr and "license: apache-2.0" in done.stderr
    assert "sentences of the model's own words" in done.stderr
    manifest = verify_bundle(network.home / "bundle")
    assert (manifest.precision, manifest.name) == ("fp32", "opus-mt-en-de")
    again = network.pull("opus-mt-en-de", "--out", network.home / "bundle")
    assert again.returncode == 1
    assert "exists already; --force replaces it" in again.stderr


def test_a_cut_connection_to_the_hub_is_continued(network: Network) -> None:
    network.hub.cuts = 2
    done = network.pull(NAME, "--as", "checkpoint", "--out", network.home / "out")
    assert done.returncode == 0, done.stderr
    assert network.hub.cuts == 0
    network.hub_url = NOWHERE
    again = network.pull(NAME, "--as", "checkpoint", "--out", network.home / "again")
    assert again.returncode == 0, again.stderr
    assert "what its cache has is taken" in again.stderr


def test_a_file_with_another_hash_is_refused_and_gone(network: Network) -> None:
    right, network.hub.large["model.safetensors"] = network.hub.large["model.safetensors"], "0" * 64
    line = network.fails(NAME)
    assert f"model.safetensors is not what the hub says: its hash is {right}, not {'0' * 64}" in line
    network.hub.large["model.safetensors"] = right
    network.hub.sent.clear()
    assert network.pull(NAME, "--as", "checkpoint", "--out", network.home / "out").returncode == 0
    assert network.hub.sent == ["model.safetensors"]


def test_terms_to_be_accepted_are_named(network: Network) -> None:
    network.hub.gated = True
    assert "its owner asks you to accept terms on its page first" in network.fails(NAME)


def test_a_repository_that_is_not_there_is_one_line(network: Network) -> None:
    line = network.fails("Helsinki-NLP/opus-mt-en-xx")
    assert "no repository on the hub; a private one needs HF_TOKEN" in line


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../../etc/passwd", "no name of a model; they are like Helsinki-NLP/opus-mt-en-de, argos:en-de or"),
        (
            "firefox:en-xx",
            "firefox:en-xx: not in the index; of that source it has firefox:en-de, firefox:en-fr",
        ),
        ("firefox:../x", "not in the index"),
        ("a/b/c", "no name of a model"),
        ("argos:en-xx", "argos:en-xx: not in the index; of that source it has argos:en-de, argos:en-fr"),
        ("argos:../x", "not in the index"),
    ],
)
def test_other_names_are_one_line_with_a_remedy(
    network: Network,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    said: str,
) -> None:
    assert said in network.fails_here(name, capsys, monkeypatch)


def test_int8_without_text_is_refused_before_anything_is_fetched(network: Network) -> None:
    done = network.pull(NAME, "--precision", "int8", "--out", network.home / "out")
    assert done.returncode == 1
    assert "--precision fp32 needs none" in done.stderr
    assert network.hub.sent == []


def test_the_newest_argos_package_is_imported_from_the_link_that_works(network: Network) -> None:
    network.mirror.cuts = 1
    done = network.pull("argos:en-de", "--as", "checkpoint", "--out", network.home / "out")
    assert done.returncode == 0, done.stderr
    assert [path for path, _ in network.mirror.asked] == [
        "/index.json",
        "/gone.argosmodel",
        "/v1.10.argosmodel",
        "/v1.10.argosmodel",
    ]
    config = load_checkpoint(network.home / "out").config
    assert (config.source_language, config.target_language) == ("en", "de")
    kept = [path.name for path in (network.home / "cache" / "dragoman" / "argos").iterdir()]
    assert kept == ["translate-en_de-1.10.argosmodel"]


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"<html>", "not JSON"),
        (b"{}", "not a list of packages"),
        (b"[" * 100_000, "not JSON"),
        (json.dumps([entry("http://x", "../../1")]).encode(), "not in the index; it has 0 others"),
        (json.dumps([entry("http://x", from_code="../en")]).encode(), "not in the index"),
        (json.dumps([entry("file:///etc", links=["file:///etc/passwd"])]).encode(), "not in the index"),
        (json.dumps([[1], None, {"links": 3}]).encode(), "not in the index; it has 0 others"),
    ],
)
def test_a_hostile_index_is_one_line(
    network: Network,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    index: bytes,
    said: str,
) -> None:
    network.mirror.files["/index.json"] = index
    assert said in network.fails_here("argos:en-de", capsys, monkeypatch)


def test_without_a_network_the_remedy_is_said(
    network: Network, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network.hub_url = network.index_url = network.firefox_url = NOWHERE
    line = network.fails(NAME)
    assert line.endswith("copy the directory here and give its path; HF_ENDPOINT names a mirror")
    line = network.fails_here("argos:en-de", capsys, monkeypatch)
    assert line.endswith("copy the package here and import its file; ARGOS_PACKAGE_INDEX names a mirror")
    line = network.fails_here("firefox:en-de", capsys, monkeypatch)
    assert line.endswith(
        "copy the model here and import its directory; FIREFOX_SETTINGS_SERVER names a mirror"
    )
    done = network.pull("--list", "en", "de")
    assert done.returncode == 1
    assert "the hub cannot be asked" in done.stderr and "ARGOS_PACKAGE_INDEX names a mirror" in done.stderr


def test_a_list_names_what_there_is_for_two_languages(network: Network) -> None:
    done = network.pull("--list", "en", "de")
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows[:3] == [[NAME, "apache-2.0"], ["argos:en-de", "none"], ["firefox:en-de", "mpl-2.0"]]
    assert ["nllb-200-distilled-600M", "cc-by-nc-4.0"] in rows
    network.hub_url = NOWHERE
    partly = network.pull("--list", "en", "de")
    assert partly.returncode == 0
    assert "argos:en-de" in partly.stdout and "the hub cannot be asked" in partly.stderr


def test_the_newest_argos_package_that_is_here_needs_no_network(
    network: Network, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = network.home / "cache" / "dragoman" / "argos"
    kept.mkdir(parents=True)
    (kept / "translate-en_de-1.10.argosmodel").write_bytes(network.mirror.files["/v1.10.argosmodel"])
    for other in ("en_de-1.9", "en_fr-2.0", "en_de-x"):
        (kept / f"translate-{other}.argosmodel").write_bytes(b"another")
    network.index_url = NOWHERE
    code, errors = network.pull_here("argos:en-de", capsys, monkeypatch)
    assert code == 0, errors
    assert load_checkpoint(network.home / "out").config.target_language == "de"
    assert f"names a mirror; {kept / 'translate-en_de-1.10.argosmodel'} is taken" in errors


def test_a_link_that_leads_nowhere_does_not_hide_the_next(
    network: Network, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    links = ["http://[bad/x", f"{network.mirror.url}/v1.10.argosmodel"]
    index = [entry(network.mirror.url, "1.10", links=links)]
    network.mirror.files["/index.json"] = json.dumps(index).encode()
    code, errors = network.pull_here("argos:en-de", capsys, monkeypatch)
    assert code == 0, errors
    assert load_checkpoint(network.home / "out").config.target_language == "de"
