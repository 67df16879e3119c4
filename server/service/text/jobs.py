"""Work that needs a model now and then: a generator that yields what to decode and is sent the results.

So the steps of the text layer neither wait nor know who decodes: the server awaits an engine, `dragoman
translate` keeps many lines in flight, a test answers by itself.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from server.engine.sequence import SequenceResult
from server.engine.source import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A sentence for the engine.

    Attributes:
        ids: token ids with the model's specials, or feature vectors.
        begin: target ids that the translation begins with.
        required: target ids of masks that it must hold once each.
        no_repeat_ngram_size: as the decoding option; 0 leaves the request's.
    """

    ids: Source
    begin: tuple[int, ...] = ()
    required: tuple[tuple[int, ...], ...] = ()
    no_repeat_ngram_size: int = 0


Job = Generator[list[ModelInput], Sequence[SequenceResult], T]


def together(jobs: Sequence[Job[T]]) -> Job[list[T]]:
    """Run jobs side by side: what they want at the same time is decoded together, and equal inputs once.

    Args:
        jobs: not started.

    Returns:
        What each of them returns, in order.
    """
    if len(jobs) == 1:
        return [(yield from jobs[0])]
    results: dict[int, T] = {}
    waiting: dict[int, list[ModelInput]] = {}

    def advance(number: int, answers: Sequence[SequenceResult] | None) -> None:
        job = jobs[number]
        try:
            waiting[number] = next(job) if answers is None else job.send(answers)
        except StopIteration as ended:
            results[number] = ended.value

    for number in range(len(jobs)):
        advance(number, None)
    while waiting:
        asked = waiting
        waiting = {}
        unique = dict.fromkeys(one for inputs in asked.values() for one in inputs)
        answers = yield list(unique)
        answer_to = dict(zip(unique, answers, strict=True))
        for number, inputs in asked.items():
            advance(number, [answer_to[one] for one in inputs])
    return [results[number] for number in range(len(jobs))]
