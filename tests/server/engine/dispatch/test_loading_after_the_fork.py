"""Engine processes that load for themselves what cannot be forked."""

import functools
from pathlib import Path

import psutil
import pytest

from export.bundle import BundleError
from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.errors import EngineDeadError
from tests.server.engine import process_models
from tests.server.engine.pools import WAIT_S, tokens
from tests.server.engine.process_pools import MakePool, forked, loop, make_pool
from tests.support.server_process import wait_for

__all__ = ["loop", "make_pool"]

GREEDY = DecodingOptions()


def test_what_cannot_be_forked_every_process_loads_for_itself(make_pool: MakePool, tmp_path: Path) -> None:
    load = functools.partial(process_models.loaded_by, tmp_path, EngineLimits())
    pool = make_pool(load=load, after_fork=True)
    sources = [(n, n + 1) for n in range(10, 60)]
    assert [tokens(future) for future in pool.submit("a", sources, GREEDY)] == sources
    _, model, *engines = pool.stats().engine_pids
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == sorted(engines)
    assert [process.ppid() for process in map(psutil.Process, engines)] == [model] * 2
    pool.close(WAIT_S)
    wait_for(lambda: forked() == [])


def test_a_process_that_refuses_what_it_loads_for_itself_says_why(make_pool: MakePool) -> None:
    with pytest.raises(BundleError, match="to my taste"):
        make_pool(load=process_models.refusing, after_fork=True)
    wait_for(lambda: forked() == [])
    with pytest.raises(EngineDeadError, match="before it translated"):
        make_pool(load=process_models.dying, after_fork=True)
    wait_for(lambda: forked() == [])
