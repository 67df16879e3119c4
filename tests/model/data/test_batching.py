import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from model.data.batching import batches_by_tokens, collate, take_share

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)


@given(LENGTHS, st.integers(1, 300), st.booleans())
def test_every_sentence_once_and_every_batch_within_budget(
    lengths: list[tuple[int, int]], budget: int, shuffled: bool
) -> None:
    source, target = (np.array(side) for side in zip(*lengths, strict=True))
    rng = np.random.default_rng(0) if shuffled else None
    batches = batches_by_tokens(source, target, budget, rng)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for batch in batches:
        widest = max(source[batch].max(), target[batch].max())
        assert len(batch) == 1 or widest * len(batch) <= budget


def test_buckets_waste_little_on_padding() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 30, 5000)
    batches = batches_by_tokens(lengths, lengths, 1000, rng)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded <= 1.02 * lengths.sum()


def test_the_seed_fixes_the_order() -> None:
    lengths = np.random.default_rng(0).integers(3, 30, 500)
    runs = [
        batches_by_tokens(lengths, lengths, 100, np.random.default_rng([1, epoch])) for epoch in (0, 0, 1)
    ]
    flat = [np.concatenate(run).tolist() for run in runs]
    assert flat[0] == flat[1] != flat[2]


def test_collate_shifts_the_target_by_one() -> None:
    batch = collate([[7, 8], [9]], [[5], [5, 6, 4]], pad_id=0, start_id=2, eos_id=3)
    assert batch.source_ids.tolist() == [[7, 8, 3], [9, 3, 0]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_in.tolist() == [[2, 5, 0, 0], [2, 5, 6, 4]]
    assert batch.target_out.tolist() == [[5, 3, 0, 0], [5, 6, 4, 3]]
    assert batch.target_tokens == 6


@given(LENGTHS, st.integers(1, 5))
def test_the_shares_of_all_processes_are_the_batch(lengths: list[tuple[int, int]], count: int) -> None:
    sources, targets = ([[9] * length for length in side] for side in zip(*lengths, strict=True))
    sources = [[5 + i, *row] for i, row in enumerate(sources)]
    batch = collate(sources, targets, pad_id=0, start_id=2, eos_id=3)
    shares = [take_share(batch, rank, count, 0) for rank in range(count)]
    found = []
    for share in shares:
        assert share.target_tokens == batch.target_tokens
        assert share.source_ids.shape == (len(share.source_lengths), int(share.source_lengths.max()))
        assert share.target_in.shape == share.target_out.shape
        for source, length, target_in, target_out in zip(
            share.source_ids.tolist(),
            share.source_lengths.tolist(),
            share.target_in.tolist(),
            share.target_out.tolist(),
            strict=True,
        ):
            if any(target_out):
                found.append((source[: length - 1], [i for i in target_out if i not in (0, 3)]))
                assert source[length:] == [0] * (len(source) - length)
                assert target_in[0] == 2
    assert sorted(found) == sorted(zip(sources, targets, strict=True))
    assert sum(int((share.target_out != 0).sum()) for share in shares) == batch.target_tokens
