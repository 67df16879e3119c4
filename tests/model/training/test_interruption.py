"""Ctrl-C and SIGTERM during training, in this process; test_trainer.py has them from outside."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from model.training.trainer import Trainer


def test_a_signal_ends_what_trains_nothing_yet_at_once_and_a_second_one_anything(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    trainer = Trainer(recipe(max_updates=2), tmp_path / "run", quiet=True)
    with trainer._signals(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    trainer._times.append(0.0)
    with trainer._signals():
        signal.raise_signal(signal.SIGTERM)
        assert trainer._stop
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
