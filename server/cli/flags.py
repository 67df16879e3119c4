"""Options of `dragoman serve` and `dragoman translate`; imports nothing heavy, for every `--help`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from server.cli.durations import some_time

BeamSize = Annotated[
    int | None, typer.Option(help="Hypotheses kept at each step.", show_default="the bundle's, or 1")
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="Exponent of the length in a score.", show_default="the bundle's, or 1"),
]
MaxDecodingLength = Annotated[
    int | None,
    typer.Option(help="Target tokens after which a sentence ends.", show_default="by its length"),
]
MinDecodingLength = Annotated[
    int | None, typer.Option(help="Target tokens before which none ends.", show_default="0")
]
EarlyStopping = Annotated[
    Literal["false", "true", "never"] | None,
    typer.Option(
        help="Beam search as transformers does it with this value.",
        show_default="the bundle's, or CTranslate2's rules",
    ),
]
RepetitionPenalty = Annotated[
    float | None, typer.Option(help="Factor against tokens that are there already.", show_default="1")
]
NoRepeatNgramSize = Annotated[
    int | None, typer.Option(help="Sequences of so many tokens occur only once.", show_default="0: any")
]
SamplingTopk = Annotated[
    int | None,
    typer.Option(help="Draw each token from so many best ones, 0: all.", show_default="1: take the best"),
]
SamplingTopp = Annotated[
    float | None,
    typer.Option(help="Of these, the fewest that have this probability together.", show_default="1"),
]
SamplingTemperature = Annotated[
    float | None, typer.Option(help="Divides scores before drawing.", show_default="1")
]
NBest = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Write so many translations of each line, best first, as an n-best list: "
        "number ||| translation ||| score.",
        show_default="one, and nothing else",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Makes draws repeatable.", show_default="a new one")]

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
    int | None, typer.Option(help="Beam size of requests that do not choose one.", show_default="1")
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
Shortlist = Annotated[
    bool | None,
    typer.Option(
        "--shortlist/--no-shortlist",
        help="Decode every sentence over its own candidate words.",
        show_default="if the bundle has such",
    ),
]

_EARLY_STOPPING: dict[str | None, bool | Literal["never"] | None] = {
    None: None,
    "false": False,
    "true": True,
    "never": "never",
}


def early_stopping_value(given: Literal["false", "true", "never"] | None) -> bool | Literal["never"] | None:
    """Give the value that the word on the command line stands for."""
    return _EARLY_STOPPING[given]
