"""Large files are hashed while they are loaded, and a damaged one is refused; workers of large models."""

import shutil
from pathlib import Path

import pytest

from export.bundle import BundleError
from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.service.models import engine_start, loading
from server.settings import Settings

WAIT_S = 30.0


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


def test_a_large_model_has_one_worker_with_all_threads(
    tiny_bundle_int8: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_start, "SOLO_WEIGHTS", 1)
    translations, workers = [], []
    for weights in (1, 1 << 60):
        monkeypatch.setattr(engine_start, "TOGETHER_WEIGHTS", weights)
        settings = Settings(bundle=(tiny_bundle_int8,), workers=2, weights_cache="none")
        model = loading.load_model(settings, NullObserver())
        assert isinstance(model.engine, Dispatcher)
        stats = model.engine.stats()
        workers.append(stats.rows_total // stats.max_rows)
        sources = [golden.source_ids for golden in model.manifest.golden]
        futures = model.engine.submit("request", sources, DecodingOptions())
        translations.append([future.result(WAIT_S).hypotheses[0].tokens for future in futures])
        model.engine.close(WAIT_S)
    assert workers == [1, 2]
    assert translations[0] == translations[1]
