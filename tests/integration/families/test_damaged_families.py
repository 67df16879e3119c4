"""Models of every family damaged by chance: each is refused with one line, or read; nothing else happens."""

import io
import json
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from ctranslate2.converters import TransformersConverter

from export.convert.ctranslate2.from_ctranslate2 import import_ctranslate2
from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_files import HuggingFaceError
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import CheckpointError
from model.tokenizer import TokenizerError
from tests.integration import bart, fairseq
from tests.integration.families import test_t5_models
from tests.integration.marian import write_marian
from tests.support.bundle_fuzzer import flipped, shortened, with_other_fields

NAMES = ImportNames(sources=["en"], targets=["de"])
REFUSALS = (CheckpointError, HuggingFaceError, TokenizerError)
FAMILIES = (
    "nllb",
    "nllb.json",
    "m2m100",
    "mbart25",
    "t5",
    "t5.json",
    "bart",
    "bart.json",
    "ctranslate2",
    "argos",
)
Read = Callable[[Path, Path], object]


def _read_huggingface(directory: Path, out: Path) -> object:
    return import_checkpoint(directory, out, NAMES, lambda line: None)


def _read_ctranslate2(directory: Path, out: Path) -> object:
    packages = sorted(directory.glob("*.argosmodel"))
    return import_ctranslate2(packages[0] if packages else directory, out, NAMES, lambda line: None)


@pytest.fixture(scope="module", params=FAMILIES)
def whole(
    request: pytest.FixtureRequest, pieces: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Read]:
    """A directory and what reads it."""
    kind, _, form = request.param.partition(".")
    directory = tmp_path_factory.mktemp(kind) / "model"
    saved = form == "json"
    if kind == "bart":
        return bart.write(directory, saved_by_transformers=saved), _read_huggingface
    if kind == "t5":
        return test_t5_models.write(directory, kind, saved_by_transformers=saved), _read_huggingface
    if kind in ("ctranslate2", "argos"):
        original = write_marian(directory.parent / "original", *pieces)
        TransformersConverter(str(original)).convert(str(directory), quantization="int8")
        for name in ("source.spm", "target.spm"):
            shutil.copyfile(original / name, directory / name)
        if kind == "argos":
            _pack(directory)
        return directory, _read_ctranslate2
    return fairseq.write_model(directory, kind, saved_by_transformers=saved), _read_huggingface


def _pack(directory: Path) -> None:
    """Put a model into a package, and leave nothing else."""
    metadata = {"from_code": "en", "to_code": "de", "package_version": "1.9"}
    names = {"source.spm": "en_de/sentencepiece.model"}
    with zipfile.ZipFile(directory / "translate.argosmodel", "w") as archive:
        for file in sorted(directory.iterdir()):
            if file.suffix not in (".argosmodel", ".spm"):
                archive.write(file, f"en_de/model/{file.name}")
        archive.write(directory / "source.spm", names["source.spm"])
        archive.writestr("en_de/metadata.json", json.dumps(metadata))
    for file in directory.iterdir():
        if file.suffix != ".argosmodel":
            file.unlink()


def _damaged(content: bytes, name: str, draw: random.Random) -> bytes:
    if name.endswith(".json") and draw.random() < 0.7:
        values = json.loads(content)
        values, _ = with_other_fields(values, draw, draw.choice((1, 1, 3)) if len(values) > 3 else 1)
        return json.dumps(values).encode()
    return draw.choice((flipped, shortened))(content, draw)


def damage(directory: Path, draw: random.Random) -> str:
    """Change or remove one file, or one within a package; gives its name."""
    path = draw.choice(sorted(directory.iterdir()))
    if path.suffix == ".argosmodel" and draw.random() < 0.8:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice(sorted(members))
        members[name] = _damaged(members[name], name, draw)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        path.write_bytes(out.getvalue())
        return name
    if draw.random() < 0.03:
        path.unlink()
    else:
        path.write_bytes(_damaged(path.read_bytes(), path.name, draw))
    return path.name


def read_damaged(whole: tuple[Path, Read], copy: Path, seeds: range) -> Counter[str]:
    """Damage and read a copy for each seed; gives how that ended."""
    directory, read = whole
    ends: Counter[str] = Counter()
    for seed in seeds:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
        name = damage(copy, random.Random(seed))
        try:
            read(copy, copy.with_name("out"))
        except REFUSALS as error:
            line = str(error)
            assert line.isprintable(), f"{seed} {name}: {line!r}"
            assert len(line) < 1000, f"{seed} {name}: {line}"
            ends["refused"] += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            pytest.fail(f"{seed} {name}: {type(error).__name__}: {error}")
        else:
            ends["read"] += 1
    return ends


@pytest.mark.slow
def test_60_damaged_models_are_refused_or_read(whole: tuple[Path, Read], tmp_path: Path) -> None:
    ends = read_damaged(whole, tmp_path / "model", range(60))
    assert ends["refused"] > 10, ends


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_1000_damaged_models_are_refused_or_read(whole: tuple[Path, Read], tmp_path: Path) -> None:
    print(dict(read_damaged(whole, tmp_path / "model", range(1000, 2000))))
