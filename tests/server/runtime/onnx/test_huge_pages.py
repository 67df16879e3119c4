import mmap
import sys

import numpy as np
import pytest

from server.runtime.onnx import huge_pages
from server.runtime.onnx.huge_pages import huge_pages_so_far, use_huge_pages

ANONYMOUS = "7f0000001000-7f0000a00000 rw-p 00000000 00:00 0"


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux alone")
def test_memory_keeps_its_content() -> None:
    before = huge_pages_so_far()
    # Not from malloc, which may have memory left that was there before.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    values = np.frombuffer(mmap.mmap(-1, 16 << 20, flags=private), np.uint8)
    values[:] = np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8).repeat(16)
    assert use_huge_pages(before) >= 14 << 20
    assert (values == np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8).repeat(16)).all()
    assert use_huge_pages(huge_pages_so_far()) == 0  # there is nothing new


@pytest.mark.parametrize(
    ("line", "pages"),
    [
        (ANONYMOUS, [0x7F0000200000, 0x7F0000400000, 0x7F0000600000, 0x7F0000800000]),
        (f"{ANONYMOUS} [heap]", [0x7F0000200000, 0x7F0000400000, 0x7F0000600000, 0x7F0000800000]),
        (f"{ANONYMOUS} [stack]", []),
        ("7f0000000000-7f0000a00000 r--p 00000000 00:00 0", []),
        ("7f0000000000-7f0000a00000 rw-s 00000000 00:00 0", []),
        ("7f0000000000-7f0000a00000 rw-p 00000000 fe:00 77 /a file", []),
        ("7f0000001000-7f0000100000 rw-p 00000000 00:00 0", []),
        ("7f0000001000-7f0000300000 rw-p 00000000 00:00 0", []),
        ("7f0000001000-7f0000400000 rw-p 00000000 00:00 0", [0x7F0000200000]),
    ],
)
def test_only_whole_pages_of_anonymous_memory_count(line: str, pages: list[int]) -> None:
    assert list(huge_pages._whole_pages(line)) == pages


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(huge_pages, "_MAPS", huge_pages.Path(f"{tmp_path}/missing"))
    assert use_huge_pages() == 0
