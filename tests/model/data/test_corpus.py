import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data import corpus
from model.data.corpus import CorpusError, check_parallel, iterate_lines, read_parallel

CONTENT = st.lists(
    st.sampled_from([b"a", b"bc d", b"\n", b"\n", b" ", b"\r", "ü".encode(), "\u2003".encode(), b"\xff"]),
    max_size=30,
).map(b"".join)


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
    damaged = bytearray(gzip.compress(b"a\n" * 1000))
    damaged[10] = 0xFF  # where the compressed text begins: there is no such kind of block
    cut.write_bytes(damaged)
    for read in (read_parallel, check_parallel):
        with pytest.raises(CorpusError, match=r"cut\.en\.gz: cannot be read"):
            read([cut], [cut])
    with pytest.raises(CorpusError, match="1 source files but 2 target files"):
        read_parallel([good], [good, good])


@given(source=CONTENT, target=CONTENT | st.none(), block=st.integers(1, 9))
def test_checking_finds_what_reading_finds(source: bytes, target: bytes | None, block: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "_BLOCK", block)
        sources = [write(Path(folder, "a.en"), source), write(Path(folder, "b.en.gz"), b"one")]
        targets = [Path(folder, "a.de"), write(Path(folder, "b.de"), b"eins\n")]
        write(targets[0], source if target is None else target)
        try:
            expected: int | str = len(read_parallel(sources, targets))
        except CorpusError as error:
            expected = str(error)
        try:
            found: int | str = check_parallel(sources, targets)
        except CorpusError as error:
            found = str(error)
        assert found == expected


def test_a_sample_is_drawn_from_all_lines_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", b"".join(b"%d\n" % number for number in range(20_000)))
    first, again, other = (list(iterate_lines(path, share=0.1, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    numbers = [int(line) for line in first]
    assert numbers == sorted(set(numbers))
    for start in range(0, 20_000, 5_000):
        assert 400 < sum(start <= number < start + 5_000 for number in numbers) < 600
    write(tmp_path / "b", b"a\n" * 99 + b"\xff\n" * 99)
    with pytest.raises(CorpusError, match=r"b:1\d\d: not UTF-8"):
        list(iterate_lines(tmp_path / "b", share=0.5))
