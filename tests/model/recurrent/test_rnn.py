"""The recurrent encoder-decoder: its formulas, its masks, and a task that it must learn."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from model.config import RnnConfig
from model.data.batching import collate
from model.evaluation.evaluation import greedy_decode
from model.recurrent.rnn import Rnn, mirror
from model.training.batch_loss import BatchLoss

VOCABULARY = 20


def make_rnn(**changes: object) -> Rnn:
    """Make a small RNN with known weights."""
    torch.manual_seed(0)
    values = {"architecture": "rnn", "source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY}
    small = {"d_model": 12, "state_dim": 16, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    return Rnn(RnnConfig.model_validate(values | small | changes))


def test_mirror_turns_each_sentence_within_its_own_length() -> None:
    places = mirror(torch.tensor([3, 1, 4]), 4)
    assert places.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]


def test_gradients_equal_differences() -> None:
    model = make_rnn(tie_output=False).double()
    source, lengths = torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([3, 2])
    target = torch.tensor([[2, 10, 11], [2, 12, 0]])
    weights = dict(model.named_parameters())
    step = 1e-6

    def loss() -> torch.Tensor:
        scores = model(source, lengths, target)
        return cross_entropy(scores.flatten(0, 1), torch.tensor([10, 11, 3, 12, 3, 0]))

    loss().backward()
    draw = torch.Generator().manual_seed(1)
    for name, weight in weights.items():
        assert weight.grad is not None, name
        place = tuple(int(torch.randint(size, (), generator=draw)) for size in weight.shape)
        if "embedding" in name:
            place = (5 if "source" in name else 10, place[1])
        with torch.no_grad():
            weight[place] += step
            above = float(loss())
            weight[place] -= 2 * step
            below = float(loss())
            weight[place] += step
        assert float(weight.grad[place]) == pytest.approx((above - below) / (2 * step), abs=1e-7), name


def test_padding_never_changes_a_sentence() -> None:
    model = make_rnn().eval()
    alone = model(torch.tensor([[5, 6, 7]]), torch.tensor([3]), torch.tensor([[2, 8, 9]]))
    source = torch.tensor([[5, 6, 7, 13, 14, 15], [4, 5, 6, 7, 8, 9]])  # what pads is arbitrary
    target = torch.tensor([[2, 8, 9, 17, 18], [2, 4, 5, 6, 7]])
    beside = model(source, torch.tensor([3, 6]), target)
    torch.testing.assert_close(beside[:1, :3], alone, rtol=0, atol=1e-6)


def test_sees_no_later_target() -> None:
    model = make_rnn().eval()
    source, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])
    first = model(source, lengths, torch.tensor([[2, 8, 9, 10]]))
    other = model(source, lengths, torch.tensor([[2, 8, 15, 16]]))
    torch.testing.assert_close(first[:, :2], other[:, :2], rtol=0, atol=0)
    assert not torch.equal(first[:, 2], other[:, 2])


def test_attention_is_that_of_the_paper() -> None:
    model = make_rnn(encoder_layers=1, decoder_layers=1).eval()
    source, lengths, target = torch.tensor([[5, 6, 7]]), torch.tensor([3]), torch.tensor([[2, 8]])
    memory = model.encode(source, lengths)
    ends = torch.cat([memory[0, 2, :8], memory[0, 0, 8:]])
    state = torch.tanh(model.start(ends))
    embedded = model.target_embedding(target[0]) * math.sqrt(12)
    layer = model.decoder_layers[0]
    for step in range(2):
        gates, kept = layer.weight_ih_l0 @ embedded[step], layer.weight_hh_l0 @ state
        reset, update = torch.sigmoid(gates[:32] + kept[:32]).chunk(2)
        state = (1 - update) * torch.tanh(gates[32:] + reset * kept[32:]) + update * state
        weights = torch.softmax(torch.stack([state @ model.query.weight.T @ h for h in memory[0]]), dim=0)
        shown = model.attention_weights(source, lengths, target)[0, step]
        torch.testing.assert_close(shown, weights)
        context = (weights[:, None] * memory[0]).sum(0)
        vector = torch.tanh(model.attentional(torch.cat([state, context])))
        torch.testing.assert_close(model.decode_hidden(target, memory, lengths)[0, step], vector)


def test_step_by_step_equals_whole_targets() -> None:
    model = make_rnn().eval()
    source, lengths = torch.tensor([[5, 6, 7, 0], [4, 5, 6, 7]]), torch.tensor([3, 4])
    target = torch.tensor([[2, 8, 9], [2, 10, 11]])
    memory = model.encode(source, lengths)
    whole = model.decode(target, memory, lengths)
    cache = model.start_cache(memory, lengths, 3)
    for position in range(3):
        places = torch.full((2, 1), position)
        step = model.decode_step(target[:, position : position + 1], places, cache)
        torch.testing.assert_close(step, whole[:, position], rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_learns_to_copy(precision: str) -> None:
    model = make_rnn(d_model=32, state_dim=64, decoder_layers=1, encoder_layers=1)
    loss_of = BatchLoss(model, precision=precision, pad_id=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(2)

    def rows(count: int) -> list[list[int]]:
        lengths = torch.randint(2, 7, (count,), generator=draw).tolist()
        return [torch.randint(4, VOCABULARY, (n,), generator=draw).tolist() for n in lengths]

    for _ in range(400):
        some = rows(32)
        batch = collate(some, some, pad_id=0, start_id=2, eos_id=3)
        loss, _ = loss_of(batch, 0.0)
        (loss / batch.target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    some = rows(50)
    batch = collate(some, some, pad_id=0, start_id=2, eos_id=3)
    found = greedy_decode(model, batch.source_ids, batch.source_lengths, bos=2, eos=3, max_length=12)
    assert sum(one == row for one, row in zip(found, some, strict=True)) >= 37  # 43 of 50 on average


def test_odd_states_are_refused() -> None:
    with pytest.raises(ValueError, match="state_dim 15 must be even"):
        make_rnn(state_dim=15)
