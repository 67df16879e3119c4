"""`dragoman serve`, `reload`, `api-key`, `bench-http`: their options. Imports nothing heavy, for `--help`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from server.cli import flags
from server.cli import load_flags as load
from server.cli.exit_codes import EXIT_FAILED, fail, show
from server.service.clients.api_keys import MAX_LIMIT, ClientLimits, key_line, new_key


@flags.with_flags(*flags.OF_SERVE)
def serve(settings: dict[str, Any], bundle: flags.ServedBundles = None) -> None:
    """Serve bundles over HTTP, one model each.

    Every pair of languages that they translate is served, and through English what two of them do together.
    Every setting is also a variable, DRAGOMAN_PORT for instance; docs/operations.md lists them all.
    """
    from server.cli import serve

    raise typer.Exit(serve.serve({"bundle": bundle or None, **settings}))


def reload(
    model: Annotated[
        str | None, typer.Argument(help="Name of the model to exchange.", show_default="all of them")
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(help="Admin port of the server.", show_default="DRAGOMAN_ADMIN_PORT", min=1, max=65535),
    ] = None,
    timeout: flags.ReloadTimeout = 600.0,
) -> None:
    """Make a running server serve the bundles that are at its paths now, without a pause.

    Each new model is loaded and proven beside the old one. Exit code 3: a bundle is refused, and its old
    model goes on.
    """
    from server.cli import reload

    raise typer.Exit(reload.reload({"admin_port": admin_port}, timeout, model))


def api_key(
    name: Annotated[
        str, typer.Argument(help="Whose key it is; shown in metrics and in the log. A name may have several.")
    ],
    requests_per_minute: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_LIMIT, help="Requests a minute.", show_default="no limit"),
    ] = None,
    characters_per_day: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_LIMIT, help="Characters to translate a day.", show_default="no limit"),
    ] = None,
) -> None:
    """Make an API key: shows it once on standard error, and its line for the file on standard output.

    The server reads its file again when it changes. To take a key away, delete its line.
    """
    key = new_key()
    try:
        line = key_line(name, key, ClientLimits(requests_per_minute, characters_per_day))
    except ValueError as error:
        raise typer.Exit(fail("api-key", EXIT_FAILED, str(error))) from None
    typer.echo(f"The key of {name}, which is kept nowhere else:\n{key}", err=True)
    raise typer.Exit(show("api-key", f"{line}\n"))


def bench_http(
    url: load.Url,
    rate: load.Rate = None,
    arrivals: load.Arrivals = "poisson",
    clients: load.Clients = None,
    duration: load.Duration = 10.0,
    warm_up: load.WarmUp = 2.0,
    lengths: load.Lengths = None,
    text: load.Text = None,
    array: load.Array = 1,
    source: load.Source = None,
    target: load.Target = None,
    field: load.Field = None,
    api_key: load.ApiKey = None,
    timeout: load.RequestTimeout = 60.0,
    retries: load.Retries = 0,
    seed: load.Seed = 1,
    json_file: load.JsonFile = None,
    plot: load.Plot = None,
    progress: flags.Progress = None,
) -> None:
    """Load a server with translations and measure it: throughput, p50 to p99.9, errors by kind.

    Latencies of an open loop count from the time at which a request was meant to be sent. Ctrl-C shows what
    there is.

    The texts repeat: a server with a sentence cache answers most from it. Start it with --cache 0.
    """
    from loadgen.generator import Plan
    from server.cli.bench_http import Job, bench

    if rate is not None and clients is not None:
        raise typer.BadParameter("give --rate for an open loop or --clients for a closed one, not both")
    if rate is None:
        clients = clients or 1
    plan = Plan(duration, warm_up, rate, arrivals, clients, timeout, retries, seed)
    fields = dict(_read_field(given) for given in field or [])
    job = Job(url, plan, lengths, text, array, source, target, fields, api_key, json_file, plot, progress)
    raise typer.Exit(bench(job))


def _read_field(given: str) -> tuple[str, Any]:
    """Read `name=value`, the value as JSON if it is such, else as a string."""
    name, separator, value = given.partition("=")
    if not (name and separator):
        raise typer.BadParameter(f"{given!r}: give it as name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@flags.with_flags("pivot_language", "workers", "device", "shortlist")
def translate(
    bundle: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE...", help="Bundles to translate with, or a directory that holds them."
        ),
    ],
    decoding: dict[str, Any],
    text: dict[str, Any],
    settings: dict[str, Any],
    source: flags.SourceLanguage = None,
    target: flags.TargetLanguage = None,
    split: Annotated[bool, typer.Option(help="Translate a line sentence by sentence.")] = True,
    n_best: flags.NBest = None,
    errors: flags.LineErrors = "replace",
    glossary: flags.GlossaryFile = None,
    progress: flags.Progress = None,
) -> None:
    """Translate standard input, line by line, to standard output.

    Files of any size: lines are read as they are needed, translated many at a time, and written in order. A
    pair that no bundle has goes through English, if two bundles have the halves. A line that is in the
    target language already, or in another script than the source's, comes out as it is (--guard off
    translates it, too).
    """
    from server.cli import serve
    from server.service.text.options import TextOptions
    from server.service.translation.file_translation import request_of_lines
    from server.service.translation.request import RequestedOptions

    options = RequestedOptions(num_hypotheses=n_best, **decoding)
    settings["bundle"] = tuple(bundle)
    ways = {"split": split, "every_hypothesis": n_best is not None}
    request, pair = request_of_lines(options, TextOptions(**text), **ways), (source, target)
    code = serve.translate(settings, request, pair, errors=errors, glossary=glossary, progress=progress)
    raise typer.Exit(code)


@flags.with_flags("workers", "device")
def generate(
    bundle: Annotated[Path, typer.Argument(help="Bundle of a model whose task is another than translation.")],
    decoding: dict[str, Any],
    settings: dict[str, Any],
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Read feature vectors, for a model whose source is no text.",
            show_default="text, from standard input",
        ),
    ] = None,
    n_best: flags.NBest = None,
    errors: flags.LineErrors = "replace",
    progress: flags.Progress = None,
) -> None:
    """Give standard input, line by line, to a model, and write what it makes of each to standard output.

    A line is one input, read whole and as it is: no sentences are cut, nothing is protected or checked.
    """
    from server.cli import serve
    from server.service.text.options import TextOptions
    from server.service.translation.file_translation import request_of_lines
    from server.service.translation.request import RequestedOptions

    options = RequestedOptions(num_hypotheses=n_best, **decoding)
    settings["bundle"] = (bundle,)
    request = request_of_lines(options, TextOptions(guard="off"), every_hypothesis=n_best is not None)
    raise typer.Exit(serve.generate(settings, request, errors=errors, progress=progress, features=features))


def explain(
    bundle: Annotated[Path, typer.Argument(help="Bundle to translate with.")],
    text: Annotated[str, typer.Argument(help="Text to translate.")],
    source: flags.SourceLanguage = None,
    target: flags.TargetLanguage = None,
    beam_size: Annotated[int, typer.Option(min=1, help="Hypotheses kept at each step.")] = 1,
    html: Annotated[bool, typer.Option("--html", help="The text is HTML.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Translate a text and show how it came about.

    The pieces that the model read and wrote, each with its probability and the likeliest others, translations
    that the search dropped, which word stands for which, how sure the model is, what the checks found, and
    where the time went.
    """
    from server.cli import explain as explaining

    how = {"source": source, "target": target, "beam_size": beam_size, "is_html": html}
    raise typer.Exit(explaining.explain(bundle, text, as_json=as_json, **how))
