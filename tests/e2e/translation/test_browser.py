"""The pages in a real browser, if one is installed: they come up, and their policy stands in nobody's way."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.app import create_app
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, served_model
from tests.server.live_app import serving
from tests.support.server_process import serving as running_on

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-logging=stderr",
    "--virtual-time-budget=8000",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None and "CI" not in os.environ, reason="no chromium is installed"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(close_timeout_s=1)
    pairs = [{"source": "de", "target": "en"}, {"source": "en", "target": "de"}]
    model = served_model(FakeEngine(), directions=pairs, purpose="Good for laws.")
    with serving(create_app(settings, model), settings) as client:
        yield str(client.base_url)


def opened(url: str, profile: Path) -> tuple[str, str]:
    """Open a page; return what it became, and what the browser had to say about it."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", '<select id="source"><option value="en">English</option><option value="de">'),
        ("", 'placeholder="Where is the train station?"'),
        ("", '<span id="purpose">Good for laws.</span>'),
        ("explain#q=Two%20words&source=en&target=de", "How sure the model is cannot be said of this pair."),
        ("explain#q=Two%20words&source=en&target=de", '<p id="words">TWO WORDS</p>'),
        ("docs", 'data-path="/translate"'),
        ("docs#/translate/translate_translate_post", "Try it out"),
    ],
)
def test_a_page_comes_up_within_its_policy(url: str, tmp_path: Path, path: str, shown: str) -> None:
    page, said = opened(f"{url}/{path}", tmp_path)
    assert shown in page
    assert "violates" not in said
    assert "Uncaught" not in said


def test_a_violation_would_be_seen(tmp_path: Path) -> None:
    """Without this, the test above could not fail."""
    page = tmp_path / "page.html"
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page.write_text(f"<html><head>{policy}</head><body><script>1</script></body></html>")
    assert "violates" in opened(page.as_uri(), tmp_path / "profile")[1]


def test_a_translation_is_explained_on_a_page(repository: Path, tmp_path: Path) -> None:
    """By a shipped model: the map has a row and a column for each word, and every part has its content."""
    with running_on(repository / "bundles" / "en-de", tmp_path / "log", workers=1) as server:
        page, said = opened(
            f"{server.url}/explain#q=The%20red%20car.&source=en&target=de", tmp_path / "profile"
        )
    assert "violates" not in said
    assert "Uncaught" not in said
    assert "<tr><th></th><th>Das</th><th>rote</th><th>Auto</th><th>.</th></tr>" in page
    assert re.search(r'<tr><th>red</th><td></td><td style="[^"]+">\d+</td><td></td><td></td></tr>', page)
    assert re.search(r'<span title="\d+ of 100 such words[^"]*" style="[^"]*">rote</span>', page)
    assert re.search(r"<span>decode</span><span>[\d.]+ ms</span>", page)
    assert '<ol id="others"><li>' in page
    assert '<div id="attention">' in page
    assert "<tr><th></th><th>▁Das</th><th>▁rot</th><th>e</th><th>▁Auto</th><th>.</th></tr>" in page
    assert re.search(r'<td title="Before ▁rot, \d+ of 100 went to ▁red" style="[^"]+">\d+</td>', page)
