"""From `dragoman shortlist` to answers, in real processes."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest

from export.bundle import verify_bundle
from tests.support import factories
from tests.support.server_process import command, serving

SENTENCES, _ = factories.parallel_text(12, seed=11)


@pytest.fixture(scope="module")
def shortlisted(tmp_path_factory: pytest.TempPathFactory, tiny_bundle_int8: Path) -> Path:
    """A bundle with so few candidates that some sentences become others."""
    directory = tmp_path_factory.mktemp("shortlist")
    dev = factories.write_text(directory, count=40)
    train = directory / "train.en", directory / "train.de"
    for file, lines in zip(train, factories.parallel_text(300, seed=3), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    out = directory / "bundle"
    ended = subprocess.run(
        [
            *command(
                "shortlist", tiny_bundle_int8, "--out", out, "--dev-source", dev[0], "--dev-target", dev[1]
            ),
            *map(str, ("--source", train[0], "--target", train[1])),
            *("--per-piece", "2", "--frequent", "4", "--allow-quality-loss", "--allow-wide"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    found = verify_bundle(out).shortlist
    assert found is not None
    assert (found.per_piece, found.frequent) == (2, 4)
    return out


def translate(bundle: Path, *flags: str, **variables: str) -> list[str]:
    ended = subprocess.run(
        command("translate", bundle, "--workers", "1", "--guard", "off", *flags),
        input="\n".join(SENTENCES).encode(),
        capture_output=True,
        timeout=120,
        env=os.environ | variables,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode().split("\n")


@pytest.fixture(scope="module")
def within(shortlisted: Path) -> list[str]:
    """Translations within the candidates."""
    return translate(shortlisted, "--shortlist")


@pytest.fixture(scope="module")
def over_all(tiny_bundle_int8: Path) -> list[str]:
    """Translations of the bundle that has no shortlist; asking for one changes nothing there."""
    return translate(tiny_bundle_int8, "--shortlist")


def test_translate_uses_it_unless_told_otherwise(
    shortlisted: Path, within: list[str], over_all: list[str]
) -> None:
    assert within != over_all
    assert translate(shortlisted) == within
    assert translate(shortlisted, "--no-shortlist") == over_all
    assert translate(shortlisted, "--shortlist", DRAGOMAN_SHORTLIST="false") == within


@pytest.mark.parametrize("used", [True, False])
def test_a_server_uses_it_unless_told_otherwise(
    shortlisted: Path, within: list[str], over_all: list[str], used: bool, tmp_path: Path
) -> None:
    body = {"q": SENTENCES, "source": "en", "target": "de"}
    with serving(shortlisted, tmp_path / "log", shortlist=used) as server:
        answer = httpx.post(f"{server.url}/translate", json=body, timeout=60)
        assert answer.json()["translatedText"] == (within if used else over_all)
