"""Dividing sentence pairs into parts."""

import gzip
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.training.tatoeba import app


def test_no_sentence_is_in_two_parts(tmp_path: Path) -> None:
    """Every fifth English sentence has a second translation, and every seventh German one belongs to two."""
    lines = [f"one {n}.\teins {n}.\tCC BY" for n in range(2000)]
    lines += [f"one {n}.\tanders {n}." for n in range(0, 2000, 5)]
    lines += [f"more {n}.\teins {n}." for n in range(0, 2000, 7)]
    file = tmp_path / "deu.txt"
    file.write_text("".join(f"{line}\n" for line in [*lines, lines[0], "no translation"]), encoding="utf-8")
    ended = CliRunner().invoke(app, [str(file), str(tmp_path / "parts")])
    assert ended.exit_code == 0, ended.output

    def read(name: str) -> list[str]:
        return gzip.decompress((tmp_path / "parts" / name).read_bytes()).decode().splitlines()

    parts = {part: list(zip(read(f"{part}.en.gz"), read(f"{part}.de.gz"), strict=True))
             for part in ("train", "dev", "test")}  # fmt: skip
    written = [pair for pairs in parts.values() for pair in pairs]
    assert sorted(written) == sorted({tuple(line.split("\t")[:2]) for line in lines})
    for side in (0, 1):
        sentences = [{pair[side] for pair in pairs} for pairs in parts.values()]
        assert sum(map(len, sentences)) == len(set.union(*sentences))
    assert all(10 < len(parts[part]) < 100 for part in ("dev", "test"))
