"""A sequence of features as a request holds it."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.features.encoded import FeaturesTooLongError, from_base64, to_base64
from model.features.files import FeaturesError

SIZE, LONGEST = 3, 10
SEQUENCE = np.random.default_rng(0).normal(size=(4, SIZE)).astype(np.float32)


def written(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8"])
def test_what_numpy_writes_is_read(kind: str, version: tuple[int, int]) -> None:
    array = SEQUENCE.astype(kind)
    found = from_base64(base64.b64encode(written(array, version)).decode(), SIZE, LONGEST)
    assert found.dtype == np.float32
    assert np.array_equal(found, array.astype(np.float32))


def test_both_directions_fit() -> None:
    assert np.array_equal(from_base64(to_base64(SEQUENCE), SIZE, LONGEST), SEQUENCE)
    assert np.array_equal(from_base64(to_base64(np.asfortranarray(SEQUENCE)), SIZE, LONGEST), SEQUENCE)


def test_the_bound_is_exact() -> None:
    longest = np.zeros((LONGEST, SIZE), "<f8")
    assert len(from_base64(to_base64(longest), SIZE, LONGEST)) == LONGEST
    with pytest.raises(FeaturesTooLongError, match="11 vectors; at most 10"):
        from_base64(to_base64(np.zeros((LONGEST + 1, SIZE), "<f4")), SIZE, LONGEST)
    with pytest.raises(FeaturesTooLongError, match="more base64 than 10 vectors of 3"):
        from_base64("A" * 10_000_000, SIZE, LONGEST)


@given(st.integers(0, 250), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_another_number(place: int, byte: int) -> None:
    content = bytearray(written(SEQUENCE))
    content[place % len(content)] = byte
    try:
        found = from_base64(base64.b64encode(content).decode(), SIZE, LONGEST)
    except FeaturesError as error:
        assert len(str(error)) < 120
    else:
        assert found.shape[1] == SIZE
        assert np.isfinite(found).all()


@given(st.binary(max_size=300))
def test_any_header_is_read_or_refused(header: bytes) -> None:
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with pytest.raises(FeaturesError):
        from_base64(base64.b64encode(content).decode(), SIZE, LONGEST)
