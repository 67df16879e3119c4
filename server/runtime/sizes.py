"""Numbers of rows that are met again and again, so that what is kept for a number is of use."""


def usual_size(count: int) -> int:
    """Round up by less than a quarter: 1 to 8, then four sizes for each doubling, as 10, 12, 14, 16."""
    step = 1 << max(0, (count - 1).bit_length() - 3)
    return -(-count // step) * step
