"""`make bench` as a whole: its parts take their arguments, it tells the time left, Ctrl-C ends everything."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks import everything
from benchmarks.everything import PARTS, arguments_of, expected_s, minutes
from benchmarks.inputs.workload import Row
from benchmarks.models import Model
from benchmarks.peers import ctranslate2_search
from benchmarks.peers.contest import start_ctranslate2
from benchmarks.peers.ctranslate2_search import Search, Settings, candidates
from benchmarks.peers.turns import Peer
from benchmarks.reporting import progress, results
from tests.benchmarks import measured


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("part", [part.name for part in PARTS])
def test_every_part_takes_the_arguments_that_it_gets(
    part: str, quick: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments_of(part, Path("cache"), quick=quick, keep_models=True)
    monkeypatch.setattr(sys, "argv", [part, *given, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{part}").main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert [name for name in given if name.startswith("--") and name not in said] == []


def test_time_left_follows_what_is_done() -> None:
    """Expected 100 s; half done after 100 s: as much again, and not less than nothing."""
    assert progress.time_left_s(0.0, 0.0, 100.0) == 100.0
    assert progress.time_left_s(0.0, 30.0, 100.0) == 70.0
    assert progress.time_left_s(0.0, 500.0, 100.0) == 50.0
    assert 50.0 < progress.time_left_s(0.5, 100.0, 100.0) <= 100.0
    assert progress.time_left_s(0.99, 198.0, 100.0) == pytest.approx(2.0, abs=0.1)
    assert progress.time_left_s(1.0, 7.0, 100.0) == 0.0


def test_lines_say_how_much_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    clock = progress.Progress(4)
    clock.say("nothing yet")
    clock.say("three of four", done=3.0)
    lines = capsys.readouterr().err.splitlines()
    assert [progress.share_of(line) for line in lines] == [0.0, 0.75]
    assert progress.share_of("Warning: 50 % of something") is None


def test_durations_are_read_aloud() -> None:
    spoken = ["less than a minute", "1 min", "1 min", "45 min"]
    assert [minutes(seconds) for seconds in (5.0, 31.0, 89.0, 2700.0)] == spoken


def test_the_estimate_is_what_it_took_the_last_time(tmp_path: Path) -> None:
    parts = [part for part in PARTS if part.name in ("offline", "report")]
    before = expected_s(parts, tmp_path, quick=False)
    (tmp_path / "durations.json").write_text('{"full": {"offline": 12.5}}')
    assert expected_s(parts, tmp_path, quick=False) == before | {"offline": 12.5}
    assert expected_s(PARTS[:1], tmp_path, quick=True) == {"models": everything._UNMADE_MODELS_S}


def test_a_repeated_row_replaces_itself_alone(tmp_path: Path) -> None:
    file = tmp_path / "results" / "offline.json"
    results.write(file, {"machine": {"load": 1, "old": 1}, "rows": {"a": {"s": 1}, "b": {"s": 1}}, "n": 1})
    results.write(file, {"machine": {"load": 2}, "rows": {"b": {"t": 2}}, "n": 2})
    assert results.read(file) == {"machine": {"load": 2}, "rows": {"a": {"s": 1}, "b": {"t": 2}}, "n": 2}
    assert [path.name for path in file.parent.iterdir()] == ["offline.json"]
    assert results.read(tmp_path / "nowhere.json") == {}


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_ends_every_process(tmp_path: Path, stop: signal.Signals, repository: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.everything", "--quick", "--parts", "roofline"]
    running = subprocess.Popen(
        [*command, "--cache", str(tmp_path)], stderr=subprocess.PIPE, text=True, cwd=repository
    )
    assert running.stderr is not None
    assert "this takes about" in running.stderr.readline()
    process, until_s = psutil.Process(running.pid), time.monotonic() + 30
    while not (children := process.children(recursive=True)) and time.monotonic() < until_s:
        time.sleep(0.02)
    os.kill(running.pid, stop)
    assert running.wait(30) != 0
    assert "interrupted" in running.stderr.read()
    running.stderr.close()
    assert children
    assert [child for child in children if child.is_running()] == []


def test_a_part_that_fails_is_named_and_the_others_run(tmp_path: Path, repository: Path) -> None:
    """A folder in the place of its result breaks the roofline; the page is written nevertheless."""
    (tmp_path / "quick" / "roofline.partial").mkdir(parents=True)
    (tmp_path / "quick" / "fairness.json").write_text(json.dumps(measured.results()["fairness"]))
    command = [sys.executable, "-m", "benchmarks.everything", "--quick", "--parts", "roofline,report"]
    done = subprocess.run(
        [*command, "--cache", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=repository,
        timeout=120,
    )
    assert done.returncode == 1
    assert "failed: roofline; repeat with --parts roofline,report" in done.stderr
    assert "4.00 (3.50-4.50)" in (tmp_path / "quick" / "benchmarks.md").read_text(encoding="utf-8")


def test_settings_are_searched_once_and_remembered(
    counting_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real search with real processes: the second time none is started. One instruction set is enough."""
    monkeypatch.setattr(ctranslate2_search, "_CPU_INFO", tmp_path / "nowhere")
    row, started, said = Row("tiny", 1, 4), list[Settings](), list[str]()
    sentences = [["\u2581word"] * 3] * 4

    def start(settings: Settings) -> Peer:
        started.append(settings)
        return start_ctranslate2(counting_model, settings)

    for _ in range(2):
        search = Search(tmp_path / "found.json", start, said.append)
        search.run([row], lambda row: (sentences, 5))
        best = search.known(row)
        assert best in candidates(row, 16, os.cpu_count() or 1)
    assert len(said) == 1
    assert len({settings.process for settings in started}) == len(started)
    assert Search(tmp_path / "found.json", start, said.append).known(Row("tiny", 4, 4)) is None
