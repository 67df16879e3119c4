"""Texts of chosen lengths."""

import gzip
import itertools
import json
from pathlib import Path

import pytest

from loadgen.texts import Share, TextError, compose, make_bodies, parse_mix, read_lines


def test_a_mix_has_names_and_parts() -> None:
    assert parse_mix("8") == (Share(8, 8, 1),)
    assert parse_mix("5-50:31, 200:1") == (Share(5, 50, 31), Share(200, 200, 1)) == parse_mix("mixed")
    assert parse_mix("documents") == (Share(200, 1000, 1),)


@pytest.mark.parametrize("text", ["", "long", "0-5", "9-5", "5-", "5:x", "1:0", "5-50:1:2", "-5"])
def test_what_is_no_mix_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        parse_mix(text)


def test_texts_have_the_lengths_that_were_asked_for() -> None:
    texts = compose(parse_mix("5-10:3,200:1"), 400)
    lengths = [len(text.split()) for text in texts]
    assert set(lengths) == {5, 6, 7, 8, 9, 10, 200}
    assert 60 < lengths.count(200) < 140
    assert texts == compose(parse_mix("5-10:3,200:1"), 400)


def test_requests_go_round() -> None:
    bodies = make_bodies(["a", "b", "c"], {"source": "en"})
    first = [json.loads(body) for body in itertools.islice(bodies, 4)]
    assert [body["q"] for body in first] == ["a", "b", "c", "a"]
    assert first[0]["source"] == "en"
    arrays = make_bodies(["a", "b", "c"], {}, array=2)
    assert [json.loads(body)["q"] for body in itertools.islice(arrays, 3)] == [
        ["a", "b"],
        ["c", "a"],
        ["a", "b"],
    ]


def test_lines_are_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_text("one\n\n two \n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_lines(plain) == read_lines(packed) == ["one", "two"]


@pytest.mark.parametrize("rest", [b"", b"\xff" * 20])
def test_a_damaged_file_is_named(tmp_path: Path, rest: bytes) -> None:
    file = tmp_path / "text.gz"
    file.write_bytes(gzip.compress(b"")[:10] + rest)
    with pytest.raises(TextError, match=r"text\.gz: cannot be read: "):
        read_lines(file)


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b"\xff\xfe\x00"])
def test_a_file_without_text_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "text"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TextError, match="text"):
        read_lines(file)
