"""How commands end: the exit codes, and the one line that says what went wrong. Imports nothing heavy."""

import contextlib
import os
import sys

from server.errors import GlossaryRefusedError, InvalidRequestError, SettingError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BAD_BUNDLE = 3
EXIT_WORKERS_LOST = 4
EXIT_INTERRUPTED = 130

EXIT_CODES = {
    0: "done; for serve: drained after SIGTERM or Ctrl-C",
    EXIT_FAILED: "the work failed, or a quality gate refused the result",
    EXIT_USAGE: "wrong usage or setting",
    EXIT_BAD_BUNDLE: "a bundle was refused, or at a reload a glossary",
    EXIT_WORKERS_LOST: "serve: engine workers were lost and cannot be replaced",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C",
}


def fail(command: str, code: int, message: str) -> int:
    """Say in one line on standard error why a command ends; gives the exit code.

    Args:
        command: its name, as `serve`; empty for the command line as a whole.
        code: the exit code.
        message: what went wrong, where, and if it is known how to mend it.
    """
    name = f"dragoman {command}".rstrip()
    print(f"{name}: {message}".replace("\n", " "), file=sys.stderr)  # noqa: T201 - this is the command line
    return code


def code_of(error: Exception) -> int:
    """Tell what was asked for wrongly from work that failed."""
    wrong = isinstance(error, InvalidRequestError | SettingError | GlossaryRefusedError)
    return EXIT_USAGE if wrong else EXIT_FAILED


def show(command: str, text: str) -> int:
    """Write what a command found to standard output, now, while it can still be said if that fails.

    The text has the end of its last line. Gives the exit code.
    """
    if sys.stdout is None:
        return fail(command, EXIT_FAILED, "standard output is closed: give > FILE")
    try:
        print(text, end="", flush=True)  # noqa: T201 - this is the command line
    except OSError as error:
        return fail_at_stream(command, error)
    return 0


def fail_at_stream(command: str, error: OSError) -> int:
    """Say that standard input or output fails. A reader that has had enough, as `head`, is no failure."""
    discard_output()
    if isinstance(error, BrokenPipeError):
        return 0
    return fail(command, EXIT_FAILED, f"standard input or output: {error.strerror or error}")


def discard_output() -> None:
    """Point standard output at nothing, or the interpreter's last flush complains about what it is at."""
    with contextlib.suppress(OSError, AttributeError):  # it may be closed, and None
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
