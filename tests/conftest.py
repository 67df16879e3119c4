"""What every test may use. One thread for torch and its relatives: small machines run this too."""

import fcntl
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import hypothesis
import pytest

from tests.support.examples import examples

# A busy machine is no error. (If CI is set, hypothesis has its own profile: no deadline, no random draws.)
hypothesis.settings.register_profile("patient", deadline=None, max_examples=examples(100))
if "CI" not in os.environ:
    hypothesis.settings.load_profile("patient")

# What a shell starts in the background ignores Ctrl-C, with `nohup` hang-ups, too; so would what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tests that send a sentence again want it computed again; those of the cache say so.
os.environ.setdefault("DRAGOMAN_CACHE_BYTES", "0")
# Models of tests know a few words, and what they say is compared with the engine's own words.
os.environ.setdefault("DRAGOMAN_GUARD", "off")
if "DRAGOMAN_WEIGHTS_CACHE" not in os.environ:  # not the user's own
    _weights = tempfile.TemporaryDirectory(prefix="dragoman-weights-")
    os.environ["DRAGOMAN_WEIGHTS_CACHE"] = _weights.name

Precision = Literal["fp32", "fp16", "int8"]
REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """Make something in a directory that the processes of a run share; the first one that asks makes it."""
    root = factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / f"shared-{name}"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = root / "path"
        if not path.exists():
            (root / "made").mkdir()
            path.write_text(str(make(root / "made")))
        return Path(path.read_text())


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained-for-nothing model of a few thousand parameters, as `dragoman train` would leave it."""
    from tests.support import factories

    return made_once(tmp_path_factory, "checkpoint", factories.tiny_checkpoint)


def tiny_bundle_of(
    factory: pytest.TempPathFactory, checkpoint: Path, precision: Precision, kind: str = ""
) -> Path:
    """The tiny model, or another kind, as a bundle. Read only: copy it before changing anything."""
    from tests.support import factories

    return made_once(
        factory, kind + precision, lambda folder: factories.tiny_bundle(folder, checkpoint, precision)
    )


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an fp32 bundle."""
    return tiny_bundle_of(tmp_path_factory, tiny_checkpoint, "fp32")


@pytest.fixture(scope="session")
def tiny_bundle_int8(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an int8 bundle."""
    return tiny_bundle_of(tmp_path_factory, tiny_checkpoint, "int8")


@pytest.fixture(scope="session")
def tiny_bundle_fp16(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an fp16 bundle."""
    return tiny_bundle_of(tmp_path_factory, tiny_checkpoint, "fp16")


@pytest.fixture(scope="session")
def recurrent_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for a decoder with an SSRU, of the architecture of Firefox's models."""
    from tests.support import factories

    def make(folder: Path) -> Path:
        return factories.tiny_checkpoint(folder, **factories.FIREFOX)

    return made_once(tmp_path_factory, "recurrent", make)


@pytest.fixture(scope="session")
def recurrent_bundle(tmp_path_factory: pytest.TempPathFactory, recurrent_checkpoint: Path) -> Path:
    """The recurrent model as an fp32 bundle."""
    return tiny_bundle_of(tmp_path_factory, recurrent_checkpoint, "fp32", "recurrent-")


@pytest.fixture(scope="session")
def recurrent_bundle_int8(tmp_path_factory: pytest.TempPathFactory, recurrent_checkpoint: Path) -> Path:
    """The recurrent model as an int8 bundle."""
    return tiny_bundle_of(tmp_path_factory, recurrent_checkpoint, "int8", "recurrent-")
