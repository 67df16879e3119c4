"""A MarianMT directory, as people download it, and a small model of ours."""

from pathlib import Path

import pytest

from tests.export.small_model import SmallModel, small_model
from tests.integration.marian import learn_pieces, write_marian
from tests.support import factories


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Must not be written to: all tests share it."""
    directory = tmp_path_factory.mktemp("marian")
    sources, targets = factories.parallel_text(300)
    pieces = learn_pieces(sources, directory / "s.spm"), learn_pieces(targets, directory / "t.spm")
    return write_marian(directory / "opus-mt-en-de", *pieces)


@pytest.fixture(scope="session")
def small() -> SmallModel:
    """Its graphs must not be changed: all tests share them."""
    return small_model()
