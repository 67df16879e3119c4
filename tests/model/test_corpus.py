import gzip
from pathlib import Path

import pytest

from model.corpus import CorpusError, read_parallel


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_reads_plain_and_gzip_and_joins_files(tmp_path: Path) -> None:
    sources = [write(tmp_path / "a.en", b"one\ntwo\n"), write(tmp_path / "b.en.gz", b"three")]
    targets = [write(tmp_path / "a.de.gz", b"eins\nzwei\r\n"), write(tmp_path / "b.de", "drei ü\n".encode())]
    text = read_parallel(sources, targets)
    assert text.sources == ["one", "two", "three"]
    assert text.targets == ["eins", "zwei", "drei ü"]


@pytest.mark.parametrize(
    ("source", "target", "file", "message"),
    [
        (b"a\nb\n", b"a\n", "corpus.de", "line counts differ"),
        (b"", b"", "corpus.en", "empty file"),
        (b"a\n\nc\n", b"a\nb\nc\n", "corpus.en:2", "empty line"),
        (b"a\nb\n", b"a\n\xff\xfe\n", "corpus.de:2", "not UTF-8"),
        (b"a\n\xc3\n", b"a\nb\n", "corpus.en:2", "not UTF-8"),
    ],
)
def test_a_broken_corpus_names_file_and_line(
    tmp_path: Path, source: bytes, target: bytes, file: str, message: str
) -> None:
    with pytest.raises(CorpusError, match=message) as error:
        read_parallel([write(tmp_path / "corpus.en", source)], [write(tmp_path / "corpus.de", target)])
    assert file in str(error.value)
    assert "\n" not in str(error.value)


def test_differing_line_counts_say_where_the_shorter_file_ends(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"has 3, .*has 2; .*corpus\.de ends after line 2"):
        read_parallel(
            [write(tmp_path / "corpus.en", b"a\nb\nc\n")], [write(tmp_path / "corpus.de", b"a\nb\n")]
        )


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    good = write(tmp_path / "good.de", b"a\n")
    with pytest.raises(CorpusError, match=r"none\.en: no such file"):
        read_parallel([tmp_path / "none.en"], [good])
    cut = tmp_path / "cut.en.gz"
    cut.write_bytes(gzip.compress(b"a\n" * 1000)[:-12])
    with pytest.raises(CorpusError, match=r"cut\.en\.gz: cannot be read"):
        read_parallel([cut], [good])
    with pytest.raises(CorpusError, match="1 source files but 2 target files"):
        read_parallel([good], [good, good])
