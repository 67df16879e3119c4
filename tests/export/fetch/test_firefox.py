"""Firefox's models, pulled from a server on loopback that speaks as Firefox's does."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from model.checkpoint import load_checkpoint
from tests.export.fetch.hub import Hub
from tests.export.fetch.mirror import Mirror
from tests.export.fetch.network import NOWHERE, Network
from tests.export.fetch.remote_settings import (
    FIREFOX,
    FIREFOX_FILES,
    RECORDS,
    firefox_records,
    record,
    serve_firefox,
)
from tests.support.listening import listening


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with listening(Hub("nobody/nothing", tmp_path)) as hub, listening(Mirror({})) as mirror:
        serve_firefox(mirror, *firefox_records())
        yield Network(hub, mirror, tmp_path)


def test_the_newest_model_of_firefox_is_fetched_unpacked_and_imported(network: Network) -> None:
    done = network.pull("firefox:en-de", "--as", "checkpoint", "--out", network.home / "out")
    assert done.returncode == 0, done.stderr
    assert "firefox:en-de 3.0 (tiny)" in done.stderr and "Mozilla's models are MPL-2.0" in done.stderr
    config = load_checkpoint(network.home / "out").config
    assert (config.name, config.source_language, config.target_language) == ("firefox-en-de", "en", "de")
    assert config.transformer.decoder_mixer == "ssru"
    kept = network.home / "cache" / "dragoman" / "firefox" / "en-de-3.0-tiny"
    aside = f"{kept / FIREFOX_FILES['lex']} is left aside; dragoman shortlist --vmap FILE adds it"
    assert aside in done.stderr
    assert sorted(path.name for path in kept.iterdir()) == sorted(FIREFOX_FILES.values())
    network.mirror.asked.clear()
    again = network.pull("firefox:en-de", "--as", "checkpoint", "--out", network.home / "again")
    assert again.returncode == 0, again.stderr
    assert {path for path, _ in network.mirror.asked} == {"/", RECORDS}, "its files are here already"
    (kept.parent / "en-de-4.0-tiny").mkdir()  # of a command that was interrupted
    network.firefox_url = NOWHERE
    offline = network.pull("firefox:en-de", "--as", "checkpoint", "--out", network.home / "offline")
    assert offline.returncode == 0, offline.stderr
    assert f"names a mirror; {kept} is taken" in offline.stderr
    assert load_checkpoint(network.home / "offline").config == config


MODEL = (FIREFOX / FIREFOX_FILES["model"]).read_bytes()


@pytest.mark.parametrize(
    ("changes", "sent", "said"),
    [
        ({}, b"other", "not what the index says: its size or its hash is another; it is gone"),
        ({"decompressedHash": "0" * 64}, None, "decompressed, it is not what the index says; it is gone"),
        ({"decompressedSize": 1000}, None, "decompressed, it is not what the index says; it is gone"),
        ({"decompressedSize": len(MODEL) + 1}, None, "decompressed, it is not what the index says"),
        ({"decompressedSize": 1 << 50}, None, "not in the index"),
        ({"name": "../model.bin"}, None, "not in the index"),
        ({"attachment": {"location": "a/../../b", "size": 1, "hash": "0" * 64}}, None, "not in the index"),
        ({"attachment": []}, None, "not in the index"),
    ],
)
def test_a_file_of_firefox_that_is_another_is_one_line(
    network: Network,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    sent: bytes | None,
    said: str,
) -> None:
    vocab = record("vocab", "vocab.spm", (FIREFOX / "vocab.spm").read_bytes())
    serve_firefox(network.mirror, record("model", FIREFOX_FILES["model"], MODEL) | changes, vocab)
    if sent is not None:
        network.mirror.files[f"/cdn/main/translations-models-v2/3.0-{FIREFOX_FILES['model']}.zst"] = sent
    assert said in network.fails_here("firefox:en-de", capsys, monkeypatch)
    assert not list((network.home / "cache").rglob("model*"))


def test_a_file_that_is_not_compressed_as_it_says_is_one_line(
    network: Network, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, name = zstandard.compress(MODEL)[:-40], FIREFOX_FILES["model"]
    found = record("model", name, MODEL)
    found["attachment"] = {
        "hash": hashlib.sha256(broken).hexdigest(),
        "size": len(broken),
        "location": f"main/translations-models-v2/3.0-{name}.zst",
    }
    serve_firefox(network.mirror, found, record("vocab", "vocab.spm", (FIREFOX / "vocab.spm").read_bytes()))
    network.mirror.files[f"/cdn/main/translations-models-v2/3.0-{name}.zst"] = broken
    assert "decompressed" in network.fails_here("firefox:en-de", capsys, monkeypatch)


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        (RECORDS, b"<html>", "not JSON"),
        (RECORDS, b"[" * 100_000, "not JSON"),
        (RECORDS, b"[]", "not a JSON object"),
        (RECORDS, b"{}", "not a list of models"),
        (RECORDS, b'{"data": [1, null, {"attachment": 3}]}', "not in the index; it has 0 others"),
        ("/", b'{"capabilities": []}', "does not say where attachments lie"),
        ("/", b'{"capabilities": {"attachments": {"base_url": "file:///etc"}}}', "does not say where"),
    ],
)
def test_a_hostile_server_of_firefox_is_one_line(
    network: Network,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    content: bytes,
    said: str,
) -> None:
    network.mirror.files[path] = content
    assert said in network.fails_here("firefox:en-de", capsys, monkeypatch)
