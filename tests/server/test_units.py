import pytest

from server.units import in_bytes, in_mebibytes, in_seconds


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        *(("500ms", 0.5), ("10s", 10), ("1.5 min", 90), ("4.1min", 246), ("2H", 7200)),
        *(("10", "10"), ("1e3", "1e3"), (2.5, 2.5)),
    ],
)
def test_durations_become_seconds_and_plain_numbers_stay(given: object, seconds: object) -> None:
    assert in_seconds(given) == seconds


@pytest.mark.parametrize(
    ("given", "size", "mebibytes"),
    [
        *(("64MiB", 64 << 20, 64), ("2 gb", 2 * 10**9, 1907), ("1kB", 1000, 0), ("0.1GiB", 107374182, 102)),
        *(("64", "64", "64"), (64, 64, 64), (64.5, 64.5, 64.5)),
    ],
)
def test_sizes_become_bytes_or_mebibytes(given: object, size: object, mebibytes: object) -> None:
    assert in_bytes(given) == size
    assert in_mebibytes(given) == mebibytes


def test_an_unknown_unit_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="'parsec'; known are ms, s, min, h"):
        in_seconds("5parsec")
    with pytest.raises(ValueError, match="'ms'; known are B, kB"):
        in_mebibytes("5ms")
