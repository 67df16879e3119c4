"""The worked example of docs/operations.md, against what the server allots and says."""

import re
import threading
from pathlib import Path

import httpx
import pytest

from export.bundle import load_manifest
from server.engine.kv_cache.budget import USUAL_ROWS, Capacity, cache_bytes, largest_request_bytes
from server.engine.limits import EngineLimits
from server.runtime.model_runtime import ModelRuntime
from tests.support.server_process import serving

LINE = re.compile(r"^ +([\d, x()+]+) = ([\d,]+)( |$)", re.MULTILINE)
SENTENCES = [f"The cat sees {n} birds in the garden." for n in range(3)]


@pytest.fixture(scope="module")
def example(repository: Path) -> list[int]:
    """What the lines of the example come to, in bytes; each line is right in itself."""
    section = (repository / "docs/operations.md").read_text(encoding="utf-8").partition("## Size\n")[2]
    stated = []
    for left, right, _ in LINE.findall(section.partition("\n## ")[0]):
        expression = left.replace(",", "").replace("x", "*")
        assert re.fullmatch(r"[\d *()+]+", expression)
        assert eval(expression) == int(right.replace(",", "")), left
        stated.append(int(right.replace(",", "")))
    assert len(stated) == 4
    return stated


def test_the_example_is_the_servers_own_accounting(repository: Path, example: list[int]) -> None:
    bundle, rows = repository / "bundles/en-de", USUAL_ROWS[0]
    manifest = load_manifest(bundle)
    spec = ModelRuntime(bundle, manifest, beam_widths=(1, 4)).spec
    assert example[0] == cache_bytes(spec, 1, rows, Capacity(source=32, target=128))
    assert example[1] == cache_bytes(spec, 4, rows, Capacity(source=32, target=128))
    assert example[2] == largest_request_bytes(spec, EngineLimits(max_rows=rows))


def test_the_gauge_shows_what_the_example_says(repository: Path, tmp_path: Path, example: list[int]) -> None:
    fields = {"q": SENTENCES, "source": "en", "target": "de"}
    fields |= {"min_decoding_length": 128, "max_decoding_length": 128}
    # The bound is the least that 64 rows need; `test_lifecycle.py` has what happens below that.
    bundle, least = repository / "bundles/en-de", example[2] >> 20
    with serving(bundle, tmp_path / "log", max_kv_cache_mib=least) as server:
        assert server.metrics()["dragoman_kv_cache_capacity_bytes"] == example[2]
        assert server.metrics()["dragoman_batch_max_sentences"] == USUAL_ROWS[0]
        largest = [0.0]
        for beam_size in (1, 4):
            answered: list[int] = []

            def send(beam_size: int = beam_size, answered: list[int] = answered) -> None:
                body = fields | {"beam_size": beam_size}
                answered.append(httpx.post(f"{server.url}/translate", json=body, timeout=60).status_code)

            sending = threading.Thread(target=send)
            sending.start()
            seen = set()
            while sending.is_alive():
                seen.add(server.metrics()["dragoman_kv_cache_bytes"])
            seen.add(server.metrics()["dragoman_kv_cache_bytes"])
            assert answered == [200]
            largest.append(max(seen))
    # Of the second, the cache of the first is still there.
    assert largest == [0, example[0], example[0] + example[1]]
