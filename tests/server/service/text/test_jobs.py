"""Jobs side by side: results in order, equal inputs decoded once, each answered as if it were alone."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.engine.sequence import Hypothesis, SequenceResult
from server.service.text.jobs import Job, ModelInput, T, together

Plan = list[list[int]]


def result(one: ModelInput) -> SequenceResult:
    return SequenceResult((Hypothesis(one.ids, 0.0),), "eos", len(one.ids), len(one.ids), 0.0, 0.0, 0.0)


def job(plan: Plan) -> Job[list[int]]:
    """Asks for some numbers at a time; returns all that it was answered."""
    answered: list[int] = []
    for numbers in plan:
        answers = yield [ModelInput((number,)) for number in numbers]
        answered += [answer.hypotheses[0].tokens[0] for answer in answers]
    return answered


def run(one: Job[T]) -> tuple[T, list[list[ModelInput]]]:
    """Answer a job to its end; its result, and what it asked for each time."""
    asked: list[list[ModelInput]] = []
    answers: Sequence[SequenceResult] | None = None
    while True:
        try:
            asked.append(next(one) if answers is None else one.send(answers))
        except StopIteration as ended:
            return ended.value, asked
        answers = [result(wanted) for wanted in asked[-1]]


PLANS = st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4, unique=True), max_size=4), max_size=6)


@given(PLANS)
def test_each_job_gets_its_own_answers_in_order(plans: list[Plan]) -> None:
    results, asked = run(together([job(plan) for plan in plans]))
    assert results == [[number for numbers in plan for number in numbers] for plan in plans]
    assert len(asked) == max(map(len, plans), default=0)
    for number, inputs in enumerate(asked):
        wanted = {one for plan in plans if len(plan) > number for one in plan[number]}
        assert sorted(one.ids[0] for one in inputs) == sorted(wanted)  # each once


@given(PLANS, PLANS)
def test_jobs_may_be_nested(first: list[Plan], second: list[Plan]) -> None:
    nested = together([together([job(plan) for plan in plans]) for plans in (first, second)])
    results, asked = run(nested)
    flat, flat_asked = run(together([job(plan) for plan in first + second]))
    assert [*results[0], *results[1]] == flat
    assert [set(inputs) for inputs in asked] == [set(inputs) for inputs in flat_asked]


def test_jobs_that_ask_for_nothing_end_at_once() -> None:
    assert run(together([])) == ([], [])
    assert run(together([job([]), job([])])) == ([[], []], [])


def test_inputs_that_differ_in_anything_are_different() -> None:
    def asking(one: ModelInput) -> Job[int]:
        answers = yield [one]
        return len(answers)

    inputs = [
        ModelInput((1,)), ModelInput((1,), begin=(2,)), ModelInput((1,), required=((2,),)),
        ModelInput((1,), no_repeat_ngram_size=3), ModelInput((1,)),
    ]  # fmt: skip
    assert run(together([asking(one) for one in inputs])) == ([1] * 5, [inputs[:4]])


def test_too_few_answers_are_an_error() -> None:
    both = together([job([[1]]), job([[2]])])
    next(both)
    with pytest.raises(ValueError, match="shorter"):
        both.send([result(ModelInput((1,)))])
