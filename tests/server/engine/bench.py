"""A worker's engine on a bench: a worker's step, one call at a time, with a clock that stands still."""

from server.engine.ipc.channel import InterruptFlag, MemoryChannel, WorkerPorts
from server.engine.ipc.messages import FromWorker
from server.engine.limits import EngineLimits
from server.engine.observer import NullObserver
from server.engine.sequence import Outcome
from server.engine.sequence import Sequence as Sentence
from server.engine.worker.engine import Engine
from server.engine.worker.loop import Worker
from tests.server.engine.fakes import Clock, FakeRuntime


class Spy(NullObserver):
    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.encoded: list[tuple[int, int, int]] = []
        self.errors: list[str] = []

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        self.steps.append((busy_rows, idle_rows))

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        self.encoded.append((sentences, real_tokens, padding_tokens))

    def error(self, kind: str) -> None:
        self.errors.append(kind)


def decoded(engine: Engine, *, multi_step: bool = False) -> list[Outcome]:
    ended: list[Outcome] = []
    engine.decode(ended, multi_step=multi_step)
    return ended


class Bench:
    def __init__(self, runtime: FakeRuntime, limits: EngineLimits | None = None) -> None:
        self.runtime, self.clock, self.observer = runtime, Clock(), Spy()
        self.sent: list[FromWorker] = []
        interrupt = InterruptFlag()
        self.interrupt = interrupt.array
        ports = WorkerPorts(MemoryChannel(self.sent.append), interrupt, [], self.clock)
        self.worker = Worker(runtime, limits or EngineLimits(max_rows=8), ports)
        self.engine: Engine = self.worker._engine
        self.engine._observer = self.observer

    @property
    def waiting(self) -> int:
        return len(self.worker._waiting)

    def add(self, *sentences: Sentence) -> None:
        self.worker._enqueue(list(sentences))

    def step(self, *, multi_step: bool = False) -> list[Outcome]:
        was_idle = not self.engine.rows
        outcomes = self.worker._drop_unwanted()
        starting = self.worker._schedule()
        self.engine.start(starting, outcomes)
        if not (starting and was_idle):
            self.engine.decode(outcomes, multi_step=multi_step)
        return outcomes

    def run(self, steps: int = 2000) -> list[Outcome]:
        outcomes = []
        for _ in range(steps):
            outcomes += self.step()
            if not self.engine.rows and not self.waiting:
                return outcomes
        raise AssertionError("the engine does not come to an end")
