"""Messages between a server and its engine processes: what arrives is what was sent."""

import logging
import pickle

import pytest

from server.engine.ipc.messages import Drop, Extend, Report, Sentence, Start
from server.engine.limits import EngineStats
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, SequenceResult
from server.errors import InferenceError

EVERY_OPTION = DecodingOptions(
    beam_size=4,
    length_penalty=0.6,
    num_hypotheses=2,
    max_decoding_length=17,
    min_decoding_length=3,
    return_scores=True,
    patience=2.0,
    early_stopping="never",
    repetition_penalty=1.3,
    no_repeat_ngram_size=3,
    target_prefix=(9, 8),
    model_prefix_tokens=1,
    sampling_topk=7,
    sampling_topp=0.9,
    sampling_temperature=0.7,
    seed=5,
)
STATS = EngineStats(3, 30, 0.5, 20, 128, 32, 4096, True, 12.5, (7, 8))
RESULT = SequenceResult((Hypothesis((5, 6), -1.5), Hypothesis((), -2.0)), "length", 9, 2, 0.1, 0.2, 0.3)
SENTENCES = [
    Sentence(1, "one", (5, 17), EVERY_OPTION, 1.0, 2.0),
    Sentence(2, "two", (6,), DecodingOptions(), 3.0, float("inf")),
]


@pytest.mark.parametrize(
    "message",
    [
        Start("long", SENTENCES),
        Start("short", []),
        Drop([1, 2]),
        Extend(1, 9.5),
        Report(STATS),
        Report(STATS, [(1, RESULT)], [("step", (20, 12, 0.5)), ("error", ("poison",))]),
    ],
)
def test_what_arrives_is_what_was_sent(message: object) -> None:
    there = pickle.loads(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    assert there == message
    assert type(there) is type(message)


def test_options_are_there_once_for_all_that_are_decoded_alike() -> None:
    data = [pickle.dumps(Start("short", [one]), pickle.HIGHEST_PROTOCOL) for one in SENTENCES + SENTENCES]
    first, second, third, fourth = (pickle.loads(each).sentences[0].options for each in data)
    assert first is third
    assert second is fourth
    assert first != second


def test_errors_and_log_records_go_with_a_report() -> None:
    record = logging.makeLogRecord({"msg": "hello"})
    report = Report(STATS, [(1, InferenceError("bad")), (2, RESULT)], records=[record])
    there = pickle.loads(pickle.dumps(report, pickle.HIGHEST_PROTOCOL))
    (_, error), (_, result) = there.ended
    assert isinstance(error, InferenceError)
    assert str(error) == "bad"
    assert result == RESULT
    assert there.records[0].getMessage() == "hello"
