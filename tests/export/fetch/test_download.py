"""One file over HTTP, from a server on loopback."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from export.fetch import download as module
from export.fetch.download import FetchError, download, read_small
from tests.export.fetch.mirror import Mirror
from tests.support.listening import listening

CONTENT = random.Random(0).randbytes(400_000)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with listening(Mirror({"/file": CONTENT})) as server:
        yield server


def test_a_file_comes_whole_and_stays(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "cache" / "file"
    assert download(f"{mirror.url}/file", target).read_bytes() == CONTENT
    download(f"{mirror.url}/file", target)
    assert mirror.asked == [("/file", "")]
    assert [path.name for path in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("tags_parts", [True, False])
def test_a_cut_connection_is_continued_where_it_ended(
    mirror: Mirror, tmp_path: Path, tags_parts: bool
) -> None:
    mirror.cuts, mirror.tags_parts = 3, tags_parts
    assert download(f"{mirror.url}/file", tmp_path / "file").read_bytes() == CONTENT
    begins = [int(asked.removeprefix("bytes=").rstrip("-")) for _, asked in mirror.asked if asked]
    assert begins == [200_000, 300_000, 350_000]


def test_a_later_command_continues_what_an_earlier_one_left(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cuts = 100
    with pytest.raises(FetchError, match="387500 bytes are kept, the same command continues from there"):
        download(f"{mirror.url}/file", tmp_path / "file")
    assert not (tmp_path / "file").exists()
    mirror.cuts = 0
    assert download(f"{mirror.url}/file", tmp_path / "file").read_bytes() == CONTENT
    assert mirror.asked[-1] == ("/file", "bytes=387500-")


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cuts = 100
    with pytest.raises(FetchError):
        download(f"{mirror.url}/file", tmp_path / "file")
    mirror.cuts, other = 0, CONTENT[::-1]
    mirror.files["/file"] = other
    assert download(f"{mirror.url}/file", tmp_path / "file").read_bytes() == other


def test_a_server_that_does_not_resume_sends_all_of_it_again(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cuts, mirror.resumes = 1, False
    assert download(f"{mirror.url}/file", tmp_path / "file").read_bytes() == CONTENT


def test_redirects_are_followed_a_few_times(mirror: Mirror, tmp_path: Path) -> None:
    mirror.redirects = {"/a": "/b", "/b": f"{mirror.url}/file", "/round": "/round"}
    assert download(f"{mirror.url}/a", tmp_path / "file").read_bytes() == CONTENT
    with pytest.raises(FetchError, match="Exceeded maximum allowed redirects"):
        read_small(f"{mirror.url}/round", 1000, "no remedy")


def test_what_is_missing_or_of_unknown_size_is_one_line(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="the server answers 404 Not Found"):
        download(f"{mirror.url}/none", tmp_path / "file")
    mirror.states_length = False
    with pytest.raises(FetchError, match="does not say how large it is"):
        download(f"{mirror.url}/file", tmp_path / "file")
    with pytest.raises(FetchError, match="more than 1000 bytes"):
        read_small(f"{mirror.url}/file", 1000, "no remedy")
    with pytest.raises(FetchError, match="Connection refused; no remedy"):
        read_small("http://127.0.0.1:9/file", 1000, "no remedy")


def test_a_full_disk_is_found_before_anything_is_written(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(FetchError, match=r"bytes are free, 400000 are needed"):
        download(f"{mirror.url}/file", tmp_path / "file")
    assert not (tmp_path / "file.part").exists()


def test_a_server_that_names_no_version_is_not_said_to_continue(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cuts = 100
    with pytest.raises(FetchError, match="continues from there"):
        download(f"{mirror.url}/file", tmp_path / "file")
    mirror.cuts, mirror.has_tags = 100, False
    mirror.files["/file"] = CONTENT[::-1]
    with pytest.raises(FetchError, match="the same command fetches it anew"):
        download(f"{mirror.url}/file", tmp_path / "file")
    mirror.cuts, mirror.has_tags = 0, True
    mirror.files["/file"] = CONTENT
    assert download(f"{mirror.url}/file", tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("url", ["http://[bad/x", "http://localhost:80a80/x", "round"])
def test_an_address_that_leads_nowhere_is_one_line(mirror: Mirror, tmp_path: Path, url: str) -> None:
    if url == "round":
        url, mirror.redirects = f"{mirror.url}/round", {"/round": "/round"}
    with pytest.raises(FetchError, match=re.escape(url)):
        download(url, tmp_path / "file")
    with pytest.raises(FetchError, match="; the remedy"):
        read_small(url, 1000, "the remedy")
