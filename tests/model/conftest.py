"""The toy language's corpus and recipe."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.toy_training import write_corpus, write_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., Path]:
    """Write the corpus; the returned function writes a recipe with the given settings of `[training]`."""
    write_corpus(tmp_path)
    return functools.partial(write_recipe, tmp_path)
