"""Dashboard, alerts and docs name only metrics that a running server answers; the docs name all of those."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from server.service.clients.api_keys import ClientLimits, key_line
from tests.support.server_process import serving

WITH_PROMTOOL = pytest.mark.skipif(
    not shutil.which("promtool") and "CI" not in os.environ, reason="promtool is not installed"
)
METRIC = re.compile(r"(?<![.\w])(?:dragoman|process|python)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"\b((?:dragoman|process|python)_[a-z0-9_]+)(?:\{([^}]*)\})?")
RECORDED = re.compile(r"\b(?:job|instance):[\w:]+")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
DOCUMENTED = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
# What Prometheus adds to each series of a target, and what a histogram's buckets carry.
TARGET_LABELS = {"job", "instance", "le"}
DATASOURCE = "dragoman-prometheus"


@pytest.fixture(scope="module")
def scrape(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The text of `/metrics` of a real server with an API key that has translated one sentence."""
    directory = tmp_path_factory.mktemp("server")
    keys = directory / "keys"
    keys.write_text(key_line("weblate", "dgm_key", ClientLimits()))
    with serving(tiny_bundle, directory / "log", api_keys_file=keys) as server:
        fields = {"q": "the cat sees a bird.", "source": "en", "target": "de", "api_key": "dgm_key"}
        assert httpx.post(f"{server.url}/translate", data=fields, timeout=30).status_code == 200
        yield httpx.get(f"{server.url}/metrics", timeout=10).text


@pytest.fixture(scope="module")
def series(scrape: str) -> dict[str, set[str]]:
    """Label names of every series, by the series' full name (`..._total`, `..._bucket`)."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def families(scrape: str) -> dict[str, tuple[str, set[str]]]:
    """Type and label names of every `dragoman_` family, by its name in the docs."""
    found = {}
    for family in text_string_to_metric_families(scrape):
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("dragoman_"):
            found[name] = (family.type, labels)
    return found


def dashboards(root: Path) -> dict[str, dict[str, Any]]:
    paths = sorted((root / "deploy/grafana/dashboards").glob("*.json"))
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def panel_queries(root: Path) -> list[tuple[str, str]]:
    """(where, expression) of every target of every panel."""
    return [
        (f"{name}: {panel['title']}", target["expr"])
        for name, dashboard in dashboards(root).items()
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]


def rules(root: Path) -> list[dict[str, Any]]:
    text = (root / "deploy/prometheus/dragoman.rules.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def unknown_series(expression: str, series: dict[str, set[str]]) -> list[str]:
    """Series and labels of an expression that no scrape has."""
    wrong = []
    for name, matchers in SELECTOR.findall(RECORDED.sub("", expression)):
        if name not in series:
            wrong.append(name)
        else:
            wrong += [
                f"{name}{{{label}}}"
                for label in LABEL.findall(matchers)
                if label not in series[name] | TARGET_LABELS
            ]
    return wrong


def test_panels_query_what_exists(repository: Path, series: dict[str, set[str]]) -> None:
    wrong = {where: unknown_series(expression, series) for where, expression in panel_queries(repository)}
    assert {where: names for where, names in wrong.items() if names} == {}
    assert len(wrong) > 20


def test_rules_query_what_exists(repository: Path, series: dict[str, set[str]]) -> None:
    wrong = {
        rule.get("alert") or rule["record"]: unknown_series(rule["expr"], series)
        for rule in rules(repository)
    }
    assert {name: names for name, names in wrong.items() if names} == {}


def test_rules_match_values_that_exist(repository: Path, scrape: str) -> None:
    """A misspelt value matches nothing, and an alert on nothing never rings."""
    values: dict[tuple[str, str], set[str]] = {}
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            for label, value in sample.labels.items():
                values.setdefault((sample.name, label), set()).add(value)
    wrong = [
        f"{name}{{{label}{operator}{value!r}}}"
        for rule in rules(repository)
        for name, matchers in SELECTOR.findall(RECORDED.sub("", rule["expr"]))
        for label, operator, value in MATCHER.findall(matchers)
        if label != "job"
        and not any(
            re.fullmatch(value, found) if operator.endswith("~") else value == found
            for found in values.get((name, label), ())
        )
    ]
    assert wrong == []


def test_docs_list_exactly_the_families(repository: Path, families: dict[str, tuple[str, set[str]]]) -> None:
    text = (repository / "docs/metrics.md").read_text(encoding="utf-8")
    documented = {
        name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels in DOCUMENTED.findall(text)
    }
    assert documented == families


def test_docs_name_only_what_exists(
    repository: Path, series: dict[str, set[str]], families: dict[str, tuple[str, set[str]]]
) -> None:
    pages = [repository / "README.md", *sorted((repository / "docs").rglob("*.md"))]
    for page in pages:
        named = {name for name in METRIC.findall(page.read_text(encoding="utf-8")) if name[-1] != "_"}
        assert named - set(series) - set(families) == set(), page.name


def test_every_family_is_watched(repository: Path, families: dict[str, tuple[str, set[str]]]) -> None:
    """A metric that is on no panel and in no rule is one that nobody looks at."""
    text = " ".join(expression for _, expression in panel_queries(repository))
    text += " ".join(rule["expr"] for rule in rules(repository))
    assert [name for name in families if name not in text] == []


def test_dashboards_are_well_formed(repository: Path) -> None:
    assert list(dashboards(repository)) == ["engine.json", "models.json", "service.json"]
    assert len({dashboard["uid"] for dashboard in dashboards(repository).values()}) == 3
    for name, dashboard in dashboards(repository).items():
        assert dashboard["editable"] is False, name
        assert dashboard["tags"] == ["dragoman"]
        assert [link["tags"] for link in dashboard["links"]] == [["dragoman"]]  # each links to the others
        panels = dashboard["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels), name
        cells = [
            (x, y)
            for panel in panels
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells)), f"{name}: panels overlap"
        assert max(x for x, _ in cells) < 24, name
        for panel in panels:
            if panel["type"] != "row":
                assert panel["datasource"]["uid"] == DATASOURCE, panel["title"]
                assert panel["description"], panel["title"]
                assert all(target["datasource"]["uid"] == DATASOURCE for target in panel["targets"])


def test_the_datasource_is_provisioned(repository: Path) -> None:
    path = repository / "deploy/grafana/provisioning/datasources/prometheus.yml"
    sources = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    assert [source["uid"] for source in sources] == [DATASOURCE]


@WITH_PROMTOOL
def test_promtool_finds_no_fault_with_the_metrics(scrape: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scrape,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
