"""From results to the page: tables, targets, what is lost, markers and pictures."""

import math
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.losses import losses
from benchmarks.report import HTTP_PLOT, OFFLINE_PLOT, contents, write_page
from benchmarks.targets import overhead, targets
from tests.benchmarks.measured import MACHINE, load, results, row

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def page(repository: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(repository / "docs" / "benchmarks.md", tmp_path))


def test_the_page_has_a_place_for_everything_and_nothing_else(page: Path) -> None:
    opened = re.findall(r"<!-- (\w+) -->", page.read_text(encoding="utf-8"))
    assert sorted(opened) == sorted(contents(results()))


def test_the_page_is_filled_and_keeps_what_is_written_by_hand(page: Path) -> None:
    before = page.read_text(encoding="utf-8")
    write_page(page, results())
    filled = page.read_text(encoding="utf-8")
    for content in contents(results()).values():
        assert content in filled
    empty = re.compile(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", re.DOTALL)
    assert empty.sub("", filled) == empty.sub("", before)
    for name in (OFFLINE_PLOT, HTTP_PLOT):
        assert f"images/{name}" in filled
        assert (page.parent / "images" / name).read_bytes().startswith(PNG)
    write_page(page, results())
    assert page.read_text(encoding="utf-8") == filled


def test_a_part_that_has_not_run_leaves_its_tables_alone(page: Path) -> None:
    write_page(page, results())
    filled = page.read_text(encoding="utf-8")
    write_page(page, {"offline": {}, "http": {}})
    assert page.read_text(encoding="utf-8") == filled
    only = {"fairness": results()["fairness"]}
    assert set(contents(only)) == {"machine", "targets", "losses", "fairness"}


@pytest.mark.parametrize("text", ["", "<!-- a -->", "<!-- /a --><!-- a -->", "<!-- a --><!-- /b -->"])
def test_a_missing_marker_is_named(text: str) -> None:
    with pytest.raises(tables.MarkerError, match="<!-- a --> and then <!-- /a -->"):
        tables.put_between(text, "a", "content")


def test_the_machine_is_named_once_if_it_is_one() -> None:
    lines = tables.machine_lines({"offline": MACHINE, "http": MACHINE | {"commit": "def5678"}})
    assert lines.count("A Processor, 2 cores (avx2), 8 GiB; Python 3.12.0, onnxruntime 1.0") == 1
    assert "offline 2026-01-02, commit abc1234, load before 0.1; http 2026-01-02, commit def5678" in lines
    lines = tables.machine_lines({"offline": MACHINE, "http": MACHINE | {"cores": 64}})
    assert re.findall(r"- \w+: |\d+ cores", lines) == ["- offline: ", "2 cores", "- http: ", "64 cores"]


def test_speeds_are_compared_in_tokens_when_lengths_differ() -> None:
    """Who writes twice as many tokens in the same time is twice as fast."""
    result = row("default", 1, 8, [1.0, 2.0], [1.0, 2.0])
    result["tokens"]["CTranslate2"] = 500
    assert tables.offline_ratio(result) == tables.Spread(2.0, 2.0, 2.0)
    assert tables.throughput(result, "CTranslate2") == pytest.approx(500 / 1.5)
    assert tables.throughput(result, "nobody") is None


def test_offline_table() -> None:
    lines = tables.offline_table(results()["offline"]["rows"], "default").splitlines()
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == [
        "greedy",
        "8",
        "667",
        "667",
        "400",
        "111",
        "1.50 (1.00-2.00)",
        "default ISA, 2x1",
        "75 %",
    ]
    assert len(lines) == 3


def test_a_server_that_did_not_answer_is_not_left_out() -> None:
    found = results()["http"]["models"]["base"]
    lines = tables.http_table(found, "open").splitlines()
    assert "| CTranslate2, no batching | 450 | 900 | 900 | 5 |" in lines[4]
    found["loads"]["open 10.5"]["CTranslate2, no batching"].pop()
    assert "none answered | none answered | none answered | 3 |" in tables.http_table(found, "open")


def test_targets() -> None:
    found = {what: (target, measured, met) for what, target, measured, met in targets(results())}
    assert found["base-greedy-64, tokens/s against CTranslate2"] == (
        "at least 1.25 x",
        "1.40 (1.30-1.50)",
        "yes",
    )
    assert found["base-beam4-32, tokens/s against CTranslate2"][2] == "no"
    assert found["base-greedy-1, latency against CTranslate2"] == (
        "at most 0.5 x",
        "0.40 (0.40-0.40)",
        "yes",
    )
    assert found["base over HTTP, 64 clients, against the batcher: sentences/s"][1:] == (
        "2.00 (2.00-2.00)",
        "yes",
    )
    assert found["base: HTTP, tokenisation and scheduling at 64 clients"][1:] == (
        "7.5% (5.0%-10.0%) of our speed with 64 sentences under way without HTTP",
        "yes",
    )
    short = "base-greedy-64 with a shortlist (2,000 candidates a sentence, 17,000 a batch), tokens/s against"
    assert found[f"{short} CTranslate2 with vmap"] == ("none", "0.82 (0.75-0.90)", "")
    assert found[f"{short} ourselves without"][1:] == (
        "1.38 (1.25-1.50)",
        "yes",
    )
    assert found["base: p95 of short requests beside a document of 200 sentences"] == (
        "at most 3 x unloaded",
        "4.00 (3.50-4.50)",
        "no",
    )


def test_a_peer_that_answered_nothing_leaves_nothing_to_compare(page: Path) -> None:
    found = results()
    loads = found["http"]["models"]["base"]["loads"]
    loads["closed 64"]["CTranslate2, batcher"] = [load(0.0, None, failures=9)] * 2
    loads["array 500"]["CTranslate2, batcher"] = [math.nan, 3.0]
    loads["array 500"]["CTranslate2, no batching"] = [math.nan, math.nan]
    write_page(page, found)
    written = contents(found)
    assert "64 clients, against the batcher" not in written["targets"]
    assert (
        "| base | CTranslate2, batcher | 3.00 (3.00-3.00) 1 failed | 1.36 (1.36-1.36) |" in written["array"]
    )
    assert "| base | CTranslate2, no batching |  2 failed | none answered |" in written["array"]


def test_our_own_failures_are_among_the_losses() -> None:
    found = results()
    loads = found["http"]["models"]["base"]["loads"]
    loads["open 10.5"]["dragoman"][0] = load(None, 50.0, failures=4)
    loads["array 500"]["dragoman"][1] = math.nan
    lines = losses(found).splitlines()
    assert "- base, open 10.5: 4 of our requests failed." in lines
    assert "- base, array 500: 1 of our requests failed." in lines


@pytest.mark.parametrize("offline", ["in_flight_words_per_s", "offline_words_per_s"])
def test_no_overhead_without_its_two_measurements(offline: str) -> None:
    model = results()["http"]["models"]["base"]
    assert overhead(model, offline) is not None
    del model["served_words_per_s"]
    assert overhead(model, offline) is None
    model = results()["http"]["models"]["base"]
    del model[offline]
    assert overhead(model, offline) is None


def test_losses_name_every_comparison_that_is_lost_and_no_other() -> None:
    text = losses(results())
    for lost in (
        "- base-beam4-32: 0.85 (0.80-0.90) x CTranslate2's tokens/s.",
        "- base: time to load 0.50 s against 0.25 of CTranslate2.",
        "- base, open 10.5, against CTranslate2, batcher: 1.23 (1.20-1.25) x its p95.",
        "- base-greedy-64 wide shortlist: 0.82 (0.75-0.90) x the tokens/s of CTranslate2 with its map.",
        "- Target missed: base-beam4-32, tokens/s against CTranslate2: 0.85 (0.80-0.90) (at least 1.2 x).",
    ):
        assert lost in text.splitlines()
    for won in ("base-greedy-64:", "base-greedy-1:", "closed 64", "array", "peak memory", "no batching"):
        assert won not in text


def test_who_loses_nothing_says_so() -> None:
    assert losses(
        {"offline": {"rows": {"base-greedy-64": results()["offline"]["rows"]["base-greedy-64"]}}}
    ) == ("Nowhere in what was measured.")
