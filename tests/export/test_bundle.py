"""A bundle is read only if every byte of it is what the manifest says; anything else is one clear line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from export.bundle import (
    BundleError,
    FileEntry,
    Manifest,
    hash_file,
    load_manifest,
    verify_bundle,
    write_manifest,
)

Change = Callable[[Path], None]


@pytest.fixture
def bundle(tmp_path: Path, tiny_bundle: Path) -> Path:
    return Path(shutil.copytree(tiny_bundle, tmp_path / "copy"))


def _edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = bundle / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


def _sign(bundle: Path, name: str) -> None:
    """State the file's new size and hash in the manifest, as a forger would."""
    path = bundle / name
    entry = FileEntry(sha256=hash_file(path), size_bytes=path.stat().st_size)
    _edit(bundle, lambda values: values["files"].update({name: entry.model_dump()}))


def _flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _overwrite(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def _add(path: Path) -> None:
    path.write_bytes(b"x")


def _replace(path: Path, create: Callable[[Path], None]) -> None:
    path.unlink()
    create(path)


def _replace_by_link(path: Path, link: Callable[[Path, Path], None]) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    link(elsewhere, path)


def _foreign_graph(bundle: Path, domain: str, version: int) -> None:
    path = bundle / "decoder.onnx"
    model = onnx.load(path, load_external_data=False)
    model.opset_import.append(onnx.helper.make_opsetid(domain, version))
    model.graph.node[0].domain = domain
    path.write_bytes(model.SerializeToString())
    _sign(bundle, "decoder.onnx")


def _change_opset(bundle: Path, version: int) -> None:
    path = bundle / "encoder.onnx"
    model = onnx.load(path, load_external_data=False)
    next(entry for entry in model.opset_import if entry.domain == "").version = version
    path.write_bytes(model.SerializeToString())
    _sign(bundle, "encoder.onnx")


def _change_ir(bundle: Path) -> None:
    path = bundle / "encoder.onnx"
    model = onnx.load(path, load_external_data=False)
    model.ir_version = 99
    path.write_bytes(model.SerializeToString())
    _sign(bundle, "encoder.onnx")


def _weights_elsewhere(bundle: Path, location: str) -> None:
    path = bundle / "encoder.onnx"
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    _sign(bundle, "encoder.onnx")


def _signed_content(bundle: Path, name: str, content: bytes) -> None:
    (bundle / name).write_bytes(content)
    _sign(bundle, name)


def _cut_end(path: Path, count: int) -> None:
    os.truncate(path, path.stat().st_size - count)


def _raw_manifest(bundle: Path, content: bytes) -> None:
    (bundle / "manifest.json").write_bytes(content)


def _duplicate_key(bundle: Path) -> None:
    text = (bundle / "manifest.json").read_text(encoding="utf-8")
    _raw_manifest(bundle, ('{"precision": "fp32",' + text.lstrip()[1:]).encode())


def _rename_listed(values: dict[str, Any], name: str) -> None:
    values["files"][name] = values["files"].pop("NOTICE")


CORRUPTIONS: dict[str, tuple[Change, str, str]] = {
    "half a file": (lambda b: _cut_end(b / "model.weights", 20_000), "model.weights", "bytes"),
    "last byte cut": (lambda b: _cut_end(b / "model.weights", 1), "model.weights", "bytes"),
    "empty": (lambda b: os.truncate(b / "source.spm", 0), "source.spm", "has 0 bytes"),
    "random": (
        lambda b: _overwrite(b / "decoder.onnx"),
        "decoder.onnx",
        "SHA-256",
    ),
    "bit flip in weights": (lambda b: _flip_bit(b / "model.weights"), "model.weights", "SHA-256"),
    "bit flip in the tokenizer": (lambda b: _flip_bit(b / "source.spm"), "source.spm", "SHA-256"),
    "directory": (lambda b: _replace(b / "NOTICE", Path.mkdir), "NOTICE", "not a regular file"),
    "missing graph": (lambda b: (b / "decoder.beam2.onnx").unlink(), "decoder.beam2.onnx", "missing"),
    "missing tokenizer": (lambda b: (b / "source.spm").unlink(), "source.spm", "missing"),
    "missing manifest": (lambda b: (b / "manifest.json").unlink(), "manifest.json", "missing"),
    "symlink": (
        lambda b: _replace_by_link(b / "source.spm", lambda to, at: at.symlink_to(to)),
        "source.spm",
        "symbolic link",
    ),
    "dangling symlink": (
        lambda b: _replace(b / "NOTICE", lambda path: path.symlink_to("nowhere")),
        "NOTICE",
        "symbolic link",
    ),
    "manifest is a symlink": (
        lambda b: _replace_by_link(b / "manifest.json", lambda to, at: at.symlink_to(to)),
        "manifest.json",
        "symbolic link",
    ),
    "hard link": (
        lambda b: _replace_by_link(b / "model.weights", lambda to, at: at.hardlink_to(to)),
        "model.weights",
        "hard link",
    ),
    "unknown file": (lambda b: _add(b / "extra.bin"), "extra.bin", "not listed"),
    "unknown file with a strange name": (
        lambda b: _add(b / "x\ny\x1b[2J"),
        "x\\ny\\x1b[2J",
        "not listed",
    ),
    "fifo": (lambda b: _replace(b / "NOTICE", os.mkfifo), "NOTICE", "regular"),
    "name with ..": (lambda b: _edit(b, lambda v: _rename_listed(v, "../NOTICE")), "manifest.json", "files"),
    "absolute name": (
        lambda b: _edit(b, lambda v: _rename_listed(v, "/etc/passwd")),
        "manifest.json",
        "files",
    ),
    "name below a folder": (lambda b: _edit(b, lambda v: _rename_listed(v, "a/b")), "manifest.json", "files"),
    "graph not listed": (
        lambda b: _edit(b, lambda v: v["graphs"].update(encoder="other.onnx")),
        "manifest.json",
        "other.onnx",
    ),
    "no graph for one beam": (
        lambda b: _edit(b, lambda v: v["graphs"]["decoders"].pop("1")),
        "manifest.json",
        "beam width 1",
    ),
    "multi_step of beams that it does not have": (
        lambda b: _edit(b, lambda v: v["graphs"].update(beam_multi_step={"7": "decoder.onnx"})),
        "manifest.json",
        "beam_multi_step",
    ),
    "multi_step of one beam twice": (
        lambda b: _edit(b, lambda v: v["graphs"].update(beam_multi_step={"1": "decoder.onnx"})),
        "manifest.json",
        "beam_multi_step",
    ),
    "format version 2": (
        lambda b: _edit(b, lambda v: v.update(format_version=2)),
        "manifest.json",
        "version 2",
    ),
    "format version true": (
        lambda b: _edit(b, lambda v: v.update(format_version="1")),
        "manifest.json",
        "format_version",
    ),
    "unknown field": (lambda b: _edit(b, lambda v: v.update(plugin="x.so")), "manifest.json", "plugin"),
    "missing field": (lambda b: _edit(b, lambda v: v.pop("limits")), "manifest.json", "limits"),
    "token outside the vocabulary": (
        lambda b: _edit(b, lambda v: v["special_tokens"].update(eos_id=360)),
        "manifest.json",
        "vocabulary",
    ),
    "heads do not fit": (
        lambda b: _edit(b, lambda v: v["architecture"].update(decoder_heads=5)),
        "manifest.json",
        "head_dim",
    ),
    "manifest garbage": (lambda b: _raw_manifest(b, os.urandom(500)), "manifest.json", "not JSON"),
    "manifest empty": (lambda b: _raw_manifest(b, b""), "manifest.json", "not JSON"),
    "manifest huge": (lambda b: _raw_manifest(b, b" " * 2_000_000), "manifest.json", "2000000 bytes"),
    "manifest deep": (lambda b: _raw_manifest(b, b"[" * 200_000), "manifest.json", "not JSON"),
    "manifest is a list": (lambda b: _raw_manifest(b, b"[1]"), "manifest.json", "not a JSON object"),
    "manifest says a key twice": (_duplicate_key, "manifest.json", "twice"),
    "manifest with NaN": (
        lambda b: _raw_manifest(b, b'{"format_version": NaN}'),
        "manifest.json",
        "NaN is not a number",
    ),
    "signed: opset 99": (lambda b: _change_opset(b, 99), "encoder.onnx", "opset 99"),
    "signed: IR version 99": (_change_ir, "encoder.onnx", "IR version 99"),
    "signed: foreign operators": (lambda b: _foreign_graph(b, "evil", 1), "decoder.onnx", "domain 'evil'"),
    "signed: weights above the bundle": (
        lambda b: _weights_elsewhere(b, "../weights"),
        "encoder.onnx",
        "'../weights'",
    ),
    "signed: weights anywhere": (
        lambda b: _weights_elsewhere(b, "/etc/hostname"),
        "encoder.onnx",
        "'/etc/hostname'",
    ),
    "signed: graph is text": (
        lambda b: _signed_content(b, "encoder.onnx", b"hello, this is no graph"),
        "encoder.onnx",
        "not an ONNX model",
    ),
    "signed: graph is empty": (
        lambda b: _signed_content(b, "decoder.onnx", b""),
        "decoder.onnx",
        "not an ONNX model",
    ),
    "signed: tokenizer is random": (
        lambda b: _signed_content(b, "source.spm", bytes(range(256))),
        "source.spm",
        "SentencePiece",
    ),
    "more layers than memory": (
        lambda b: _edit(b, lambda v: v["architecture"].update(decoder_layers=2**40)),
        "manifest.json",
        "architecture.decoder_layers",
    ),
    "vocabulary of another model": (
        lambda b: _edit(b, lambda v: v["architecture"].update(source_vocab_size=365, vocab_size=365)),
        "source.spm",
        "360 pieces",
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_bundle_is_refused_with_one_line(bundle: Path, name: str) -> None:
    corrupt, file, reason = CORRUPTIONS[name]
    corrupt(bundle)
    with pytest.raises(BundleError) as caught:
        verify_bundle(bundle)
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    assert reason in line
    assert line.isprintable()
    assert len(line) < 700


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_whole_bundle_is_accepted(request: pytest.FixtureRequest, precision: str) -> None:
    directory = request.getfixturevalue("tiny_bundle" if precision == "fp32" else "tiny_bundle_int8")
    manifest = verify_bundle(directory)
    assert manifest.precision == precision
    assert manifest.graphs.beam_widths == (1, 2, 4)
    assert manifest == load_manifest(directory)


def test_the_directory_itself_may_be_a_symlink(tmp_path: Path, tiny_bundle: Path) -> None:
    (tmp_path / "current").symlink_to(tiny_bundle)
    assert verify_bundle(tmp_path / "current").name == "tiny-en-de"


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_bundle_that_is_no_directory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bundle"
    if kind == "file":
        path.write_bytes(b"x")
    with pytest.raises(BundleError, match="no such bundle directory"):
        verify_bundle(path)


def test_a_manifest_survives_writing_and_reading(tmp_path: Path, tiny_bundle_int8: Path) -> None:
    manifest = load_manifest(tiny_bundle_int8)
    write_manifest(tmp_path, manifest)
    assert load_manifest(tmp_path) == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_manifest_cannot_be_changed(tiny_bundle: Path) -> None:
    manifest: Manifest = load_manifest(tiny_bundle)
    with pytest.raises(ValueError, match="frozen"):
        manifest.precision = "int8"  # type: ignore[misc]


def test_reading_bundles_needs_no_heavy_library(repository: Path) -> None:
    code = "import sys, export.bundle; print(sorted({'torch', 'onnx', 'numpy'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
