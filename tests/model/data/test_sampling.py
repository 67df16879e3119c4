"""How often an epoch reads the pairs of each origin."""

import numpy as np
import pytest

from model.checkpoint import SpecialTokens
from model.data.dataset import TrainingSet
from model.data.sampling import readings
from model.data.token_table import Column, TokenTable
from model.recipe import Sampling

SIZES = {"ms-docs": 800, "ms-intune": 80, "tatoeba": 100, "unseen": 20}


def table() -> TokenTable:
    """A table whose rows are the numbers of their origins."""
    origins = np.repeat(np.arange(4), list(SIZES.values())).astype(np.uint16)
    rows = Column.of([[int(number)] for number in origins])
    return TokenTable(rows, rows, 0, origins, tuple(SIZES))


def test_nothing_said_changes_nothing() -> None:
    assert readings(table(), Sampling()) is None


def test_a_temperature_evens_out_and_weights_choose() -> None:
    even = readings(table(), Sampling(temperature=2, most=100))
    assert even is not None
    shares = even * list(SIZES.values())
    assert shares == pytest.approx(np.sqrt(list(SIZES.values())) / np.sqrt(list(SIZES.values())).sum() * 1000)
    often = readings(table(), Sampling(weights={"ms-docs": 1, "ms-*": 0.25, "unseen": 0}))
    assert often is not None
    assert often[1] == pytest.approx(often[0] / 4)
    assert often[3] == 0
    assert often @ list(SIZES.values()) == pytest.approx(1000)


def test_no_pair_is_read_more_often_than_the_limit() -> None:
    often = readings(table(), Sampling(temperature=50, most=3))
    assert often is not None
    assert often.max() == 3
    assert often @ list(SIZES.values()) == pytest.approx(1000)


def test_an_epoch_reads_as_the_weights_say() -> None:
    often = np.array([0.25, 2.5, 1.0, 0.0])
    data = TrainingSet(table(), SpecialTokens(), readings=often)
    counts = np.zeros(4)
    for batch in data.epoch(1, 0, 64):
        counts += np.bincount(batch.source_ids[:, 0].numpy(), minlength=4)
    assert counts[0] == pytest.approx(200, abs=60)
    assert 160 <= counts[1] <= 240
    assert counts[2] == 100
    assert counts[3] == 0
    first, again = ([batch.target_tokens for batch in data.epoch(1, 0, 64)] for _ in range(2))
    assert first == again
