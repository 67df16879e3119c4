import pytest

from model.training.schedule import learning_rate_factor


def factor(update: int, **options: object) -> float:
    return learning_rate_factor(update, **{"warmup": 100, "schedule": "inverse_square_root", **options})


def test_warms_up_linearly_to_one() -> None:
    assert factor(1) == pytest.approx(0.01)
    assert factor(50) == pytest.approx(0.5)
    assert factor(100) == pytest.approx(1.0)


def test_falls_with_the_inverse_square_root() -> None:
    assert factor(400) == pytest.approx(0.5)
    assert factor(10_000) == pytest.approx(0.1)
    assert factor(10_000, schedule="constant") == 1.0
    assert factor(4, warmup=0) == pytest.approx(0.5)


def test_cooldown_ends_near_zero_and_changes_nothing_before() -> None:
    options = {"cooldown": 200, "max_updates": 1000}
    assert factor(800, **options) == factor(800)
    assert factor(900, **options) == pytest.approx(factor(900) * 101 / 201)
    assert factor(1000, **options) == pytest.approx(factor(1000) / 201)
    steps = [factor(update, **options) for update in range(800, 1001)]
    assert steps == sorted(steps, reverse=True)
