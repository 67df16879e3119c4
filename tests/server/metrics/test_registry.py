"""The series themselves: naming rules, closed labels, and what each event counts."""

import os
import re
import shutil
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from server.engine.limits import EngineStats
from server.metrics.registry import Metrics

MAX_SERIES = 550  # with two models; a further one takes 11, and each of its pairs one


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry(), commit="abc")


def model(name: str) -> Any:
    manifest = SimpleNamespace(name=name, version="1", precision="int8", graphs=SimpleNamespace(opset=20))
    served = SimpleNamespace(manifest=manifest, sha256="a" * 64, load_duration_s=1.5)
    return SimpleNamespace(model=served, since_s=1e9)


def exercised(metrics: Metrics) -> str:
    for route in ("/", "/docs", "/languages", "/models", "/health", "/livez", "/readyz", "/metrics"):
        for method, code in (("GET", 200), ("GET", 503), ("HEAD", 200), ("POST", 405), ("BREW", 405)):
            metrics.answered(route, method, code, 0.01, 0)
    for route in ("/translate", "/detect"):
        for code in (200, 400, 413, 415, 429, 431, 499, 500, 503, 504):
            metrics.answered(route, "POST", code, 0.01, 100)
        for method in ("GET", "PUT", "BREW"):
            metrics.answered(route, method, 405, 0.01, 0)
    for method in ("GET", "POST", "BREW"):
        metrics.answered(None, method, 404, 0.01, 0)
    metrics.encode(3, 30, 6, 0.01)
    metrics.step(3, 29, 0.002)
    metrics.finished("eos", 10, 12, 0.001)
    metrics.finished("cancelled", 10, 0, 0.001)
    metrics.error("run_failed")
    metrics.rejected("/generate", "queue_full")
    metrics.rejected(None, "internal")
    metrics.guarded("loop", "mended", 2)
    metrics.guarded("a reason of tomorrow", "kept", 1)
    stats = EngineStats(1, 10, 0.5, 3, 32, 16, 4096, True, 0.0)
    metrics.models.set_models([model("m"), model("n")], [("en", "de", ""), ("fr", "de", "en")])
    metrics.refresh(stats, {"m": stats})
    metrics.of_model("m").finished("eos", 5, 7, 0.001)
    metrics.of_model("never").finished("eos", 1, 1, 0.001)
    for pair in (("fr", "de", "en"), ("xx", "yy", "")):
        metrics.models.translated(pair)
    return metrics.render().decode()


def samples(text: str) -> dict[str, float]:
    return {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"
    }


def test_names_follow_the_rules(metrics: Metrics) -> None:
    for family in text_string_to_metric_families(exercised(metrics)):
        if not family.name.startswith("dragoman_"):
            continue
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
        assert family.documentation.endswith("."), family.name
        assert not re.search(r"_(ms|us|millis|kb|mb|minutes|percent)\b", family.name)
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            assert not sample.name.endswith("_created")
        if "duration" in family.name or "wait" in family.name or "lag" in family.name:
            assert family.name.endswith("_seconds")


def test_there_are_not_too_many_series(metrics: Metrics) -> None:
    assert len(samples(exercised(metrics))) < MAX_SERIES


def test_known_labels_exist_before_the_first_event(metrics: Metrics) -> None:
    found = samples(metrics.render().decode())
    for series in (
        'dragoman_http_requests_total{code="503",method="POST",route="/translate"}',
        'dragoman_requests_rejected_total{reason="queue_full",route="/translate"}',
        'dragoman_client_disconnects_total{phase="running"}',
        'dragoman_sentences_finished_total{reason="length"}',
        'dragoman_engine_errors_total{kind="worker_lost"}',
        'dragoman_stage_duration_seconds_count{stage="detokenize"}',
        'dragoman_decode_slots{state="free"}',
    ):
        assert found[series] == 0


