"""What a server and its engine processes say to each other, pickled, over a socket that nobody else has.

`Start` and `Report`, which go with every sentence, are pickled as plain values: pickle reads and writes these
in C, while a dataclass is taken apart and put together again by Python's code, field after field. Of both,
there and back, for a sentence of nine tokens: 29 us as they are, 10 as plain values.
"""

import functools
import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from server.engine.limits import EngineLimits, EngineStats
from server.engine.options import DecodingOptions
from server.engine.scheduling.priority import Lane
from server.engine.sequence import Hypothesis, SequenceResult
from server.errors import DragomanError
from server.runtime.model_spec import ModelSpec

_Values = tuple[Any, ...]
_REMEMBERED = 64
"""Options that a process keeps for the next sentence that is decoded alike."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence to decode; the fields of `Sequence`, and a number that stands for it from here on."""

    number: int
    request_id: str
    source: tuple[int, ...]
    options: DecodingOptions
    submitted_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """To the process of a model.

    Attributes:
        make: loads it, given what makes a worker over that.
        after_fork: whether every engine process does so for itself.
    """

    make: Callable[[Callable[..., Any]], Any]
    after_fork: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """To a process: decode these, which are of one lane."""

    lane: Lane
    sentences: list[Sentence]

    def __reduce__(self) -> _Values:
        """Tell pickle the plain values."""
        each = [
            (s.number, s.request_id, s.source, _OPTIONS(s.options), s.submitted_s, s.deadline_s)
            for s in self.sentences
        ]
        return _start, (self.lane, each)


@dataclass(frozen=True, slots=True)
class Drop:
    """To a process: nobody waits for these any more."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Extend:
    """To a process: try this one until a later time."""

    number: int
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Forked:
    """From the process of a model: it has engine processes; its own id and theirs."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """From a process: it translates."""

    spec: ModelSpec
    limits: EngineLimits


@dataclass(frozen=True, slots=True)
class Refused:
    """From any process, which ends: why it does not load the model or does not translate with it."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Report:
    """From a process: what has happened since the last report.

    Attributes:
        ended: number of each sentence that has ended, and how.
        seen: calls of an `EngineObserver`, by name.
        records: of its log.
        stats: of its pool, now.
    """

    stats: EngineStats
    ended: list[tuple[int, SequenceResult | DragomanError]] = field(default_factory=list)
    seen: list[tuple[str, _Values]] = field(default_factory=list)
    records: list[logging.LogRecord] = field(default_factory=list)

    def __reduce__(self) -> _Values:
        """Tell pickle the plain values."""
        ended = [
            (number, _result_values(result) if isinstance(result, SequenceResult) else result)
            for number, result in self.ended
        ]
        return _report, (_STATS(self.stats), ended, self.seen, self.records)


def _values_of(kind: type) -> Callable[[Any], _Values]:
    """Give what reads the fields of a dataclass, in their order."""
    return operator.attrgetter(*(each.name for each in fields(kind)))


_OPTIONS, _STATS = _values_of(DecodingOptions), _values_of(EngineStats)
_HYPOTHESIS = _values_of(Hypothesis)


def _start(lane: Lane, each: list[_Values]) -> Start:
    sentences = [
        Sentence(number, request_id, source, _same_options(options), submitted_s, deadline_s)
        for number, request_id, source, options, submitted_s, deadline_s in each
    ]
    return Start(lane, sentences)


@functools.lru_cache(_REMEMBERED)
def _same_options(values: _Values) -> DecodingOptions:
    return DecodingOptions(*values)


def _report(
    stats: _Values,
    ended: list[tuple[int, _Values | DragomanError]],
    seen: list[tuple[str, _Values]],
    records: list[logging.LogRecord],
) -> Report:
    results = [
        (number, _result(*result) if isinstance(result, tuple) else result) for number, result in ended
    ]
    return Report(EngineStats(*stats), results, seen, records)


def _result_values(r: SequenceResult) -> _Values:
    hypotheses = [_HYPOTHESIS(each) for each in r.hypotheses]
    times_s = r.queue_s, r.encode_s, r.decode_s
    return hypotheses, r.finish_reason, r.source_tokens, r.target_tokens, *times_s


def _result(hypotheses: list[_Values], *others: Any) -> SequenceResult:
    return SequenceResult(tuple([Hypothesis(*each) for each in hypotheses]), *others)


ToProcess = Start | Drop | Extend
FromProcess = Ready | Refused | Report
