"""Sizes that are met again and again, so that what is kept or built for a size is of use."""


def bucket_size(count: int) -> int:
    """Round up to a power of two or one and a half times one: 1, 2, 3, 4, 6, 8, 12, 16, 24.

    On a GPU, rows that nobody needs hardly cost anything, and every new size does: cuDNN builds its attention
    for it (41 ms, H200), cuBLAS chooses its kernels and memory is found (4 to 12 ms for an encoder), and a
    recording of a step takes 4.
    """
    power = 1 << max(0, (count - 1).bit_length())
    return power * 3 // 4 if power > 2 and count <= power * 3 // 4 else power
