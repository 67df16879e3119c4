import os

import pytest
import torch
from torch.nn.functional import cross_entropy

import model.training.loss
from model.config import TransformerConfig
from model.training.batch_loss import BatchLoss
from model.training.loss import projected_cross_entropy
from model.transformer import Transformer


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_equals_torch_cross_entropy_in_value_and_gradients(
    smoothing: float, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.training.loss, "_BLOCK_BYTES", 4 * 50 * 16)  # several blocks
    torch.manual_seed(0)
    hidden = torch.randn(70, 12, requires_grad=True)
    weight = torch.randn(50, 12, requires_grad=True)
    offset = torch.randn(50, requires_grad=True) if bias else None
    targets = torch.randint(0, 50, (70,))
    leaves = [leaf for leaf in (hidden, weight, offset) if leaf is not None]

    loss, nll = projected_cross_entropy(hidden, weight, offset, targets, smoothing)
    gradients = torch.autograd.grad(loss / 70, leaves)

    logits = hidden @ weight.T + (offset if offset is not None else 0)
    expected = cross_entropy(logits, targets, label_smoothing=smoothing)
    torch.testing.assert_close(loss / 70, expected)
    torch.testing.assert_close(nll, cross_entropy(logits, targets, reduction="sum"))
    for actual, wanted in zip(gradients, torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(actual, wanted)


def test_bfloat16_states_stay_close_to_float32() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(64, 32), torch.randn(100, 32) * 0.2
    targets = torch.randint(0, 100, (64,))
    exact, _ = projected_cross_entropy(hidden, weight, None, targets, 0.1)
    rough, _ = projected_cross_entropy(hidden.bfloat16(), weight, None, targets, 0.1)
    assert rough.dtype == torch.float32
    assert float(rough) == pytest.approx(float(exact), rel=0.01)


@pytest.mark.parametrize("name", ["ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"])
@pytest.mark.parametrize(("set_by_user", "expected"), [(None, "64"), ("7", "7")])
def test_bf16_bounds_the_kernels_that_are_kept_unless_the_user_does(
    monkeypatch: pytest.MonkeyPatch, name: str, set_by_user: str | None, expected: str
) -> None:
    monkeypatch.setenv(name, set_by_user or "")
    if set_by_user is None:
        monkeypatch.delenv(name)
    config = TransformerConfig(source_vocab_size=20, target_vocab_size=20, d_model=16)
    BatchLoss(Transformer(config), precision="bf16", pad_id=0)
    assert os.environ[name] == expected
