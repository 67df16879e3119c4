"""What a server and its engine processes say to each other, pickled, over a socket that nobody else has."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from server.errors import DragomanError
from server.runtime.session import ModelSpec

from .scheduler import Lane
from .sequence import DecodingOptions, EngineLimits, EngineStats, SequenceResult


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
    """To the process of a model: what loads it, given what makes a worker over that."""

    make: Callable[[Callable[..., Any]], Any]


@dataclass(frozen=True, slots=True)
class Start:
    """To a process: decode these, which are of one lane."""

    lane: Lane
    sentences: list[Sentence]


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
    """From the process of a model: it is loaded and has engine processes; its own id and theirs."""

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
    seen: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    records: list[logging.LogRecord] = field(default_factory=list)


ToProcess = Start | Drop | Extend
FromProcess = Ready | Refused | Report
