"""What every test may use. One thread for torch and its relatives: small machines run this too."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest

from tests.examples import examples

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

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained-for-nothing model of a few thousand parameters, as `dragoman train` would leave it."""
    from tests import factories

    return factories.tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an fp32 bundle. Read only: copy it before changing anything."""
    from tests import factories

    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), tiny_checkpoint, precision="fp32")


@pytest.fixture(scope="session")
def tiny_bundle_int8(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an int8 bundle. Read only: copy it before changing anything."""
    from tests import factories

    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), tiny_checkpoint, precision="int8")


@pytest.fixture(scope="session")
def tiny_bundle_fp16(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny model as an fp16 bundle. Read only: copy it before changing anything."""
    from tests import factories

    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), tiny_checkpoint, precision="fp16")
