"""A precision that the processor would have to emulate is not used."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.training.trainer import Trainer


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_processor_without_a_precision_trains_in_fp32_and_says_so(
    recipe: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    precision: str,
) -> None:
    for name in ("_is_mkldnn_bf16_supported", "_is_mkldnn_fp16_supported"):
        monkeypatch.setattr(torch.ops.mkldnn, name, lambda: False)
    options = {"precision": precision, "average_checkpoints": 0, "validate_every": 1}
    Trainer(recipe(**options, max_updates=1), tmp_path / "run").run()
    assert f"{precision} is slow on this processor: training in fp32" in capsys.readouterr().err
    # Its checkpoint goes on where there are such instructions.
    for name in ("_is_mkldnn_bf16_supported", "_is_mkldnn_fp16_supported"):
        monkeypatch.setattr(torch.ops.mkldnn, name, lambda: True)
    Trainer(recipe(**options, max_updates=2), tmp_path / "run").run()
    assert "is slow" not in capsys.readouterr().err
