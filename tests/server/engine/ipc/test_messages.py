"""Messages between a server and its engine processes: what arrives is what was sent."""

import logging
import pickle

import pytest

from server.engine.ipc.messages import Drop, Report, Start
from server.engine.options import DecodingOptions
from server.engine.sequence import Hypothesis, Sequence, SequenceResult
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
    required=((4, 5), (6,)),
)
RESULT = SequenceResult((Hypothesis((5, 6), -1.5), Hypothesis((), -2.0)), "length", 9, 2, 0.1, 0.2, 0.3)
SENTENCES = [
    Sequence(1, (5, 17), EVERY_OPTION, "bulk", 1.0, 2.0),
    Sequence(2, (6,), DecodingOptions(), "interactive", 3.0, float("inf")),
]


@pytest.mark.parametrize(
    "message",
    [
        Drop([1, 2]),
        Report(4096),
        Report(4096, [(1, RESULT)], [(2, 9, 3, 0.5)], [(20, 12, 0.5)], ["poison"]),
    ],
)
def test_what_arrives_is_what_was_sent(message: object) -> None:
    there = pickle.loads(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    assert there == message
    assert type(there) is type(message)


def test_sentences_arrive_without_what_is_the_dispatchers_own() -> None:
    SENTENCES[0].request_id, SENTENCES[0].worker = "secret", 1
    there = pickle.loads(pickle.dumps(Start(SENTENCES), pickle.HIGHEST_PROTOCOL)).sequences
    assert [(s.number, s.source, s.options, s.priority, s.submitted_s, s.deadline_s) for s in there] == [
        (s.number, s.source, s.options, s.priority, s.submitted_s, s.deadline_s) for s in SENTENCES
    ]
    assert [(s.request_id, s.future, s.worker) for s in there] == [("", None, None)] * 2


def test_options_are_there_once_for_all_that_are_decoded_alike() -> None:
    data = [pickle.dumps(Start([one]), pickle.HIGHEST_PROTOCOL) for one in SENTENCES + SENTENCES]
    first, second, third, fourth = (pickle.loads(each).sequences[0].options for each in data)
    assert first is third
    assert second is fourth
    assert first != second


def test_errors_and_log_records_go_with_a_report() -> None:
    record = logging.makeLogRecord({"msg": "hello"})
    report = Report(0, [(1, InferenceError("bad")), (2, RESULT)], records=[record])
    there = pickle.loads(pickle.dumps(report, pickle.HIGHEST_PROTOCOL))
    (_, error), (_, result) = there.ended
    assert isinstance(error, InferenceError)
    assert str(error) == "bad"
    assert result == RESULT
    assert there.records[0].getMessage() == "hello"
