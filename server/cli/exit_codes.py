"""How commands begin and end: settings from flags, exit codes, and the one line that says what went wrong."""

import sys
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from server.settings import Settings

EXIT_FAILED = 1
EXIT_USAGE = 2
"""Wrong usage or settings."""
EXIT_BAD_BUNDLE = 3
"""The bundle is refused."""
EXIT_INTERRUPTED = 130


def read_settings(flags: Mapping[str, Any]) -> Settings | None:
    """Read the settings, and say what is wrong with them.

    Args:
        flags: settings given on the command line; None where a flag was not given.

    Returns:
        The settings; None if they cannot be used.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in problem["loc"])
            fail(EXIT_USAGE, f"setting {name}: {problem['msg']}")
        return None


def fail(code: int, message: str) -> int:
    """Say in one line on standard error why a command ends.

    Args:
        code: the exit code.
        message: what went wrong.

    Returns:
        The exit code.
    """
    print(f"dragoman: {message}".replace("\n", " "), file=sys.stderr)  # noqa: T201 - this is the command line
    return code
