import sys

import numpy as np
import pytest

from server.runtime import huge_pages
from server.runtime.huge_pages import use_huge_pages

ANONYMOUS = "7f0000001000-7f0000a00000 rw-p 00000000 00:00 0"


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux alone")
def test_memory_keeps_its_content() -> None:
    values = np.random.default_rng(0).integers(0, 255, 16 << 20, np.uint8)
    before = values.copy()
    assert use_huge_pages() >= 2 * (14 << 20)
    assert (values == before).all()


@pytest.mark.parametrize(
    ("line", "pages"),
    [
        (ANONYMOUS, (0x7F0000200000, 0x7F0000A00000)),
        (f"{ANONYMOUS} [heap]", (0x7F0000200000, 0x7F0000A00000)),
        (f"{ANONYMOUS} [stack]", (0, 0)),
        ("7f0000000000-7f0000a00000 r--p 00000000 00:00 0", (0, 0)),
        ("7f0000000000-7f0000a00000 rw-s 00000000 00:00 0", (0, 0)),
        ("7f0000000000-7f0000a00000 rw-p 00000000 fe:00 77 /a file", (0, 0)),
    ],
)
def test_only_whole_pages_of_anonymous_memory_count(line: str, pages: tuple[int, int]) -> None:
    assert huge_pages._whole_pages(line) == pages


def test_a_mapping_smaller_than_a_page_has_none() -> None:
    first, last = huge_pages._whole_pages("7f0000001000-7f0000100000 rw-p 00000000 00:00 0")
    assert first >= last


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(huge_pages, "_MAPS", huge_pages.Path(f"{tmp_path}/missing"))
    assert use_huge_pages() == 0
