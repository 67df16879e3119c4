"""How commands end: the exit codes, and the one line that says what went wrong. Imports nothing heavy."""

import sys

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
    """Say in one line on standard error why a command ends.

    Args:
        command: its name, as `serve`; empty for the command line as a whole.
        code: the exit code.
        message: what went wrong, where, and if it is known how to mend it.

    Returns:
        The exit code.
    """
    name = f"dragoman {command}".rstrip()
    print(f"{name}: {message}".replace("\n", " "), file=sys.stderr)  # noqa: T201 - this is the command line
    return code
