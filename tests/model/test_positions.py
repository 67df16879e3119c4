import math

import pytest
import torch

from model.config import TransformerConfig
from model.positions import PositionEmbedding, sinusoidal_table


def angle(position: int, pair: int, dim: int) -> float:
    return position / 10000 ** (2 * pair / dim)


def test_interleaved_table_is_the_papers_formula() -> None:
    table = sinusoidal_table(50, 12, interleaved=True)
    for position in (0, 1, 7, 49):
        for pair in range(6):
            assert table[position, 2 * pair] == pytest.approx(math.sin(angle(position, pair, 12)), abs=1e-6)
            assert table[position, 2 * pair + 1] == pytest.approx(
                math.cos(angle(position, pair, 12)), abs=1e-6
            )


def test_halves_table_holds_sines_first() -> None:
    table = sinusoidal_table(50, 12, interleaved=False)
    for position in (0, 3, 49):
        for pair in range(6):
            assert table[position, pair] == pytest.approx(math.sin(angle(position, pair, 12)), abs=1e-6)
            assert table[position, 6 + pair] == pytest.approx(math.cos(angle(position, pair, 12)), abs=1e-6)


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
