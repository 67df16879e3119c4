"""The command line's one voice: grouped help, `--version`, one line for every error of usage, and the end."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from server.cli.exit_codes import EXIT_CODES, fail

GROUPS = TRAIN, CONVERT, SERVE, MEASURE = ("Train", "Bring in and out", "Serve", "Measure")
EXIT_CODES_HELP = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {text}" for code, text in EXIT_CODES.items())


class CommandLine(TyperGroup):
    """The group of all commands. Made by typer, once."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command and end the process with its exit code."""
        given = list(sys.argv[1:] if args is None else args)
        options |= {"prog_name": "dragoman", "standalone_mode": False}
        try:
            code = super().main(given, *rest, **options)
        except typer.TyperException as error:
            code = _report(given[0] if given and given[0] in self.commands else "", error)
        sys.exit(code)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the commands in their groups; every command names its group as its help panel."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        width = formatter.width - 6 - max(map(len, self.commands))
        for name, command in self.commands.items():
            group = cast(Any, command).rich_help_panel
            groups[group].append((name, command.get_short_help_str(width)))
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)


def _report(command: str, error: Any) -> int:
    """Say in one line what is wrong with the arguments, and give the exit code."""
    said = str(error.format_message())
    said = said[:1].lower() + said[1:]
    if not said.endswith("?"):  # "Did you mean ...?" is a remedy already
        said = f"{said.rstrip('.')}; see {f'dragoman {command}'.rstrip()} --help"
    return fail(command, int(error.exit_code), said)


def run(app: Callable[[], object]) -> None:
    """Run a command line and end the process with its exit code.

    A thread of ours that a command leaves behind stands where nothing can stop it: it reads an input that is
    still open, or loads a model. Python before 3.14 unwinds such threads as it ends, which inside a native
    library is an abort; so with one left, the process ends here.
    """
    try:
        app()
    except SystemExit as end:
        if not any(thread.name.startswith("dragoman-") for thread in threading.enumerate()):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
