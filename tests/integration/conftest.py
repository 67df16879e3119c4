"""What the tests of MarianMT models share."""

from pathlib import Path

import pytest

from tests.integration.marian import learn_pieces
from tests.support import factories


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source text for the gates."""
    return factories.write_text(tmp_path_factory.mktemp("text"))[0]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """SentencePiece models of both sides."""
    directory = tmp_path_factory.mktemp("pieces")
    sources, targets = factories.parallel_text(400)
    return learn_pieces(sources, directory / "source.spm"), learn_pieces(targets, directory / "target.spm")


@pytest.fixture(scope="session")
def recurrent_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model whose decoder has an SSRU."""
    shape = {"norm": "post", "final_norm": False, "decoder_mixer": "ssru"}
    return factories.tiny_checkpoint(tmp_path_factory.mktemp("recurrent"), **shape)


@pytest.fixture(scope="session")
def recurrent_bundle(recurrent_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in fp32, of beam widths 1, 2 and 4."""
    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), recurrent_checkpoint)


@pytest.fixture(scope="session")
def recurrent_bundle_int8(recurrent_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in int8."""
    return factories.tiny_bundle(tmp_path_factory.mktemp("bundle"), recurrent_checkpoint, "int8")
