"""Options of `dragoman bench-http`; imports nothing heavy, for every `--help`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from server.cli.flags import duration, some_rate, some_time

Url = Annotated[str, typer.Argument(help="Server to load, as http://localhost:8000.")]
Rate = Annotated[
    float | None,
    typer.Option(
        parser=some_rate, metavar="NUMBER", help="Open loop: requests a second, whatever the answers."
    ),
]
Arrivals = Annotated[
    Literal["poisson", "fixed"], typer.Option(help="Of an open loop: by chance, or evenly spaced.")
]
Clients = Annotated[
    int | None,
    typer.Option(
        help="Closed loop: clients that send when they have an answer.",
        min=1,
        show_default="1 without --rate",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        help="Words of the texts: short, mixed, documents, or as 5-50:31,200:1 (lengths:weight).",
        show_default="mixed; with --text its lines",
    ),
]
Text = Annotated[
    Path | None,
    typer.Option(help="File of sentences, plain or .gz.", show_default="sentences of our own"),
]
Array = Annotated[int, typer.Option(help="Texts in a request.", min=1, max=100_000)]
Source = Annotated[str | None, typer.Option(help="Language of the texts.", show_default="the server's first")]
Target = Annotated[
    str | None, typer.Option(help="Language to translate to.", show_default="the server's first")
]
Field = Annotated[
    list[str] | None,
    typer.Option(help="Another field of every request, as beam_size=4.", show_default="none"),
]
ApiKey = Annotated[str | None, typer.Option(help="API key.", show_default="none")]
Retries = Annotated[
    int, typer.Option(help="How often a refused request is sent again after its Retry-After.", min=0)
]
Seed = Annotated[int, typer.Option(help="Of the arrivals; the same seed, the same times.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Where figures go as JSON; - is standard output.")
]
Plot = Annotated[Path | None, typer.Option(help="Where a picture goes, PNG; needs matplotlib.")]
Duration = Annotated[
    float, typer.Option(parser=some_time, metavar="TIME", help="How long to measure.", show_default="10s")
]
WarmUp = Annotated[
    float,
    typer.Option(
        parser=duration, metavar="TIME", help="How long to send before that, not counted.", show_default="2s"
    ),
]
RequestTimeout = Annotated[
    float,
    typer.Option(parser=some_time, metavar="TIME", help="When a request is given up.", show_default="1min"),
]
