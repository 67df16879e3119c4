"""What a dispatcher and its workers say to each other.

A worker process gets and sends them pickled, over a socket that nobody else has. `Start` and `Report`, which
go with every sentence, are pickled as plain values: pickle reads and writes these in C, while a dataclass is
taken apart and put together again by Python's code, field after field. Of both, there and back, for a
sentence of nine tokens: 29 us as they are, 10 as plain values.
"""

import functools
import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, Priority, Sequence, SequenceResult
from server.errors import DragomanError
from server.runtime.model_spec import ModelSpec

_Values = tuple[Any, ...]
_REMEMBERED = 64
"""Options that a worker keeps for the next sentence that is decoded the same way."""


@dataclass(frozen=True, slots=True)
class Start:
    """To a worker: decode these, in this order."""

    sequences: list[Sequence]

    def __reduce__(self) -> _Values:
        """Tell pickle the plain values."""
        each = [
            (s.number, s.source, _OPTIONS(s.options), s.priority, s.submitted_s, s.deadline_s)
            for s in self.sequences
        ]
        return _start, (each,)


@dataclass(frozen=True, slots=True)
class Drop:
    """To a worker: nobody waits for the sentences with these numbers any more."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Load:
    """To the process of a model.

    Attributes:
        load: loads the model and returns what builds a worker over it, given its `WorkerPorts`.
        workers: to be forked at first.
        after_fork: whether every worker process loads it for itself.
    """

    load: Callable[[], Callable[..., Any]]
    workers: int
    after_fork: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """From the process of a model: the first workers are forked; its process id."""

    pid: int


@dataclass(frozen=True, slots=True)
class Ready:
    """From a worker: it translates.

    Attributes:
        spec: sizes of the model.
        limits: of this worker.
        pid: its process id; 0 if it is a thread.
    """

    spec: ModelSpec
    limits: EngineLimits
    pid: int


@dataclass(frozen=True, slots=True)
class Refused:
    """From a worker or the process of a model, which ends: why it cannot load the model, or not decode."""

    error: Exception


@dataclass(slots=True)
class Report:
    """From a worker, which fills it until it is sent: what has happened since its last report.

    Attributes:
        ended: number of each sentence that has ended, and how.
        encoder_runs: sentences, real tokens, padding tokens and seconds of each.
        steps: busy rows, idle rows and seconds of each decoder step.
        errors: kind of each fault; see `EngineObserver.error`.
        records: of the log.
        cache_bytes: held by its key/value caches now.
    """

    cache_bytes: int = 0
    ended: list[tuple[int, SequenceResult | DragomanError]] = field(default_factory=list)
    encoder_runs: list[tuple[int, int, int, float]] = field(default_factory=list)
    steps: list[tuple[int, int, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    records: list[logging.LogRecord] = field(default_factory=list)

    def __reduce__(self) -> _Values:
        """Tell pickle the plain values."""
        ended = [
            (number, _result_values(result) if isinstance(result, SequenceResult) else result)
            for number, result in self.ended
        ]
        return _report, (self.cache_bytes, ended, self.encoder_runs, self.steps, self.errors, self.records)


ToWorker = Start | Drop
FromWorker = Ready | Refused | Report


def _values_of(kind: type) -> Callable[[Any], _Values]:
    """Give what reads the fields of a dataclass, in their order."""
    return operator.attrgetter(*(each.name for each in fields(kind)))


_OPTIONS, _HYPOTHESIS = _values_of(DecodingOptions), _values_of(Hypothesis)


def _start(each: list[tuple[int, tuple[int, ...], _Values, Priority, float, float]]) -> Start:
    return Start(
        [
            Sequence(number, source, _same_options(options), priority, submitted_s, deadline_s)
            for number, source, options, priority, submitted_s, deadline_s in each
        ]
    )


@functools.lru_cache(_REMEMBERED)
def _same_options(values: _Values) -> DecodingOptions:
    return DecodingOptions(*values)


def _report(cache_bytes: int, ended: list[tuple[int, _Values | DragomanError]], *others: Any) -> Report:
    results = [
        (number, _result(*result) if isinstance(result, tuple) else result) for number, result in ended
    ]
    return Report(cache_bytes, results, *others)


def _result_values(r: SequenceResult) -> _Values:
    hypotheses = [_HYPOTHESIS(each) for each in r.hypotheses]
    times_s = r.queue_s, r.encode_s, r.decode_s
    return hypotheses, r.finish_reason, r.source_tokens, r.target_tokens, *times_s


def _result(hypotheses: list[_Values], *others: Any) -> SequenceResult:
    return SequenceResult(tuple([Hypothesis(*each) for each in hypotheses]), *others)
