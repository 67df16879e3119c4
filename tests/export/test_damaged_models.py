"""Checkpoints and MarianMT directories damaged by chance: each is refused with one line, or read."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import ImportNames, import_checkpoint
from model.checkpoint import CheckpointError, load_checkpoint
from model.tokenizer import TokenizerError
from tests.integration.marian import learn_pieces, write_marian
from tests.support import factories
from tests.support.bundle_fuzzer import flipped, shortened, with_other_fields

REFUSALS = (CheckpointError, HuggingFaceError, TokenizerError)
Read = Callable[[Path], object]


@pytest.fixture(scope="module", params=["checkpoint", "separate vocabularies", "multilingual"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Read]:
    """A directory and what reads it."""
    if request.param == "checkpoint":
        return request.getfixturevalue("tiny_checkpoint"), load_checkpoint
    directory = tmp_path_factory.mktemp("whole")
    pieces = [
        learn_pieces(side, directory / f"{n}.spm") for n, side in enumerate(factories.parallel_text(300))
    ]
    codes = ("de", "pt_BR") if request.param == "multilingual" else ()
    model = write_marian(directory / "opus-mt-en-de", *pieces, codes=codes, separate=not codes)

    def read(damaged: Path) -> object:
        return import_checkpoint(damaged, directory / "checkpoint", ImportNames(), lambda line: None)

    return model, read


def damage(directory: Path, draw: random.Random) -> str:
    """Change or remove one file; says how."""
    path = draw.choice(sorted(directory.iterdir()))
    what = draw.random()
    if path.suffix == ".json" and what < 0.8:
        values = json.loads(path.read_text(encoding="utf-8"))
        values, changed = with_other_fields(values, draw, draw.choice((1, 1, 1, 3)))
        path.write_text(json.dumps(values), encoding="utf-8")
        return f"{path.name}: {changed}"
    if what < 0.97:
        change = draw.choice((flipped, shortened))
        path.write_bytes(change(path.read_bytes(), draw))
        return f"{path.name} {change.__name__}"
    path.unlink()
    return f"{path.name} removed"


def read_damaged(whole: tuple[Path, Read], copy: Path, seeds: range) -> Counter[str]:
    """Damage and read a copy for each seed; gives how that ended."""
    directory, read = whole
    ends: Counter[str] = Counter()
    for seed in seeds:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
        done = damage(copy, random.Random(seed))
        try:
            read(copy)
        except REFUSALS as error:
            line = str(error)
            assert line.isprintable(), f"{seed} {done}"
            assert len(line) < 1000, f"{seed} {done}: {line}"
            ends["refused"] += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            pytest.fail(f"{seed} {done}: {type(error).__name__}: {error}")
        else:
            ends["read"] += 1
    return ends


def test_150_damaged_models_are_refused_or_read(whole: tuple[Path, Read], tmp_path: Path) -> None:
    ends = read_damaged(whole, tmp_path / "opus-mt-en-de", range(150))
    assert min(ends["refused"], ends["read"]) > 20


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_5000_damaged_models_are_refused_or_read(whole: tuple[Path, Read], tmp_path: Path) -> None:
    print(dict(read_damaged(whole, tmp_path / "opus-mt-en-de", range(1000, 6000))))
