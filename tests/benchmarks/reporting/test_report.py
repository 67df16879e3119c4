"""From results to the page: tables, targets, what is lost, markers and pictures."""

import math
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.report import HTTP_PLOT, OFFLINE_PLOT, contents, write_page
from benchmarks.reporting import tables
from benchmarks.reporting.losses import losses
from benchmarks.reporting.targets import overhead, targets
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
    rows = results()["offline"]["rows"]
    lines = tables.offline_table(rows | {"default-greedy-16": rows["default-greedy-8"]}).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| base", "greedy"],
        ["| ", "beam 4"],
        ["| default (test.en.gz)", "greedy"],
        ["| ", "greedy"],
    ]
    cells = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert cells[1:] == [
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


def test_a_process_has_its_latency_load_time_and_memory_in_one_row() -> None:
    offline = results()["offline"]
    written = tables.process_table(offline["rows"], offline["systems"])
    expected = "| base | 33.3/83.3/750.0 | 0.40 (0.40-0.40) | 0.50/0.50/0.25/0.50 | 200/200/200/200 |"
    assert written.splitlines()[-1] == expected


def test_a_shortlist_has_one_row() -> None:
    row = tables.shortlist_table(results()["shortlist"]["rows"]).splitlines()[-1]
    ours, theirs = "667 | 909 (17,000) | 1.38 (1.25-1.50)", "500 | 1,111 (9,000) | 2.22 (2.22-2.22)"
    assert row == f"| base-greedy-64 | 2,000 | {ours} | {theirs} | 0.82 (0.75-0.90) | AVX2, 2x1 |"


def test_the_roofline_tells_what_was_reached() -> None:
    written = tables.roofline_table(results()["roofline"])
    assert "| base | 35.0 M | 47 % | 20.0 M | 250 of 500 (50 %) |" in written


def test_http_tables_have_a_row_for_each_load() -> None:
    models = results()["http"]["models"]
    lines = tables.http_table(models, "closed").splitlines()
    served = "42.0 | 48/95/95 | 21.0 | 95/190/190 | 10.5 | 195/390/390 | 2.00 (2.00-2.00) |"
    assert lines[2:] == [f"| base | 16 | {served}", f"| base | 64 | {served}"]


def test_a_server_that_did_not_answer_is_not_left_out() -> None:
    models = results()["http"]["models"]
    line = tables.http_table(models, "open").splitlines()[2]
    assert line == "| base | 10.5 | 28/55/55 | 22/45/45 | 450/900/900, 5 failed |"
    models["base"]["loads"]["open 10.5"]["CTranslate2, no batching"].pop()
    assert "| none answered, 3 failed |" in tables.http_table(models, "open")


def test_targets() -> None:
    found = {what: (target, measured, met) for what, target, measured, met in targets(results())}
    assert found["base-greedy-64: tokens/s, dragoman / CTranslate2"] == (
        "at least 1.25 x",
        "1.40 (1.30-1.50)",
        "yes",
    )
    assert found["base-beam4-32: tokens/s, dragoman / CTranslate2"][2] == "no"
    assert found["base-greedy-1: latency, dragoman / CTranslate2"] == (
        "at most 0.5 x",
        "0.40 (0.40-0.40)",
        "yes",
    )
    assert found["base, HTTP, 64 clients: sentences/s and p95, dragoman / batcher"] == (
        "at least 1.5 x, below 1 x",
        "2.00 (2.00-2.00), 0.50 (0.50-0.50)",
        "yes",
    )
    assert found["base, HTTP, 64 clients: overhead, same concurrency"][1:] == ("7.5% (5.0%-10.0%)", "yes")
    assert found["base, HTTP, 64 clients: overhead, against one call"][0] == "none"
    short = "base-greedy-64, shortlist of 2,000: tokens/s,"
    assert found[f"{short} with / without"][1:] == (
        "1.38 (1.25-1.50)",
        "yes",
    )
    assert found["base: p95 of short requests beside a document / alone"] == (
        "at most 3 x",
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
    assert "64 clients: sentences/s" not in written["targets"]
    assert written["array"].endswith(
        "| 3.00 (3.00-3.00) 1 failed |  2 failed | 1.36 (1.36-1.36) | none answered | 100/100/100 |"
    )


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
    assert losses(results()).splitlines() == [
        "- base, tokens/s relative to CTranslate2: beam4-32 0.85 (0.80-0.90).",
        "- base, one process against CTranslate2: time to load 0.50 s against 0.25.",
        "- base, open 10.5, relative to CTranslate2, batcher: p50 1.23 (1.20-1.25), p95 1.23 (1.20-1.25), "
        "p99 1.23 (1.20-1.25).",
        "- shortlist, tokens/s relative to CTranslate2 with its vmap: base-greedy-64 narrow 0.82 "
        "(0.75-0.90).",
    ]


def test_who_loses_nothing_says_so() -> None:
    assert losses(
        {"offline": {"rows": {"base-greedy-64": results()["offline"]["rows"]["base-greedy-64"]}}}
    ) == ("Nowhere in what was measured.")
