"""Tokenised corpora on disk: what goes in comes out, and nothing damaged is read."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint import Direction, SpecialTokens
from model.data import process_pool, tokenization
from model.data.corpus import CorpusError
from model.data.dataset import TrainingSet, table_of
from model.data.token_table import Column, TokenTable, TokenTableError, TokenTableWriter
from model.data.tokenization import chunks_of, has_files_of, is_tokenised, made_from, tokenise
from model.recipe import Corpus
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece

SPECIAL = SpecialTokens()


def write_table(
    directory: Path, count: int, vocabulary: int = 100
) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(count)
    sides = [
        [rng.integers(4, vocabulary, int(rng.integers(0, 20))).tolist() for _ in range(count)]
        for _ in range(2)
    ]
    writer = TokenTableWriter(directory, vocabulary)
    for start in range(0, count, 7):
        writer.add(*(Column.of(side[start : start + 7]) for side in sides))
    writer.finish({"files": []}, left_out=3)
    return sides[0], sides[1]


@pytest.mark.parametrize("vocabulary", [100, 65_536, 200_000])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_rows_come_back(tmp_path: Path, count: int, vocabulary: int) -> None:
    sources, targets = write_table(tmp_path / "tokens", count, vocabulary)
    table = TokenTable.open(tmp_path / "tokens")
    for _ in range(2):
        assert [table.sources.row(i).tolist() for i in range(len(table))] == sources
        assert [table.targets.row(i).tolist() for i in range(len(table))] == targets
        table.release()
    assert table.left_out == 3
    assert table.sources.lengths(np.arange(count)).tolist() == [len(row) for row in sources]
    size = (tmp_path / "tokens" / "source.ids").stat().st_size
    assert size == (2 if vocabulary <= 65_536 else 4) * sum(map(len, sources))
    assert not (tmp_path / ".tokens.partial").exists()


def test_damaged_tables_are_named_with_the_remedy(tmp_path: Path) -> None:
    directory = tmp_path / "tokens"
    write_table(directory, 20)
    ids = directory / "source.ids"
    ids.write_bytes(ids.read_bytes()[:-2])
    with pytest.raises(
        TokenTableError, match=rf"source\.ids: has \d+ bytes instead of \d+; remove {directory}"
    ):
        TokenTable.open(directory)
    write_table(directory, 20)
    (directory / "target.offsets").unlink()
    with pytest.raises(TokenTableError, match=r"target\.offsets: cannot be read"):
        TokenTable.open(directory)
    index = json.loads((directory / "index.json").read_text())
    (directory / "index.json").write_text(json.dumps({**index, "format_version": 99}))
    with pytest.raises(TokenTableError, match="of another version; remove it"):
        TokenTable.open(directory)
    del index["dtype"]
    (directory / "index.json").write_text(json.dumps(index))
    with pytest.raises(TokenTableError, match=r"index\.json: damaged"):
        TokenTable.open(directory)


@given(st.integers(0, 90), st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_an_epoch_holds_every_pair_once_whatever_the_pool(
    count: int, pool: int, batch_tokens: int, skip: int
) -> None:
    rows = [[5 + i] * (1 + i % 9) for i in range(count)]
    data = TrainingSet(table_of(rows, rows[::-1]), SPECIAL, pool=pool)
    batches = list(data.epoch(1, 2, batch_tokens))
    found = [[i for i in row if i > SPECIAL.eos_id] for batch in batches for row in batch.source_ids.tolist()]
    assert sorted(found) == rows
    for batch in batches:
        assert len(batch.source_ids) == 1 or batch.source_ids.numel() <= batch_tokens
        assert len(batch.target_in) == 1 or batch.target_in.numel() <= batch_tokens
    rest = list(data.epoch(1, 2, batch_tokens, skip=skip))
    assert [b.source_ids.tolist() for b in rest] == [b.source_ids.tolist() for b in batches[skip:]]


def test_pools_mix_distant_pairs_and_epochs_differ() -> None:
    rows = [[i] for i in range(4, 20_004)]
    data = TrainingSet(table_of(rows, rows), SPECIAL, pool=4_096)
    first, again, second = (
        [batch.source_ids[:, 0].numpy() for batch in data.epoch(1, epoch, 400)] for epoch in (0, 0, 1)
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not (first[0] == second[0]).all()
    # Pools of four blocks of 1,024: a batch reaches over more than one of them.
    spans = [int(batch.max() - batch.min()) for batch in first if len(batch) > 100]
    assert sum(span > 1_024 for span in spans) > 0.8 * len(spans)


def corpus_of(folder: Path, lines: list[str]) -> Corpus:
    for side in ("en", "de"):
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    paths = {f"{part}_{side}": [folder / f"train.{end}"] for part in ("train", "dev")
             for side, end in (("source", "en"), ("target", "de"))}  # fmt: skip
    return Corpus.model_validate({"source_language": "en", "target_language": "de", **paths})


DIRECTIONS = [Direction(source="en", target="de")]


def test_a_tag_is_part_of_the_table(tmp_path: Path) -> None:
    lines = ["a b c", "a b"]
    corpus, vocabulary, directory = corpus_of(tmp_path, lines), tmp_path / "source.spm", tmp_path / "tokens"
    train_sentencepiece(lines * 50, vocabulary, vocab_size=300, kind="word", tags=[">>de<<"])
    tokenizer = Tokenizer.load(vocabulary)
    tag = tokenizer.source_pieces().index(">>de<<")
    tagged = [Direction(source="en", target="de", source_prefix_ids=[tag])]
    tokenise(corpus, tagged, tokenizer, directory, made_from(corpus, tagged, [vocabulary], 5), quiet=True)
    table = TokenTable.open(directory)
    assert [table.sources.row(i).tolist() for i in range(2)] == [
        [tag, *ids] for ids in tokenizer.encode_batch(lines)
    ]
    assert not is_tokenised(directory, made_from(corpus, DIRECTIONS, [vocabulary], 5))


def test_text_is_tokenised_once_until_something_changes(tmp_path: Path) -> None:
    lines = [f"a {'b ' * (i % 5)}c" for i in range(300)]
    corpus = corpus_of(tmp_path, lines)
    vocabulary, directory = tmp_path / "source.spm", tmp_path / "tokens"
    train_sentencepiece(lines, vocabulary, vocab_size=300, kind="word")
    tokenizer = Tokenizer.load(vocabulary)
    description = made_from(corpus, DIRECTIONS, [vocabulary], 6)
    assert not is_tokenised(directory, description)
    assert not has_files_of(directory, corpus)
    tokenise(corpus, DIRECTIONS, tokenizer, directory, description, quiet=True)
    assert is_tokenised(directory, description)
    assert has_files_of(directory, corpus)
    table = TokenTable.open(directory)
    assert (len(table), table.left_out) == (240, 60)  # of six ids, one is eos: five words are too long
    assert [table.sources.row(i).tolist() for i in range(4)] == tokenizer.encode_batch(lines[:4])
    assert not is_tokenised(directory, made_from(corpus, DIRECTIONS, [vocabulary], 7))
    other = corpus_of(tmp_path, [*lines, "a"])
    assert not is_tokenised(directory, made_from(other, DIRECTIONS, [vocabulary], 6))
    assert not has_files_of(directory, other)


def test_more_origins_than_two_bytes_count_are_refused(tmp_path: Path) -> None:
    corpus, names = corpus_of(tmp_path, ["a"] * (2**16 + 1)), [f"{i}\n" for i in range(2**16)]
    origins = tmp_path / "origins"
    text = corpus.directions[0].model_copy(update={"train_origin": [origins]})
    corpus = corpus.model_copy(update={"directions": [text]})
    origins.write_text("".join([*names, "0\n"]))
    assert sum(len(chunk.origins) for chunk in chunks_of(corpus, DIRECTIONS, {})) == 2**16 + 1
    origins.write_text("".join([*names, "more\n"]))
    with pytest.raises(CorpusError, match=r"/origins: over 65,536 origins"):
        list(chunks_of(corpus, DIRECTIONS, {}))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenization, "_LINES", 50)
    monkeypatch.setattr(process_pool, "processors", lambda: 2)


@pytest.mark.usefixtures("small_chunks")
def test_a_pool_of_processes_writes_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"a {'b ' * (i % 5)}{i} c" for i in range(1_020)]
    corpus, vocabulary = corpus_of(tmp_path, lines), tmp_path / "source.spm"
    train_sentencepiece(lines, vocabulary, vocab_size=300, kind="bpe")
    tokenizer, tagged = (
        Tokenizer.load(vocabulary),
        [Direction(source="en", target="de", source_prefix_ids=[7])],
    )
    description = made_from(corpus, tagged, [vocabulary], 9)
    for name, processors in (("pool", 2), ("alone", 1)):
        monkeypatch.setattr(process_pool, "processors", lambda count=processors: count)
        tokenise(corpus, tagged, tokenizer, tmp_path / name, description, quiet=True)
    files = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "pool" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
    table = TokenTable.open(tmp_path / "pool")
    assert 0 < table.left_out < 1_020
    assert len(table) + table.left_out == 1_020


@pytest.mark.usefixtures("small_chunks")
def test_a_broken_line_ends_the_pool(tmp_path: Path) -> None:
    lines = ["a b", *["a c"] * 700, "", "a"]
    corpus, vocabulary = corpus_of(tmp_path, lines), tmp_path / "source.spm"
    train_sentencepiece(["a b c"] * 9, vocabulary, vocab_size=300, kind="word")
    description = made_from(corpus, DIRECTIONS, [vocabulary], 12)
    with pytest.raises(CorpusError, match=r"train\.en:702: empty line"):
        tokenise(corpus, DIRECTIONS, Tokenizer.load(vocabulary), tmp_path / "tokens", description, quiet=True)
    assert not multiprocessing.active_children()
    assert not (tmp_path / "tokens").exists()


@pytest.mark.usefixtures("small_chunks")
def test_a_killed_process_of_the_pool_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, vocabulary = corpus_of(tmp_path, ["a b"] * 5_000), tmp_path / "source.spm"
    train_sentencepiece(["a b c"] * 9, vocabulary, vocab_size=300, kind="word")
    description = made_from(corpus, DIRECTIONS, [vocabulary], 12)
    read = tokenization.iterate_parallel

    def killing(*files: Sequence[Path]) -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(read(*files)):
            if number == 800:
                multiprocessing.active_children()[0].kill()
            yield pair

    monkeypatch.setattr(tokenization, "iterate_parallel", killing)
    with pytest.raises(TokenTableError, match="tokens: a process that made it was killed"):
        tokenise(corpus, DIRECTIONS, Tokenizer.load(vocabulary), tmp_path / "tokens", description, quiet=True)
    assert not (tmp_path / "tokens").exists()


_CALLER = """
import os, time
if __name__ == "__main__":
    from model.data import process_pool, tokenization_pool as pool
    import numpy as np
    from model.tokenizer import Tokenizer
    from pathlib import Path
    import multiprocessing, sys
    pool._FEW, process_pool.processors = 0, lambda: 2
    chunks = (pool.Chunk([], "a b", "b a", np.zeros(1, np.uint16)) for _ in range(10**9))
    for number, _ in enumerate(pool.tokenised(chunks, Tokenizer.load(Path(sys.argv[1])), 12)):
        if number == 3:
            print(*(child.pid for child in multiprocessing.active_children()), flush=True)
            time.sleep(60)
"""


def test_a_pool_ends_with_its_killed_caller(tmp_path: Path) -> None:
    vocabulary = tmp_path / "source.spm"
    train_sentencepiece(["a b c"] * 9, vocabulary, vocab_size=300, kind="word")
    (tmp_path / "caller.py").write_text(_CALLER)
    caller = subprocess.Popen(
        [sys.executable, tmp_path / "caller.py", vocabulary],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(tokenization.__file__).parents[2])},
    )
    assert caller.stdout is not None
    children = [psutil.Process(int(number)) for number in caller.stdout.readline().split()]
    assert len(children) == 2
    caller.kill()
    caller.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    caller.stdout.close()
