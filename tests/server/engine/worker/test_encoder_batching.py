from server.engine.options import DecodingOptions
from server.engine.worker.engine import CALL_COST_TOKENS, encoder_batches
from tests.server.engine.fakes import sentence


def test_encoder_batches_cut_off_padding_where_it_costs_more_than_a_run() -> None:
    sentences = [sentence([7] * length) for length in (50, 3, 49, 4, 5)]
    lengths = [[len(one.source) for one in run] for run in encoder_batches(sentences, 1000)]
    assert lengths == [[50, 49], [5, 4, 3]]
    assert encoder_batches([], 1000) == []
    alike = [sentence([7] * length) for length in (12, 12, 10, 10)]
    assert CALL_COST_TOKENS >= (12 - 10) * 2
    assert len(encoder_batches(alike, 1000)) == 1


def test_encoder_batches_are_bounded_and_of_one_beam_width() -> None:
    sentences = [sentence([7] * 40, DecodingOptions(beam_size=1 + n % 2)) for n in range(9)]
    runs = encoder_batches(sentences, 100)
    assert sorted(len(run) for run in runs) == [1, 2, 2, 2, 2]
    assert all(len({one.beam_size for one in run}) == 1 for run in runs)
    assert {one for run in runs for one in run} == set(sentences)
