"""Sizes that are met again."""

from server.runtime.device.device import bucket_size


def test_sizes_are_few_and_little_larger_than_what_they_are_for() -> None:
    sizes = [bucket_size(count) for count in range(1, 257)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 16
    assert all(count <= size < 1.5 * count + 0.5 for count, size in enumerate(sizes, 1))
    assert all(bucket_size(size) == size for size in sizes)
