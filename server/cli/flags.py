"""Options of `dragoman serve` and `dragoman translate`; imports nothing heavy, for every `--help`."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_origin

import typer

from server.engine.options import OPTIONS, Option
from server.service.text.options import TEXT_OPTIONS
from server.units import in_seconds


def duration(given: object) -> float:
    """Read a duration, in seconds if it has no unit."""
    try:
        seconds = float(in_seconds(given))  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(f"{given}: {error}") from None
    if not 0 <= seconds < math.inf:
        raise typer.BadParameter(f"{given}: must be 0 or more")
    return seconds


def some_time(given: object) -> float:
    """Read a duration of at least a millisecond."""
    if (seconds := duration(given)) < 0.001:
        raise typer.BadParameter(f"{given}: must be at least 1ms")
    return seconds


def some_rate(given: object) -> float:
    """Read how often a second, at least once in a thousand of them."""
    try:
        rate = float(given)  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not 0.001 <= rate < math.inf:
        raise typer.BadParameter(f"{given}: must be a number of at least 0.001")
    return rate


NBest = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Write so many translations of each line, best first, as an n-best list: "
        "number ||| translation ||| score.",
        show_default="one, and nothing else",
    ),
]
ServedBundles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[BUNDLE]...",
        help="Bundles to serve, of different pairs, or a directory that holds them.",
        show_default="bundles",
    ),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        metavar="FILE",
        help="Terms and their translations, with a tab between; see docs/glossaries.md.",
        show_default="none",
    ),
]
ReloadTimeout = Annotated[
    float,
    typer.Option(
        parser=some_time, metavar="TIME", help="Wait so long for the outcome.", show_default="10min"
    ),
]
Progress = Annotated[
    bool | None, typer.Option(help="Draw a progress bar.", show_default="if standard error is a terminal")
]
SourceLanguage = Annotated[
    str | None, typer.Option(help="Language of the lines.", show_default="the bundle's first")
]
TargetLanguage = Annotated[
    str | None, typer.Option(help="Language to translate to.", show_default="the bundle's first")
]
LineErrors = Annotated[
    Literal["replace", "fail"],
    typer.Option(
        help="A line that is not UTF-8 is written as it is, with U+FFFD for what is no text, and named on "
        "standard error; or the run fails there."
    ),
]


class _Setting(NamedTuple):
    """A flag that stands for a setting: its type, its help, what holds without, other names than its own."""

    kind: type
    help: str
    default: str
    names: tuple[str, ...] = ()


_SETTINGS = {
    "host": _Setting(str, "Address to listen on.", "127.0.0.1"),
    "port": _Setting(int, "Port to listen on.", "8000"),
    "workers": _Setting(int, "Workers that translate side by side.", "one for each usable core"),
    "engine_processes": _Setting(
        bool, "Give every worker a process of its own instead of a thread.", "for a small model, and on CUDA"
    ),
    "device": _Setting(str, "auto, cpu or cuda.", "auto: a GPU if there is one and the bundle is fp16"),
    "max_rows": _Setting(
        int, "Sentences (beams) that a worker decodes at once.", "64, or what memory allows"
    ),
    "max_kv_cache_mib": _Setting(
        str,
        "Memory for keys and values: 2GiB; a plain number is MiB.",
        "2GiB",
        ("--max-kv-cache", "--max-kv-cache-mib"),
    ),
    "cache_bytes": _Setting(
        str, "Memory for translated sentences; 0 is none.", "64MiB", ("--cache", "--cache-bytes")
    ),
    "default_beam_size": _Setting(
        int, "Beam size of requests that do not choose one.", "the bundle's, or 1", ("--beam-size",)
    ),
    "shortlist": _Setting(
        bool, "Decode every sentence over its own candidate words.", "if the bundle has such"
    ),
    "pivot_language": _Setting(
        str, "Language through which pairs without a model go; none refuses them.", "en"
    ),
    "api_keys_file": _Setting(
        Path, "File of the API keys that requests need; see api-key.", "none needed", ("--api-keys",)
    ),
    "requests_per_minute": _Setting(int, "Requests a minute of each API key, or address.", "no limit"),
    "cors_origins": _Setting(
        str, "Origins whose pages may use the server, with commas between; * is any.", "none"
    ),
    "admin_port": _Setting(
        int, "Port for /admin/status, /admin/reload and /admin/drain, on 127.0.0.1.", "none"
    ),
    "guard": _Setting(str, "What is done about suspicious translations: off, flag or mend.", "mend"),
    "glossaries": _Setting(
        Path, "Folder of glossaries that requests may name: NAME.SOURCE-TARGET.tsv.", "none"
    ),
    "log_level": _Setting(str, "debug, info, warning or error.", "info"),
}
"""By the name of the setting."""

OF_SERVE = tuple(_SETTINGS)

_WORDS = {"false": False, "true": True}


def with_flags(*settings: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each option of decoding and of texts, and for the settings of these names.

    Returns:
        Makes a command for Typer. Its keyword arguments `decoding`, `text` and `settings` get what is
        given, by name; the flags stand where its signature has these.
    """
    return functools.partial(_with_flags, settings)


def _with_flags(settings: Iterable[str], command: Callable[..., None]) -> Callable[..., None]:
    given_parameters = inspect.signature(command).parameters
    groups = {
        "decoding": option_flags(OPTIONS),
        "text": option_flags(TEXT_OPTIONS),
        "settings": [
            _flag(name, one.kind, *one.names, help=one.help, show_default=one.default)
            for name, one in ((name, _SETTINGS[name]) for name in settings)
        ],
    }
    groups = {name: flags for name, flags in groups.items() if name in given_parameters}
    parameters = []
    for parameter in given_parameters.values():
        parameters += groups.get(parameter.name, [parameter])

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for group, flags in groups.items():
            stated = {flag.name: given.pop(flag.name) for flag in flags}
            given[group] = {
                name: tuple(value) if isinstance(value, list) else _WORDS.get(value, value)
                for name, value in stated.items()
                if value is not None
            }
        command(**given)

    signature = inspect.Signature(parameters)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run


def option_flags(options: Iterable[Option]) -> list[inspect.Parameter]:
    """Make the flags of those options that have one: parameters for Typer, None where a flag is not given."""
    flags = []
    for one in options:
        if not one.has_flag:
            continue
        kind: Any = Literal["false", "true", "never"]
        if one.type is bool:
            kind = bool
        elif one.is_text:
            kind = list[str]
        elif one.type in (int, float) or get_origin(one.type) is Literal:
            kind = one.type
        flags.append(_flag(one.name, kind, help=one.help, show_default=one.shown_default))
    return flags


def _flag(name: str, kind: Any, *spelled: str, **shown: str) -> inspect.Parameter:
    annotation = Annotated[kind | None, typer.Option(*spelled, **shown)]
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
    )
