"""The commit-msg hook, run by git itself."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SUBJECT = "Say what the change does"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """An empty repository whose commit-msg hook is ours."""
    root = tmp_path_factory.mktemp("checkout")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    hook = root / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    script = shlex.join([sys.executable, str(repository / ".ci/check_commit_message.py")])
    hook.write_text(f'#!/bin/sh\nexec {script} "$1"\n')
    hook.chmod(0o755)
    return root


def commit(checkout: Path, message: str) -> subprocess.CompletedProcess[str]:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.hooksPath=.git/hooks")
    command = ["git", *author, "commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "-F", "-"]
    return subprocess.run(command, cwd=checkout, input=message, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    [
        f"{SUBJECT}\n\nBecause.\n",
        f"{'x' * 72}\n\nBecause.\n\nTwo paragraphs.\n",
        f"# a comment\n{SUBJECT}\n\nBecause.\n# ------------------------ >8 ------\ndiff\n",
        f"fixup! {'x' * 80}\n",
    ],
)
def test_a_subject_and_a_body_pass(checkout: Path, message: str) -> None:
    done = commit(checkout, message)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("# only a comment\n", "the message is empty"),
        (f"{'x' * 73}\n\nBecause.\n", "the subject has 73 characters; at most 72"),
        (f"{SUBJECT}\n", "there is no body; say why after a blank line"),
        (f"{SUBJECT}\n\n# a comment is no body\n", "there is no body; say why after a blank line"),
        (f"{SUBJECT}\nBecause.\n", "the second line must be blank"),
    ],
)
def test_anything_else_is_refused(checkout: Path, message: str, said: str) -> None:
    done = commit(checkout, message)
    assert (done.returncode, done.stderr) == (1, f"commit message: {said}\n")
