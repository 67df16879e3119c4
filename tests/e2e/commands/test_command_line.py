"""The real command line: one form of error, one set of exit codes, grouped help."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import dragoman
import export.cli
from server.cli.exit_codes import EXIT_BAD_BUNDLE, EXIT_CODES, EXIT_FAILED


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["nonsense"], 2, "dragoman: no such command 'nonsense'; see dragoman --help"),
        (["serv"], 2, "dragoman: no such command 'serv'. Did you mean 'serve'\\?"),
        (["--nonsense"], 2, "dragoman: no such option: --nonsense; see dragoman --help"),
        (["train"], 2, "dragoman train: missing argument 'recipe'; see dragoman train --help"),
        (["serve", "--port"], 2, "dragoman serve: option '--port' requires .*; see dragoman serve --help"),
        (
            ["serve", "--port", "x"],
            2,
            "dragoman serve: invalid value for '--port': .*; see dragoman serve --help",
        ),
        (
            ["serve", "--cache", "3q"],
            2,
            "dragoman serve: setting cache_bytes: unknown unit 'q'; known are B, .*",
        ),
        (
            ["bench-http", "x", "--timeout", "3q"],
            2,
            "dragoman bench-http: .*'--timeout': 3q: unknown unit .*",
        ),
        (
            ["serve", "missing"],
            3,
            "dragoman serve: cannot load bundle missing: missing: no such bundle directory",
        ),
        (["translate", "missing"], 3, "dragoman translate: cannot load bundle missing: .*"),
        (["reload"], 2, "dragoman reload: which server\\? give --admin-port, or .*"),
        (["api-key", "a b"], 1, "dragoman api-key: .*"),
        (
            ["api-key", "a", "--characters-per-day", "1000000000000"],
            2,
            "dragoman api-key: invalid value for '--characters-per-day': .* or equal to 999999999999; .*",
        ),
        (
            ["export", "m", "--out", "x", "--card-notes", "missing"],
            2,
            "dragoman export: invalid value for '--card-notes': missing: cannot be read: .*",
        ),
        (
            ["import", "m", "--out", "x", "--card-notes", sys.executable],
            2,
            "dragoman import: invalid value for '--card-notes': .*: cannot be read: 'utf-8' codec .*",
        ),
        (["train", "missing.toml"], 1, "dragoman train: .*missing.toml.*"),
        (["average", "missing", "--out", "x"], 1, "dragoman average: .*"),
        (["corpus", "missing", "--out", "x"], 1, "dragoman corpus: missing: .*"),
        (["distill", "missing", "--reference", "x"], 1, "dragoman distill: missing: .*"),
        (
            ["evaluate", "m", "--source", "missing", "--reference", "x"],
            1,
            "dragoman evaluate: m/config.json: .*",
        ),
    ],
)
def test_an_error_is_one_line_that_names_its_command(arguments: list[str], code: int, line: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch(line + "\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arguments", "streams", "said"),
    [
        (["api-key", "a"], ">/dev/full", "standard input or output: No space left on device"),
        (["translate", "BUNDLE"], ">/dev/full", "standard input or output: No space left on device"),
        (["translate", "BUNDLE"], "<&-", "standard input is closed: .*"),
        (["translate", "BUNDLE"], ">&-", "standard output is closed: .*"),
        (["api-key", "shop"], ">&-", "standard output is closed: .*"),
        (["explain", "BUNDLE", "x"], ">/dev/full", "standard input or output: No space left on device"),
    ],
)
def test_streams_that_fail_are_said_in_a_line(
    tiny_bundle: Path, arguments: list[str], streams: str, said: str
) -> None:
    given = [str(tiny_bundle) if one == "BUNDLE" else one for one in arguments]
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "dragoman", *given]
    done = subprocess.run(
        command, input="the cat.\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (EXIT_FAILED, "")
    assert re.fullmatch(f"dragoman {arguments[0]}: {said}", done.stderr.splitlines()[-1]), done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_bundle_has_the_same_code_wherever_it_is_met(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    text = tmp_path / "text"
    text.write_text("a line\n")
    files = ("--source", text, "--target", text)
    for arguments in (
        ("serve", tmp_path),
        ("translate", tmp_path),
        ("evaluate", tmp_path, "--source", text, "--reference", text),
        ("import", tmp_path, "--out", tmp_path / "out"),
        (
            "shortlist",
            tmp_path,
            "--out",
            tmp_path / "out",
            *files,
            "--dev-source",
            text,
            "--dev-target",
            text,
        ),
    ):
        done = run(*arguments)
        assert done.returncode == EXIT_BAD_BUNDLE, (arguments, done.stderr)
        assert re.match(rf"dragoman {arguments[0]}: .*manifest\.json: ", done.stderr), done.stderr
    assert (export.cli.EXIT_FAILED, export.cli.EXIT_BAD_BUNDLE) == (EXIT_FAILED, EXIT_BAD_BUNDLE)


@pytest.mark.parametrize("command", sorted(typer.main.get_group(dragoman.app).commands))
def test_help_is_for_people(command: str) -> None:
    """No type of Python's stands where a flag's values belong."""
    shown = CliRunner().invoke(dragoman.app, [command, "--help"])
    assert shown.exit_code == 0
    assert f" {command} " in shown.stdout.splitlines()[0]
    assert "typing." not in shown.stdout
    assert "object at 0x" not in shown.stdout


def test_durations_and_sizes_have_units(tiny_bundle: Path) -> None:
    done = run(
        *("serve", tiny_bundle, "--max-kv-cache", "1MiB", "--port", 0), DRAGOMAN_REQUEST_TIMEOUT_S="soon"
    )
    assert done.stderr.startswith("dragoman serve: setting request_timeout_s: ")
    done = run(
        "serve", tiny_bundle, "--cache", "1GiB", "--max-kv-cache-mib", "0", DRAGOMAN_KEEP_ALIVE_S="1.5min"
    )
    assert (
        done.stderr
        == "dragoman serve: setting max_kv_cache_mib: Input should be greater than or equal to 1\n"
    )


def test_help_shows_every_command_in_its_group_and_the_exit_codes() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("--help").stdout
    groups = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", done.stdout, re.MULTILINE))
    commands = {
        group: re.findall(r"^  ([a-z][a-z-]+)  ", rows, re.MULTILINE) for group, rows in groups.items()
    }
    assert commands["Train"] == ["train", "corpus", "average", "prune", "trim", "distill"]
    assert commands["Bring in and out"] == ["export", "import", "pull", "shortlist", "measure"]
    assert commands["Serve"] == ["serve", "reload", "api-key", "translate", "generate"]
    assert commands["Measure"] == ["evaluate", "bench-http", "explain"]
    assert sum(map(len, commands.values())) == len(dragoman.app.registered_commands)
    for code, meaning in EXIT_CODES.items():
        assert re.search(rf"^ +{code} +{re.escape(meaning)}$", done.stdout, re.MULTILINE)


def test_the_exit_codes_are_documented(repository: Path) -> None:
    text = (repository / "docs/operations.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE) == [
        (str(code), meaning) for code, meaning in EXIT_CODES.items()
    ]


def test_the_version_is_that_of_the_package() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"dragoman {metadata.version('dragoman')}\n")


_LEFT_BEHIND = """
import sys, threading
import dragoman
from sentencepiece import SentencePieceProcessor

processor, running = SentencePieceProcessor(model_file=sys.argv[1]), threading.Event()

def work():
    while True:
        running.set()
        processor.encode(["a line of the input"] * 2000)

def command():
    threading.Thread(target=work, name="dragoman-reader", daemon=True).start()
    running.wait()
    print("answered", end="")
    sys.exit(5)

dragoman.app = command
dragoman.main()
"""


def test_a_thread_that_a_command_leaves_in_a_library_does_not_abort_the_process(tiny_bundle: Path) -> None:
    command = [sys.executable, "-c", _LEFT_BEHIND, str(tiny_bundle / "source.spm")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (5, "answered", "")
