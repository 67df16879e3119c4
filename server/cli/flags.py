"""Options of `dragoman serve` and `dragoman translate`; imports nothing heavy, for every `--help`."""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer

from server.cli.durations import some_time
from server.engine.options import OPTIONS, NamedOption
from server.service.text.options import TEXT_OPTIONS

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
PivotLanguage = Annotated[
    str | None,
    typer.Option(
        help="Language through which pairs without a model go; none refuses them.", show_default="en"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Workers that translate side by side.", show_default="one for each usable core"),
]
EngineProcesses = Annotated[
    bool | None,
    typer.Option(
        "--engine-processes/--no-engine-processes",
        help="Give every worker a process of its own instead of a thread.",
        show_default="for a small model, and on CUDA",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="auto, cpu or cuda.", show_default="auto: a GPU if there is one and the bundle is fp16"
    ),
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        help="Sentences (beams) that a worker decodes at once.", show_default="64, or what memory allows"
    ),
]
MaxKvCacheMib = Annotated[
    str | None,
    typer.Option(
        "--max-kv-cache",
        "--max-kv-cache-mib",
        metavar="SIZE",
        help="Memory for keys and values: 2GiB; a plain number is MiB.",
        show_default="2GiB",
    ),
]
CacheBytes = Annotated[
    str | None,
    typer.Option(
        "--cache",
        "--cache-bytes",
        metavar="SIZE",
        help="Memory for translated sentences; 0 is none.",
        show_default="64MiB",
    ),
]
DefaultBeamSize = Annotated[
    int | None,
    typer.Option(help="Beam size of requests that do not choose one.", show_default="the bundle's, or 1"),
]
Guard = Annotated[
    str | None,
    typer.Option(help="What is done about suspicious translations: off, flag or mend.", show_default="mend"),
]
Glossaries = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Glossaries that requests may name: files NAME.SOURCE-TARGET.tsv.",
        show_default="none",
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
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default="info")]
ApiKeys = Annotated[
    Path | None,
    typer.Option(
        "--api-keys", help="File of the API keys that requests need; see api-key.", show_default="none needed"
    ),
]
RequestsPerMinute = Annotated[
    int | None,
    typer.Option(help="Requests a minute of each API key, or address.", show_default="no limit"),
]
CorsOrigins = Annotated[
    str | None,
    typer.Option(
        help="Origins whose pages may use the server, with commas between; * is any.", show_default="none"
    ),
]
AdminPort = Annotated[
    int | None,
    typer.Option(
        help="Port for /admin/status, /admin/reload and /admin/drain, on 127.0.0.1.", show_default="none"
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
Shortlist = Annotated[
    bool | None,
    typer.Option(
        "--shortlist/--no-shortlist",
        help="Decode every sentence over its own candidate words.",
        show_default="if the bundle has such",
    ),
]

_WORDS = {"false": False, "true": True}


def with_option_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each option of decoding and of texts.

    Args:
        command: its keyword arguments `decoding` and `text` get the options that are given, by name; the
            flags stand where its signature has these.

    Returns:
        The command for Typer.
    """
    given_parameters = inspect.signature(command).parameters
    groups = {"decoding": option_flags(OPTIONS), "text": option_flags(TEXT_OPTIONS)}
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


def option_flags(options: Iterable[NamedOption]) -> list[inspect.Parameter]:
    """Make the flags of options.

    Args:
        options: of which those that have a flag get one.

    Returns:
        Parameters for Typer; None where a flag is not given.
    """
    flags = []
    for one in options:
        if not one.option.has_flag:
            continue
        kind: Any = Literal["false", "true", "never"]
        if one.type is bool:
            kind = bool
        elif one.option.is_text:
            kind = list[str]
        elif one.type in (int, float) or get_origin(one.type) is Literal:
            kind = one.type
        annotation = Annotated[
            kind | None, typer.Option(help=one.option.help, show_default=one.shown_default)
        ]
        flags.append(
            inspect.Parameter(
                one.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
            )
        )
    return flags
