"""Training with several processes that torchrun starts: real ones, with gloo on the processor."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from model.checkpoint import load_checkpoint
from model.training.trainer import Trainer
from tests.support.toy_training import losses

NETWORK_FAULTS = ("EADDRINUSE", "DistNetworkError", "connectFullMesh")
OPTIONS = {"max_updates": 60, "validate_every": 20, "batch_tokens": 60, "accumulate": 2}


def without_dropout(file: Path) -> Path:
    file.write_text(file.read_text().replace("[training]", "dropout = 0.0\n[training]"))
    return file


def command(processes: int, file: Path, out: Path) -> list[str]:
    start = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone"]
    train = ["dragoman.py", "train", str(file), "--out", str(out)]
    return [sys.executable, *(start if processes > 1 else []), *train]


@contextlib.contextmanager
def running(processes: int, file: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a run; whatever is left of it at the end is killed."""
    process = subprocess.Popen(
        command(processes, file, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for left in [*psutil.Process(process.pid).children(recursive=True), process]:
                left.kill()
        process.wait()


def complete(processes: int, file: Path, out: Path) -> None:
    """Run to the end; again if the processes did not find each other, which is torch's affair."""
    for _ in range(2):
        with running(processes, file, out) as process:
            errors = process.communicate(timeout=250)[1]
        if process.returncode == 0 or not any(fault in errors for fault in NETWORK_FAULTS):
            break
    assert process.returncode == 0, errors[-4000:]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def workers(process: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    """The processes of the run by their rank."""
    children = psutil.Process(process.pid).children()  # not theirs, which inherit the variable
    return {int(child.environ()["RANK"]): child for child in children if "RANK" in child.environ()}


def weights(run: Path, update: int) -> dict[str, torch.Tensor]:
    return load_checkpoint(run / f"checkpoint-{update:07d}").model.state_dict()


def test_two_processes_have_the_losses_of_one_and_one_writes(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    # 60 tokens: batches of 3 to 15 sentences; the longest end up alone, so that a process has none.
    file = without_dropout(recipe(**OPTIONS, label_smoothing=0.1, clip_norm=1.0))
    with (tmp_path / "train.en").open("a") as en, (tmp_path / "train.de").open("a") as de:
        en.write("the cat sees the dog in the old house near the big tree\n")
        de.write("das Katze sieht das Hund im das alte Haus bei das grosse Baum\n")
    Trainer(file, tmp_path / "one", quiet=True).run()
    with running(2, file, tmp_path / "two") as process:
        output, errors = process.communicate(timeout=250)
        assert process.returncode == 0, errors[-2000:]
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert one.keys() == two.keys()
    assert one["train", 60] < 0.8 * one["train", 20]
    for key, loss in one.items():
        assert two[key] == pytest.approx(loss, abs=1e-5), key
    expected, found = weights(tmp_path / "one", 60), weights(tmp_path / "two", 60)
    # Biases of keys have no gradient but noise, which Adam makes large: they do not agree.
    torch.testing.assert_close(
        found["projection.weight"], expected["projection.weight"], atol=1e-4, rtol=1e-4
    )

    lines = [json.loads(line) for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    measured = [(line["kind"], line["update"]) for line in lines]
    assert len(measured) == len(set(measured))
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1
    assert errors.count("update 60: loss") == 1
    assert output.splitlines() in ([str(tmp_path / "two" / kind)] for kind in ("best", "average"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_run_which_goes_on_with_another_number(
    recipe: Callable[..., Path], tmp_path: Path, victim: int
) -> None:
    file = without_dropout(recipe(**OPTIONS))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    slow = file.with_name("slow.toml")  # the same run, that one may kill in the middle
    slow.write_text(file.read_text().replace("max_updates = 60", "max_updates = 100000"))
    with running(2, slow, broken) as process:
        wait_for((broken / "checkpoint-0000020").exists, process)
        ranks = workers(process)
        ranks[victim].send_signal(signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):  # torchrun does so once, sooner or later
            while ranks[1 - victim].is_running():
                ranks[1 - victim].send_signal(signal.SIGTERM)
                time.sleep(0.001)
        errors = process.communicate(timeout=200)[1]
        assert process.returncode not in (0, None)
    assert "another process of this run is gone" in errors
    assert f"{broken} holds a checkpoint, the same command goes on" in errors
    reached = max(int(path.name[-7:]) for path in broken.glob("checkpoint-*"))
    assert reached >= 20

    target = (reached // 20 + 2) * 20
    file.write_text(slow.read_text().replace("max_updates = 100000", f"max_updates = {target}"))
    Trainer(file, whole, quiet=True).run()
    with running(3 if victim else 1, file, broken) as process:
        errors = process.communicate(timeout=250)[1]
        assert process.returncode == 0, errors[-2000:]
    one, other = losses(whole), losses(broken)
    for update in range(20, target + 1, 20):
        assert other["valid", update] == pytest.approx(one["valid", update], abs=2e-4), update


@pytest.mark.slow
def test_sigterm_stops_every_process_after_the_same_update(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    file = recipe(max_updates=100_000, validate_every=100_000)
    run = tmp_path / "run"
    log = run / "metrics.jsonl"
    with running(2, file, run) as process:
        wait_for(lambda: log.exists() and log.read_text().count("\n") > 0, process)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=100)[1]
        assert process.returncode != 0
    assert errors.count("same command") == 1
    (saved,) = run.glob("checkpoint-*")
    load_checkpoint(saved)
    update = int(saved.name[-7:])

    file = recipe(max_updates=update + 20, validate_every=20, average_checkpoints=0)
    complete(2, file, run)
    assert ("valid", update + 20) in losses(run)
