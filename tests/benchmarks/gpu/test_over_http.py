"""The benchmark of a GPU over HTTP: what it says, and what it does where there is none."""

import pytest

from benchmarks.gpu import offline as gpu
from benchmarks.gpu import over_http as gpu_over_http


def rounds(*speeds: float) -> list[dict[str, float | None]]:
    return [{"per_s": speed, "p95_ms": 1000 / speed} for speed in speeds]


def test_a_load_in_a_line_has_medians_and_the_ratio_of_every_round() -> None:
    found = {gpu.OURS: rounds(200.0, 100.0, 500.0), "CTranslate2, 64": rounds(100.0, 100.0, 125.0)}
    assert gpu_over_http.summary("64 clients", found) == (
        "64 clients: dragoman 200/s p95 5 ms; CTranslate2, 64 100/s p95 10 ms (dragoman 2.00 x, 1.00-4.00)"
    )


def test_without_a_gpu_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "missing", lambda: "dragoman: no CUDA here")
    monkeypatch.setattr("sys.argv", ["gpu_over_http"])
    assert gpu_over_http.main() == gpu.NO_GPU
    assert "nothing to measure on: dragoman: no CUDA here" in capsys.readouterr().err
