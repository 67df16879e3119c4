"""Settings from the flags of a command and the environment."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from server.cli.exit_codes import EXIT_USAGE, fail
from server.settings import Settings


def read_settings(command: str, flags: Mapping[str, Any]) -> Settings | None:
    """Read the settings, and say what is wrong with them; None if they cannot be used.

    Args:
        command: its name, for errors.
        flags: settings given on the command line; None where a flag was not given.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in problem["loc"])
            fail(command, EXIT_USAGE, f"setting {name}: {problem['msg'].removeprefix('Value error, ')}")
        return None
