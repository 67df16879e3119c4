import math

import pytest
import torch

from model.config import TransformerConfig
from model.positions import PositionEmbedding, RelativeBias, sinusoidal_table


def angle(position: int, pair: int, dim: int) -> float:
    return position / 10000 ** (2 * pair / dim)


def test_interleaved_table_is_the_papers_formula() -> None:
    table = sinusoidal_table(50, 12, "sinusoidal_interleaved")
    for position in (0, 1, 7, 49):
        for pair in range(6):
            assert table[position, 2 * pair] == pytest.approx(math.sin(angle(position, pair, 12)), abs=1e-6)
            assert table[position, 2 * pair + 1] == pytest.approx(
                math.cos(angle(position, pair, 12)), abs=1e-6
            )


def test_halves_table_holds_sines_first() -> None:
    table = sinusoidal_table(50, 12, "sinusoidal_halves")
    for position in (0, 3, 49):
        for pair in range(6):
            assert table[position, pair] == pytest.approx(math.sin(angle(position, pair, 12)), abs=1e-6)
            assert table[position, 6 + pair] == pytest.approx(math.cos(angle(position, pair, 12)), abs=1e-6)


def test_tensor2tensors_table_reaches_ten_thousand() -> None:
    table = sinusoidal_table(50, 12, "sinusoidal_t2t")
    for position in (0, 3, 49):
        for pair in range(6):
            angle = position / 10000 ** (pair / 5)
            assert table[position, pair] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 6 + pair] == pytest.approx(math.cos(angle), abs=1e-6)


def test_far_distances_share_the_bias_of_the_farthest() -> None:
    both, before = RelativeBias(2, 3, both_ways=True), RelativeBias(2, 3, both_ways=False)
    for bias in (both, before):
        torch.nn.init.normal_(bias.table)
    keys = torch.arange(9)
    found = both(torch.tensor([[0], [4]]), keys)
    assert found.shape == (2, 2, 1, 9)
    assert torch.equal(found[0, :, 0].T, both.table[[3, 4, 5, 6, 6, 6, 6, 6, 6]])
    assert torch.equal(found[1, :, 0].T, both.table[[0, 0, 1, 2, 3, 4, 5, 6, 6]])
    assert torch.equal(before(torch.tensor([5]), keys)[:, 0, :6].T, before.table[[0, 0, 0, 1, 2, 3]])


@pytest.mark.parametrize("kind", ["sinusoidal_interleaved", "learned"])
def test_the_offset_shifts_positions(kind: str) -> None:
    config = TransformerConfig(
        source_vocab_size=9,
        target_vocab_size=9,
        d_model=8,
        encoder_heads=2,
        decoder_heads=2,
        positions=kind,
        position_offset=2,
        max_positions=10,
    )
    embedding = PositionEmbedding(config)
    assert torch.equal(embedding(torch.tensor([[0, 9]]))[0], embedding.table[[2, 11]])
    assert embedding.table.requires_grad == (kind == "learned")
