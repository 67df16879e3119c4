"""A bundle with random weights and its runtime, for one file of tests each. Read only."""

from pathlib import Path

import pytest

from export.bundle import Manifest
from server.runtime.model_runtime import ModelRuntime
from tests.server import random_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    directory = tmp_path_factory.mktemp("random")
    return directory, random_bundle.write(directory)


@pytest.fixture(scope="module")
def runtime(bundle: tuple[Path, Manifest]) -> ModelRuntime:
    return ModelRuntime(*bundle)