def test_histograms_resolve_a_millisecond(metrics: Metrics) -> None:
    text = metrics.render().decode()
    assert (
        'dragoman_http_request_duration_seconds_bucket{le="0.001",method="POST",route="/translate"}' in text
    )
    assert 'dragoman_queue_wait_seconds_bucket{le="0.001"}' in text


def test_events_are_counted(metrics: Metrics) -> None:
    found = samples(exercised(metrics))
    assert found['dragoman_http_requests_total{code="404",method="_OTHER",route="<unmatched>"}'] == 1
    assert found['dragoman_batch_tokens_total{kind="padding"}'] == 6
    assert found['dragoman_decode_slot_steps_total{state="busy"}'] == 3
    assert found['dragoman_decode_slots{state="free"}'] == 29
    assert found['dragoman_requests_rejected_total{reason="queue_full",route="/generate"}'] == 1
    assert found['dragoman_requests_rejected_total{reason="queue_full",route="/translate"}'] == 0
    assert found["dragoman_source_tokens_total"] == 10 + 5 + 1
    assert found["dragoman_target_tokens_total"] == 12 + 7 + 1
    assert found["dragoman_queue_wait_seconds_count"] == 3
    info = 'dragoman_model_info{name="m",opset="20",precision="int8",sha256="aaaaaaaaaaaa",version="1"}'
    assert found[info] == 1


def test_what_each_model_does_is_counted_beside_the_sums(metrics: Metrics) -> None:
    found = samples(exercised(metrics))
    assert found['dragoman_model_sentences_total{model="m"}'] == 1
    assert found['dragoman_model_target_tokens_total{model="m"}'] == 7
    assert found['dragoman_model_sentences_total{model="n"}'] == 0
    assert found['dragoman_model_queue_tokens{model="m"}'] == 10
    assert found['dragoman_model_engine_alive{model="m"}'] == 1
    assert found['dragoman_model_load_duration_seconds{model="n"}'] == 1.5
    assert found['dragoman_translations_total{pivot="en",source="fr",target="de"}'] == 1
    assert found['dragoman_translations_total{pivot="",source="en",target="de"}'] == 0
    assert not any("never" in series or "xx" in series for series in found)


def test_the_series_of_a_model_end_with_it(metrics: Metrics) -> None:
    exercised(metrics)
    metrics.models.set_models([model("n"), model("o")], [("en", "de", "")])
    found = samples(metrics.render().decode())
    assert {series for series in found if '"m"' in series or '"fr"' in series} == set()
    assert found['dragoman_model_sentences_total{model="o"}'] == 0
    metrics.of_model("m").finished("eos", 1, 1, 0.001)  # its last request, which a reload lets finish
    metrics.models.translated(("fr", "de", "en"))
    metrics.refresh(EngineStats(1, 1, 0.0, 0, 1, 1, 1, True, 0.0), {})
    assert samples(metrics.render().decode()).keys() == found.keys()


def test_refusals_by_path_or_method_have_no_latency_series(metrics: Metrics) -> None:
    text = exercised(metrics)
    assert 'duration_seconds_count{method="POST",route="/translate"}' in text
    assert 'duration_seconds_count{method="GET",route="/translate"}' not in text
    assert 'duration_seconds_count{method="GET",route="<unmatched>"}' not in text


@pytest.mark.skipif(
    not shutil.which("promtool") and "CI" not in os.environ, reason="promtool is not installed"
)
def test_promtool_finds_nothing(metrics: Metrics) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=exercised(metrics), capture_output=True, text=True, timeout=30
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_alarms_of_unknown_reason_are_counted_as_others(metrics: Metrics) -> None:
    text = exercised(metrics)
    assert 'dragoman_guard_total{outcome="mended",reason="loop"} 2.0' in text
    assert 'dragoman_guard_total{outcome="kept",reason="other"} 1.0' in text
    assert 'dragoman_guard_total{outcome="kept",reason="detached"} 0.0' in text
    assert "tomorrow" not in text
