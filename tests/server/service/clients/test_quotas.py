"""Requests a minute and characters a day, with the time passed in."""

import random

import pytest

from server.errors import QuotaExceededError, RateLimitedError, TextTooLongError
from server.service.clients.api_keys import ClientLimits
from server.service.clients.quotas import Allowances

DAY_S = 86_400.0


def allowed(allowances: Allowances, client: str, per_minute: int, now_s: float) -> bool:
    try:
        allowances.take_request(client, ClientLimits(requests_per_minute=per_minute), now_s)
    except RateLimitedError:
        return False
    return True


class SlowBucket:
    """The same bucket as a level that drops, in exact steps."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute, self.level, self.at_s = per_minute, float(per_minute), 0.0

    def take(self, now_s: float) -> bool:
        self.level = min(self.per_minute, self.level + (now_s - self.at_s) * self.per_minute / 60)
        self.at_s = now_s
        if self.level < 1 - 1e-6:
            return False
        self.level -= 1
        return True


@pytest.mark.parametrize("per_minute", [1, 2, 7, 60, 1000])
def test_a_full_bucket_holds_a_minute(per_minute: int) -> None:
    allowances = Allowances()
    assert all(allowed(allowances, "a", per_minute, 5.0) for _ in range(per_minute))
    assert not allowed(allowances, "a", per_minute, 5.0)
    assert allowed(allowances, "b", per_minute, 5.0)
    with pytest.raises(RateLimitedError) as raised:
        allowances.take_request("a", ClientLimits(per_minute), 5.0)
    wait_s = raised.value.retry_after_s
    assert wait_s == pytest.approx(60 / per_minute)
    assert not allowed(allowances, "a", per_minute, 5.0 + wait_s - 0.001)
    assert allowed(allowances, "a", per_minute, 5.0 + wait_s)
    assert not allowed(allowances, "a", per_minute, 5.0 + wait_s)


@pytest.mark.parametrize("now_s", [1e5 + 0.1, 1e6 + 0.1234567, 1e7 + 0.7])
def test_a_full_bucket_holds_a_minute_however_long_the_clock_has_run(now_s: float) -> None:
    allowances = Allowances()
    for per_minute in range(1, 301):
        taken = [allowed(allowances, f"{per_minute}", per_minute, now_s) for _ in range(per_minute + 1)]
        assert taken == [True] * per_minute + [False]


@pytest.mark.parametrize("seed", range(20))
def test_it_does_what_a_level_would_do(seed: int) -> None:
    draw = random.Random(seed)
    per_minute = draw.choice((3, 20, 300))
    allowances, slow, now_s, taken = Allowances(), SlowBucket(per_minute), 0.0, 0
    for _ in range(2000):
        now_s += draw.expovariate(2 * per_minute / 60)
        took = allowed(allowances, "a", per_minute, now_s)
        assert took == slow.take(now_s)
        taken += took
    assert taken <= per_minute * (1 + now_s / 60)


def test_without_limits_nobody_is_remembered() -> None:
    allowances = Allowances()
    for _ in range(1000):
        allowances.take_request("a", ClientLimits(), 0.0)
        allowances.take_characters("a", ClientLimits(), 10**9, 0.0)
    assert len(allowances) == 0


def test_characters_are_counted_by_the_day() -> None:
    allowances, limits = Allowances(), ClientLimits(characters_per_day=100)
    allowances.take_characters("a", limits, 60, 1000.0)
    allowances.take_characters("b", limits, 100, 1000.0)
    with pytest.raises(QuotaExceededError, match="40 are left") as raised:
        allowances.take_characters("a", limits, 41, 1000.0 + DAY_S / 4)
    assert raised.value.retry_after_s == pytest.approx(0.75 * DAY_S)
    allowances.take_characters("a", limits, 40, 1000.0 + DAY_S - 1)
    with pytest.raises(QuotaExceededError):
        allowances.take_characters("a", limits, 1, 1000.0 + DAY_S - 1)
    allowances.take_characters("a", limits, 100, 1000.0 + DAY_S)


def test_more_than_a_day_allows_is_never_possible() -> None:
    with pytest.raises(TextTooLongError):
        Allowances().take_characters("a", ClientLimits(characters_per_day=100), 101, 0.0)


def test_what_was_not_translated_is_given_back() -> None:
    allowances, limits = Allowances(), ClientLimits(characters_per_day=100)
    day_ends_s = allowances.take_characters("a", limits, 100, 0.0)
    allowances.give_back("a", 30, day_ends_s)
    allowances.take_characters("a", limits, 30, 1.0)
    with pytest.raises(QuotaExceededError):
        allowances.take_characters("a", limits, 1, 1.0)
    allowances.give_back("stranger", 30, day_ends_s)
    assert len(allowances) == 1


def test_what_was_sent_yesterday_is_not_given_back_today() -> None:
    allowances, limits = Allowances(), ClientLimits(characters_per_day=100)
    yesterday = allowances.take_characters("a", limits, 90, 0.0)
    today = allowances.take_characters("a", limits, 90, DAY_S)
    allowances.give_back("a", 90, yesterday)
    with pytest.raises(QuotaExceededError, match="10 are left"):
        allowances.take_characters("a", limits, 11, DAY_S + 1)
    allowances.give_back("a", 90, today)
    allowances.take_characters("a", limits, 100, DAY_S + 1)


def test_memory_is_bounded_and_the_quietest_are_forgotten() -> None:
    allowances = Allowances(max_clients=100)
    assert allowed(allowances, "busy", 2, 0.0)
    for number in range(10_000):
        allowed(allowances, f"address {number}", 1, 0.0)
        if number % 50 == 0:
            allowed(allowances, "busy", 2, 0.0)
    assert len(allowances) == 100
    assert not allowed(allowances, "busy", 2, 0.0)
    assert allowed(allowances, "address 0", 1, 0.0)
