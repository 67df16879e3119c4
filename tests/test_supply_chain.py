"""What the image is made of is pinned, listed and can be looked up."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)((?: ;[^\\\n]+)?) \\$", re.MULTILINE)
CYCLONEDX = Path(sys.executable).with_name("cyclonedx-py")  # beside this Python, on the path or not
DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize("runtime", ["cpu", "gpu", "build"])
def test_every_requirement_has_a_version_and_hashes(repository: Path, runtime: str) -> None:
    text = (repository / f"deploy/requirements/{runtime}.txt").read_text()
    entries = re.split(r"\n(?=[a-z])", text.strip())
    for entry in entries:
        assert LOCKED.match(entry + "\n"), entry.splitlines()[0]
        assert entry.count("--hash=sha256:") >= 1


def test_images_have_tags_that_can_be_pinned(repository: Path) -> None:
    compose = (repository / "docker-compose.yml").read_text()
    images = re.findall(r"^ +(?:image|PYTHON_IMAGE): (.+)$", compose, re.MULTILINE)
    assert len(images) == 5
    for image in images:
        assert re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[a-z/]+:[\w.-]+\}", image), image
    dockerfile = (repository / "Dockerfile").read_text()
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", dockerfile, re.MULTILINE)
    assert f"${{PYTHON_IMAGE:-{default}}}" in compose
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}


def test_the_build_context_has_what_the_image_copies(repository: Path) -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (repository / "Dockerfile").read_text(), re.MULTILINE)
    sources = {source.rstrip("/") for line in copied for source in line.split()}
    ignored = (repository / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == sources
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert {package.partition(".")[0] for package in project["tool"]["setuptools"]["packages"]} <= sources


def test_what_the_server_needs_is_locked(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    for runtime in ("cpu", "gpu"):
        locked = {
            name
            for name, *_ in LOCKED.findall((repository / f"deploy/requirements/{runtime}.txt").read_text())
        }
        wanted = [*project["dependencies"], *project["optional-dependencies"][runtime]]
        assert {re.split(r"[^\w.-]", one)[0].lower() for one in wanted} <= locked


def make(directory: Path, engine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "DOCKER": str(engine)}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=directory, env=variables, capture_output=True, text=True, timeout=60, check=False
    )


def staged(repository: Path, directory: Path) -> Path:
    """Give a directory what `make pin` needs, and an engine that knows one digest."""
    for name in ("Makefile", "docker-compose.yml"):
        shutil.copy(repository / name, directory)
    engine = directory / "engine"
    engine.write_text(f"#!/bin/sh\necho {DIGEST}\n")
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    return engine


def test_digests_are_written_where_compose_and_make_look(repository: Path, tmp_path: Path) -> None:
    """The engine is a script here: which digest a tag has, only a registry knows."""
    engine = staged(repository, tmp_path)
    done = make(tmp_path, engine, "pin")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / ".env").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines]
    assert names == ["GRAFANA_IMAGE", "NGINX_IMAGE", "PROMETHEUS_IMAGE", "PYTHON_IMAGE"]
    assert all(line.endswith(f"@{DIGEST}") for line in lines)
    build = make(tmp_path, engine, "--dry-run", "image")
    assert f'--build-arg PYTHON_IMAGE="python:3.12-slim@{DIGEST}"' in build.stdout
    engine.write_text("#!/bin/sh\nexit 1\n")
    assert make(tmp_path, engine, "pin").returncode != 0
    assert (tmp_path / ".env").read_text().splitlines() == lines


def test_pinning_leaves_what_else_the_operator_wrote(repository: Path, tmp_path: Path) -> None:
    engine = staged(repository, tmp_path)
    own = "# ours\nDRAGOMAN_CPUS=8\nDRAGOMAN_IMAGE=dragoman:ours\nREDIS_IMAGE=redis:7"
    (tmp_path / "secrets").write_text(f"NGINX_IMAGE=nginx@sha256:old\n{own}")
    (tmp_path / "secrets").chmod(0o600)
    (tmp_path / ".env").symlink_to("secrets")
    for _ in range(2):
        done = make(tmp_path, engine, "pin")
        assert done.returncode == 0, done.stderr
        kept, new = (tmp_path / "secrets").read_text().split("\nGRAFANA_IMAGE=")
        assert kept == own
        assert new.count(DIGEST) == 4
        assert "old" not in new
        assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not CYCLONEDX.exists(), reason="cyclonedx-bom is not installed (make sbom)")
def test_the_bill_of_materials_lists_what_is_locked(repository: Path, tmp_path: Path) -> None:
    locked = repository / "deploy/requirements/cpu.txt"
    out = tmp_path / "sbom.json"
    command = [CYCLONEDX, "requirements", str(locked), "--output-reproducible", "--of", "JSON"]
    subprocess.run([*command, "--output-file", str(out)], check=True, timeout=60, capture_output=True)
    bill = json.loads(out.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {(part["name"], part["version"]) for part in bill["components"]}
    assert listed == {(name, version) for name, version, _ in LOCKED.findall(locked.read_text())}
