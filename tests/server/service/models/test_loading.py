"""Large files are hashed while they are loaded, and a damaged one is refused all the same."""

import shutil
from pathlib import Path

import pytest

from export.bundle import BundleError
from server.engine.observer import NullObserver
from server.service.models import loading
from server.settings import Settings


@pytest.mark.parametrize("hashed_beside", [1, 1 << 40])
@pytest.mark.parametrize("engine_processes", [True, False])
def test_damaged_weights_are_refused_and_never_packed(
    tiny_bundle_int8: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hashed_beside: int,
    engine_processes: bool,
) -> None:
    bundle, cache = tmp_path / "bundle", tmp_path / "cache"
    shutil.copytree(tiny_bundle_int8, bundle)
    weights = bytearray((bundle / "model.weights").read_bytes())
    weights[len(weights) // 2] ^= 0x40
    (bundle / "model.weights").write_bytes(weights)
    monkeypatch.setattr(loading, "HASHED_BESIDE", hashed_beside)
    settings = Settings(bundle=(bundle,), weights_cache=str(cache), engine_processes=engine_processes)
    with pytest.raises(BundleError, match=r"model\.weights: SHA-256 differs"):
        loading.load_model(settings, NullObserver(), served=True)
    assert not cache.exists() or not list(cache.iterdir())
