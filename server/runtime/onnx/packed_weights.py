"""Weights in the layout that ONNX Runtime's kernels read, packed once into files that all sessions map.

When a session opens, ONNX Runtime packs the weights of its products anew, in memory of its own: every beam
width and every multi-step graph of a model adds a copy. Here each graph is saved once, optimized, with its
packed weights in a file beside it. Sessions that are opened from there map the file. The decoder graphs of a
bundle have the same weights, so their files are equal and become hard links of one.

What is packed depends on the processor and on the version of ONNX Runtime. A folder is written aside and
renamed, so it is complete or missing, and checksums are compared before a file is mapped: reading behind
the end of a mapped file would end the process. The folder is nobody else's, so this is against damage, not
malice: CRC-32 takes a sixth of the time of SHA-256, a third of the start of 0.6 billion parameters.
"""

import contextlib
import errno
import filecmp
import hashlib
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from export.bundle import BundleError, Manifest, verify_hashes
from server.process_tuning import return_free_memory
from server.runtime.onnx.session_options import CPU, open_session, session_options

_log = logging.getLogger("dragoman.runtime")

_INDEX = "index.json"
_CPU_FACTS = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")
_UNUSED_S = 30 * 86400
"""Folders that no start has used for so long are removed."""


def packed_graphs(root: Path, directory: Path, manifest: Manifest) -> Mapping[str, Path]:
    """Give the saved graphs of a verified bundle by file, packing their weights if that was not done before.

    `root` is the folder for all bundles; nothing comes where it cannot be used, which is logged.
    """
    try:
        folder = root / _key(manifest)
        if not _is_sound(folder):
            _pack(root, folder, directory, manifest)
        os.utime(folder)
    except Exception as error:  # noqa: BLE001 - a graph that does not load is refused without packing
        _log.warning("every session packs its weights for itself: %s", str(error) or type(error).__name__)
        return {}
    return {file: folder / file for file in manifest.graph_files}


def open_packed(file: Path, options: ort.SessionOptions) -> ort.InferenceSession:
    """Open a saved graph, which is optimized already."""
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return open_session(file, options, CPU)


def _key(manifest: Manifest) -> str:
    """Name the folder by what the packed weights depend on."""
    graphs = sorted((name, entry.sha256) for name, entry in manifest.files.items())
    facts = ["CRC-32", str(graphs), ort.__version__, platform.machine(), *_processor()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _processor() -> list[str]:
    """Describe the first processor as Linux does; nothing elsewhere."""
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except OSError:
        return []
    return [line for line in first.splitlines() if line.partition("\t")[0].strip(" :") in _CPU_FACTS]


def _is_sound(folder: Path) -> bool:
    """Tell whether the folder is there, is ours, and holds what was written to it."""
    try:
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        checksums = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        known: dict[int, int] = {}
        for name, expected in checksums.items():
            inode = (folder / name).stat().st_ino
            if inode not in known:
                known[inode] = _checksum(folder / name)
            if known[inode] != expected:
                raise BundleError(name, "is damaged")
    except FileNotFoundError:
        return False
    except (ValueError, AttributeError, BundleError) as error:
        _log.warning("packed weights are made anew: %s", error)
        return False
    return True


def _pack(root: Path, folder: Path, directory: Path, manifest: Manifest) -> None:
    """Write the folder of a bundle."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_unused(root)
    aside = Path(tempfile.mkdtemp(prefix=".", dir=root))
    try:
        verify_hashes(directory, manifest, range(sys.maxsize))  # the caller may not have done so yet
        checksums: dict[str, int] = {}
        for file in dict.fromkeys(manifest.graph_files):
            _save(directory / file, aside / file, smallest_bytes=4 * manifest.architecture.vocab_size + 1)
            for path in (aside / file, aside / _weights(file)):
                if path.exists():
                    _add(checksums, path)
        (aside / _INDEX).write_text(json.dumps(checksums), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            aside.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise  # else another process was faster
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        return_free_memory()


def _save(graph: Path, target: Path, smallest_bytes: int) -> None:
    """Save a graph with packed weights.

    Args:
        graph: of the bundle.
        target: file to write; the weights go beside it.
        smallest_bytes: of a tensor that goes there. Scales of the output layer stay in the graph: those of a
            multi-step graph are others, and would make its file another one.
    """
    options = session_options(1)
    options.optimized_model_filepath = str(target)
    for key, value in {
        "session.save_external_prepacked_constant_initializers": "1",
        "session.optimized_model_external_initializers_file_name": _weights(target.name),
        "session.optimized_model_external_initializers_min_size_in_bytes": str(smallest_bytes),
    }.items():
        options.add_session_config_entry(key, value)
    open_session(graph, options, CPU)


def _weights(graph: str) -> str:
    return f"{graph}.weights"


def _add(checksums: dict[str, int], path: Path) -> None:
    """Note a file's checksum, and replace the file by a link where there is an equal one."""
    found = _checksum(path)
    for name, known in checksums.items():
        if known == found and filecmp.cmp(path.with_name(name), path, shallow=False):
            with contextlib.suppress(OSError):  # not every file system has links
                link = path.with_name(".link")
                link.hardlink_to(path.with_name(name))
                link.replace(path)
            break
    checksums[path.name] = found


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            found = zlib.crc32(block, found)
    return found


def _remove_unused(root: Path) -> None:
    """Remove what no start has used lately, unfinished folders included."""
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(folder)
