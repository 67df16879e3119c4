"""Real processes that take turns: they answer, say no, die and are ended."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.inputs.workload import Row
from benchmarks.models import Model
from benchmarks.peers.contest import Contest, Entrant, start
from benchmarks.peers.turns import REPOSITORY, Peer, PeerError, ended_by_signals, wait_for_calm

SETTINGS = {"inter_threads": 1, "intra_threads": 1, "compute_type": "float32"}


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer("client", "benchmarks.peers.load_client", [], {})
    yield peer
    peer.close()


def test_a_peer_answers_and_survives_an_error(peer: Peer) -> None:
    assert peer.ask(op="prepare", texts=["a"], fields={}) == {}
    with pytest.raises(PeerError, match=r"client: KeyError: 'port'"):
        peer.ask(op="array")
    assert peer.ask(op="prepare", texts=["b"], fields={}) == {}


def test_a_peer_that_died_says_so(peer: Peer) -> None:
    os.kill(peer.pid, signal.SIGKILL)
    with pytest.raises(PeerError, match="client: its process"):
        peer.ask(op="prepare", texts=[], fields={})
        peer.ask(op="prepare", texts=[], fields={})


def test_a_peer_that_cannot_start_says_so() -> None:
    with pytest.raises(PeerError, match="nobody: its process ended with 1"):
        Peer("nobody", "benchmarks.no_such_module", [], {})


def test_closing_ends_the_process(peer: Peer) -> None:
    process = psutil.Process(peer.pid)
    peer.close()
    assert not process.is_running()


def test_who_waits_sleeps(peer: Peer) -> None:
    """An idle peer takes no processor time from the one whose turn it is."""
    peer.ask(op="prepare", texts=["a"], fields={})
    wait_for_calm([peer])
    before = peer.cpu_s()
    time.sleep(0.3)
    assert peer.cpu_s() == before


def test_sigterm_runs_what_finally_holds() -> None:
    ended = []
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        try:
            time.sleep(10)
        finally:
            ended.append("peers")
    assert ended == ["peers"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_contest_measures_systems_in_turns_on_the_same_work(counting_model: Model) -> None:
    row = Row("tiny", 1, 4)
    peers = [start(counting_model, f"peer {n}", "CTranslate2", SETTINGS) for n in range(2)]
    try:
        sentences = [["\u2581" + word for word in ("a", "b", "c")]] * 4
        contest = Contest(row, sentences, 6, peers)
        contest.run(
            {"one": Entrant(peers[0]), "other": Entrant(peers[1], {"max_batch_size": 2})}, 1.0, rounds=3
        )
        contest.run_slow("slow", Entrant(peers[0]))
        assert contest.agreement("one", "other") == 1.0
    finally:
        for peer in peers:
            peer.close()
    assert {name: len(times) for name, times in contest.result["seconds"].items()} == {
        "one": 3,
        "other": 3,
        "slow": 3,
    }
    assert contest.result["tokens"] == {"one": 24, "other": 24, "slow": 24}
    assert contest.result["idle_share"] < 0.5


@pytest.mark.parametrize("module", ["engine_process", "load_client", "peer_server", "http_servers"])
def test_what_is_measured_loads_nothing_that_it_does_not_need(module: str) -> None:
    """Torch would be most of the peak memory that the tables give."""
    unwanted = "{'torch', 'transformers', 'onnx'} & set(sys.modules)"
    code = f"import benchmarks.peers.{module}, sys; print({unwanted})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "set()\n"
