import pytest
import torch

from model.layers import Dropout


def test_zeroes_the_asked_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.25)
    y = dropout(torch.ones(1000, 101))
    assert float((y == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.01)
    assert y.unique().numel() == 2


def test_is_the_identity_outside_training_and_at_zero() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_gradient_passes_where_the_value_passed() -> None:
    torch.manual_seed(0)
    x = torch.ones(64, 7, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_the_seed_decides() -> None:
    x = torch.ones(33, 3)
    torch.manual_seed(5)
    first = Dropout(0.5)(x)
    torch.manual_seed(5)
    assert torch.equal(first, Dropout(0.5)(x))
