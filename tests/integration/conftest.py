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
