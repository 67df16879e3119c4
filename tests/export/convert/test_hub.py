"""A name on the hub: the real command, the real library, and a hub on loopback."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint import load_checkpoint
from tests.export.fetch.hub import Hub
from tests.support.listening import listening

NAME = "Helsinki-NLP/opus-mt-en-de"
NEEDLESS = ("tf_model.h5", "rust_model.ot", "flax_model.msgpack", "run.py", ".gitattributes")
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def repository(original: Path, tmp_path: Path) -> Path:
    """With what repositories have besides, and nobody needs."""
    directory = Path(shutil.copytree(original, tmp_path / "repository"))
    for name in NEEDLESS:
        (directory / name).write_bytes(b"x" * 1000)
    return directory


def run_import(url: str, home: Path, name: str, *more: str) -> "subprocess.CompletedProcess[str]":
    """What the user types, with a hub and a cache of our own."""
    variables = os.environ | {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    variables = {key: value for key, value in variables.items() if key not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
    command = [sys.executable, "-m", "dragoman", "import", name, *more]
    return subprocess.run(
        command, env=variables, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )


def fetch(server: Hub, tmp_path: Path, name: str = NAME) -> "subprocess.CompletedProcess[str]":
    out = tmp_path / f"checkpoint-{len(list(tmp_path.iterdir()))}"
    return run_import(server.url, tmp_path / "home", name, "--as", "checkpoint", "--out", str(out))


def test_a_name_becomes_a_checkpoint_with_the_weights_of_the_hub(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "checkpoint"
    with listening(Hub(NAME, repository)) as server:
        done = run_import(server.url, tmp_path / "home", NAME, "--as", "checkpoint", "--out", str(out))
        assert done.returncode == 0, done.stderr
        assert f"fetching {NAME} from the Hugging Face hub" in done.stderr
        fetched = set(server.sent)
        assert "model.safetensors" in fetched
        assert not fetched & {
            "tf_model.h5",
            "rust_model.ot",
            "flax_model.msgpack",
            "run.py",
            ".gitattributes",
        }
        server.sent.clear()
        again = fetch(server, tmp_path)
        assert again.returncode == 0, again.stderr
        assert server.sent == []  # it is in the library's cache
    words = load_file(repository / "model.safetensors")["model.shared.weight"]
    ours = load_checkpoint(out).model.state_dict()
    assert any(tensor.shape == words.shape and torch.equal(tensor, words) for tensor in ours.values())


def test_a_repository_with_nothing_but_a_torch_file(repository: Path, tmp_path: Path) -> None:
    torch.save(load_file(repository / "model.safetensors"), repository / "pytorch_model.bin")
    (repository / "model.safetensors").unlink()
    with listening(Hub(NAME, repository)) as server:
        done = fetch(server, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pytorch_model.bin" in server.sent


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Helsinki-NLP/opus-mt-en-xx", "no repository on the hub; a private one needs HF_TOKEN"),
        (NAME, "its repository on the hub has no config.json"),
    ],
    ids=["no repository", "another kind"],
)
def test_one_line_says_why_it_fails(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "README.md").write_text("Nothing here yet.\n", encoding="ascii")
    with listening(Hub(NAME, tmp_path / "repository")) as server:
        done = fetch(server, tmp_path, name)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"dragoman import: {name}: {reason}")
    assert "Traceback" not in done.stderr


def test_without_a_network(tmp_path: Path) -> None:
    done = run_import(
        "http://127.0.0.1:9", tmp_path, NAME, "--as", "checkpoint", "--out", str(tmp_path / "out")
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"dragoman import: {NAME}: the hub cannot be asked: ")
    assert last.endswith("copy the directory here and give its path; HF_ENDPOINT names a mirror")
