"""Thousands of bundles damaged by chance: each is refused with one line, or translates as it should.

A process does it, and this one watches: a crash of native code or a load that does not end is a failure with
the seed that repeats it (`python -m tests.support.bundle_fuzzer BUNDLE SEED 1`).
"""

import queue
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from export.bundle import BundleError
from export.convert.import_command import ImportNames, import_model
from export.shortlist.build import shortlist_bundle
from model.tokenizer import Tokenizer
from tests.integration.hugging_face import fp32_options
from tests.integration.marian import learn_pieces, write_marian
from tests.support import factories
from tests.support.bundle_fuzzer import Fuzzer

# Whose weights or graph were changed and hashed anew, or who may write other tokens, is another model, which
# no hash can tell.
FORGED = re.compile(r"\d+ (signed flipped [\w.]+\.(weights|onnx)|.*'(forced_end|suppressed_ids)'.*)")
WATCHDOG_S = 60.0  # a load takes 0.2 s


def fuzz(bundle: Path, directory: Path, first: int, count: int) -> Counter[str]:
    """Run so many seeds; gives how they ended.

    Raises:
        AssertionError: with the first seed that ended otherwise than it may.
    """
    copy = Path(shutil.copytree(bundle, directory / f"bundle-{first}"))
    return watch(
        [sys.executable, "-m", "tests.support.bundle_fuzzer", str(copy), str(first), str(count)],
        directory,
        count,
    )


def watch(command: list[str], directory: Path, count: int) -> Counter[str]:
    """Read what a process that damages bundles says."""
    with (directory / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    ends: Counter[str] = Counter()
    damage = "at the start"
    try:
        while damage := lines.get(timeout=WATCHDOG_S):
            end = lines.get(timeout=WATCHDOG_S)
            forged = end == "other" and FORGED.fullmatch(damage)
            assert end in ("refused", "same") or forged, (
                f"{damage}: {end or f'the process ended with {process.wait()}'}"
            )
            ends[end] += 1
    except queue.Empty:
        pytest.fail(f"{damage}: nothing came of it within {WATCHDOG_S:.0f} s")
    finally:
        process.kill()
        process.wait()
    assert sum(ends.values()) == count, (directory / "errors").read_text(errors="replace")[-2000:]
    return ends


@pytest.fixture(scope="module", params=["fp32", "int8", "shortlist", "marian"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle of each kind of files."""
    if request.param in ("fp32", "int8"):
        whole = request.getfixturevalue("tiny_bundle" if request.param == "fp32" else "tiny_bundle_int8")
        return cast("Path", whole)
    directory = tmp_path_factory.mktemp(request.param)
    out = directory / "bundle"
    if request.param == "shortlist":
        options = factories.shortlist_options(directory)
        shortlist_bundle(request.getfixturevalue("tiny_bundle_int8"), out, options)
        return out
    text, _ = factories.write_text(directory)
    lines = factories.parallel_text(400)
    pieces = [learn_pieces(side, directory / f"{n}.spm") for n, side in enumerate(lines)]
    model = write_marian(directory / "opus-mt-en-de", *pieces, separate=True)
    import_model(str(model), out, None, ImportNames(), fp32_options(text), lambda line: None)
    return out


def test_300_damaged_bundles_are_refused_or_harmless(bundle: Path, tmp_path: Path) -> None:
    ends = fuzz(bundle, tmp_path, 0, 300)
    assert ends["refused"] > 200
    assert ends["same"] > 10


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_10000_damaged_bundles_are_refused_or_harmless(bundle: Path, tmp_path: Path) -> None:
    ends = fuzz(bundle, tmp_path, 1000, 10_000)
    assert ends["refused"] > 7000
    print(dict(ends))


def test_what_onnx_runtime_cannot_read_is_not_printed(
    tiny_bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Seed 4661 of the above: a name that is no text. Standard output is the log."""
    fuzzer = Fuzzer(Path(shutil.copytree(tiny_bundle, tmp_path / "bundle")))
    graph = fuzzer.bundle / "encoder.onnx"
    content = graph.read_bytes()
    assert b"Gemm" in content
    graph.write_bytes(content.replace(b"Gemm", b"\xf9emm"))
    fuzzer.sign(graph)
    with pytest.raises(BundleError, match=r"encoder\.onnx"):
        fuzzer.translate()
    assert capfd.readouterr().out == ""


def test_a_vocabulary_that_sentencepiece_complains_of_in_other_than_text_is_refused(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """Seed 8008: it quotes a piece that occurs twice, and this one is not UTF-8."""
    fuzzer = Fuzzer(Path(shutil.copytree(tiny_bundle, tmp_path / "bundle")))
    file = fuzzer.bundle / "source.spm"
    content, pieces = file.read_bytes(), Tokenizer.load(file).source_pieces()
    one, other = [piece.encode() for piece in pieces if len(piece.encode()) == 5][:2]
    for piece in (one, other):
        assert content.count(b"\x0a\x05" + piece) == 1
        content = content.replace(b"\x0a\x05" + piece, b"\x0a\x05\xb8\xb8\xb8\xb8\xb8")
    file.write_bytes(content)
    fuzzer.sign(file)
    with pytest.raises(BundleError, match="not a SentencePiece model"):
        fuzzer.translate()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "print('1 x\\nrefused\\n2 bytes', flush=True); os.kill(os.getpid(), 11)",
            "2 bytes: the process ended with -11",
        ),
        ("print('1 x\\nother')", "1 x: other"),
        ("print('1 x\\nraised MemoryError: ')", "1 x: raised"),
        ("print('1 x\\nrefused')", "assert 1 == 2"),
    ],
)
def test_the_watch_notices_what_goes_wrong(tmp_path: Path, program: str, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        watch([sys.executable, "-c", f"import os; {program}"], tmp_path, 2)
