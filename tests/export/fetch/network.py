"""`dragoman pull` as a user types it, with a home directory without anything in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from export.cli import run_pull
from export.convert.vocabularies.vocabulary import ImportNames
from export.pipeline import ExportOptions
from tests.export.fetch.hub import Hub
from tests.export.fetch.mirror import Mirror

NOWHERE = "http://127.0.0.1:9"
REPOSITORY = Path(__file__).resolve().parents[3]


class Network:
    """Both servers, and a home directory without anything in it."""

    def __init__(self, hub: Hub, mirror: Mirror, home: Path) -> None:
        self.hub, self.mirror, self.home = hub, mirror, home
        self.hub_url = hub.url
        self.index_url = self.firefox_url = mirror.url

    def pull(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        variables = {
            key: value for key, value in os.environ.items() if key not in ("HF_HUB_OFFLINE", "HF_TOKEN")
        }
        variables |= {
            "HF_ENDPOINT": self.hub_url,
            "HF_HOME": str(self.home / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        variables |= {"ARGOS_PACKAGE_INDEX": self.index_url, "XDG_CACHE_HOME": str(self.home / "cache")}
        variables["FIREFOX_SETTINGS_SERVER"] = self.firefox_url
        command = [sys.executable, "-m", "dragoman", "pull", *map(str, arguments)]
        return subprocess.run(
            command, env=variables, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False
        )

    def fails(self, *arguments: object) -> str:
        """Give the line of a command that must fail with one."""
        done = self.pull(*arguments, "--out", self.home / "out", "--as", "checkpoint")
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert not (self.home / "out").exists()
        return done.stderr.splitlines()[-1]

    def pull_here(
        self, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> tuple[int, str]:
        """Fetch a checkpoint in this process, from elsewhere than the hub; exit code and standard error."""
        monkeypatch.setenv("ARGOS_PACKAGE_INDEX", self.index_url)
        monkeypatch.setenv("FIREFOX_SETTINGS_SERVER", self.firefox_url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.home / "cache"))
        code = run_pull(name, self.home / "out", "checkpoint", ImportNames(), ExportOptions())
        return code, capsys.readouterr().err

    def fails_here(
        self, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> str:
        """Give the line of one that must fail with one."""
        code, errors = self.pull_here(name, capsys, monkeypatch)
        assert code == 1
        assert not (self.home / "out").exists()
        return errors.splitlines()[-1]
