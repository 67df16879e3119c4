"""The alert rules: each is tested both ways, explained to the operator, and is what Prometheus loads."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

WITH_PROMTOOL = pytest.mark.skipif(
    not shutil.which("promtool") and "CI" not in os.environ, reason="promtool is not installed"
)
RULES = Path("deploy/prometheus/dragoman.rules.yml")
TESTS = Path("deploy/prometheus/dragoman.rules.test.yml")
CONFIGURATION = Path("deploy/prometheus/prometheus.yml")
RECORDED = re.compile(r"\b(?:job|instance):[\w:]+")
FIRING = re.compile(r'ALERTS\{alertname="(\w+)",alertstate="firing"\}')


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules(root: Path, kind: str) -> list[dict[str, Any]]:
    """All rules that are an `alert` or a `record`."""
    return [rule for group in read(root / RULES)["groups"] for rule in group["rules"] if kind in rule]


@pytest.fixture(scope="module")
def alerts(repository: Path) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules(repository, "alert")}


def test_each_alert_is_seen_firing_and_silent(repository: Path, alerts: dict[str, dict[str, Any]]) -> None:
    seen = {
        (FIRING.findall(check["expr"])[0], bool(check["exp_samples"]))
        for scenario in read(repository / TESTS)["tests"]
        for check in scenario["promql_expr_test"]
        if FIRING.search(check["expr"])
    }
    assert seen == {(name, fires) for name in alerts for fires in (True, False)}


def test_each_alert_says_how_urgent_it_is(alerts: dict[str, dict[str, Any]]) -> None:
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert rule["annotations"]["summary"], name


def test_each_alert_has_a_paragraph_that_says_what_to_do(
    repository: Path, alerts: dict[str, dict[str, Any]]
) -> None:
    page = (repository / "docs/operations.md").read_text(encoding="utf-8")
    section = page.partition("## When it rings")[2].partition("\n## ")[0]
    paragraphs = dict(re.findall(r"^\*\*(Dragoman\w+)\*\*((?:.+\n)+)", section, re.MULTILINE))
    assert list(paragraphs) == list(alerts)
    assert [name for name, text in paragraphs.items() if len(text) < 80] == []
    assert set(re.findall(r"\bDragoman[A-Z]\w+", page)) <= set(alerts)


def test_recording_rules_and_their_users_agree(repository: Path) -> None:
    recorded = {rule["record"] for rule in rules(repository, "record")}
    used = {name for rule in rules(repository, "alert") for name in RECORDED.findall(rule["expr"])}
    assert used == recorded


def test_compose_gives_the_rules_to_prometheus(repository: Path) -> None:
    service = read(repository / "docker-compose.yml")["services"]["prometheus"]
    (configured,) = (word for word in service["command"] if word.startswith("--config.file="))
    where = Path(configured.partition("=")[2])
    mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert mounted[f"./{CONFIGURATION.parent}"] == str(where.parent)
    assert where.name == CONFIGURATION.name
    assert read(repository / CONFIGURATION)["rule_files"] == [RULES.name]


@WITH_PROMTOOL
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", CONFIGURATION.name),
        ("check", "rules", RULES.name),
        ("test", "rules", TESTS.name),
    ],
    ids=" ".join,
)
def test_promtool_agrees(repository: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=repository / RULES.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
