"""The command line: one command for each job.

Every command imports what it needs in its own body: `dragoman serve` never loads torch, `--help` is quick.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="dragoman",
    help="Train, evaluate, export and serve translation models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(*commands: str) -> str:
    """Lay out the examples at the end of a command's `--help`."""
    # \b keeps the lines of the paragraph as they are.
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


@contextlib.contextmanager
def _reported_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn what a user can put right into one line on stderr and exit code 1; bugs keep their traceback."""
    expected: tuple[type[Exception], ...] = (
        ValueError,
        *errors,
    )  # recipes, corpora, checkpoints: ValueErrors
    try:
        yield
    except expected as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@app.command(
    epilog=_examples(
        "dragoman train recipes/tatoeba-en-de.toml",
        "dragoman train recipes/tatoeba-en-de.toml --out runs/second --device cuda",
    )
)
def train(
    recipe: Annotated[Path, typer.Argument(help="TOML file: corpus, vocabulary, model, training.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the run; runs/NAME unless given. An unfinished run goes on."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; overrides the recipe.")] = None,
) -> None:
    """Train a model as a recipe says; the same command continues an interrupted run."""
    from model.trainer import Trainer

    directory = out or Path("runs") / recipe.stem
    with _reported_errors():
        try:
            chosen = Trainer(recipe, directory, device=device).run()
        except KeyboardInterrupt:
            typer.echo("stopped; the same command goes on from here", err=True)
            raise typer.Exit(130) from None
    typer.echo(chosen)


@app.command(
    epilog=_examples(
        "dragoman evaluate bundles/en-de --source test.en --reference test.de",
        "dragoman evaluate bundles/en-de --source test.en.gz --reference test.de.gz --beam-size 4",
        "dragoman evaluate runs/tatoeba-en-de/best --source test.en --reference test.de",
    ),
)
def evaluate(
    model: Annotated[Path, typer.Argument(help="A checkpoint (PyTorch) or a bundle (the server's engine).")],
    source: Annotated[Path, typer.Option(help="Text to translate, one sentence a line, plain or .gz.")],
    reference: Annotated[Path, typer.Option(help="Its reference translation, line by line.")],
    beam_size: Annotated[int, typer.Option(min=1, help="1 is greedy; checkpoints decode greedily.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Of beam search; 0 for none.")] = 1.0,
) -> None:
    """Score a checkpoint or a bundle: BLEU and chrF as JSON, with sacreBLEU's signatures."""
    from export.bundle import BundleError
    from model.corpus import read_parallel
    from model.scoring import score
    from server.errors import DragomanError

    with _reported_errors(BundleError, DragomanError):
        text = read_parallel([source], [reference])
        if (model / "manifest.json").exists():
            from server.service.offline import translate_lines

            hypotheses = translate_lines(
                model, text.sources, beam_size=beam_size, length_penalty=length_penalty, split=False
            )
        else:
            from model.checkpoint import load_checkpoint
            from model.evaluation import translate as translate_greedily

            if beam_size > 1:
                raise typer.BadParameter("a checkpoint decodes greedily; export it for beam search")
            read = load_checkpoint(model)
            hypotheses = translate_greedily(
                read.model, read.tokenizer, text.sources, read.config.special_tokens
            )
        result = {"model": str(model), "beam_size": beam_size, **score(hypotheses, text.targets).as_dict()}
    typer.echo(json.dumps(result, indent=1))


@app.command(
    epilog=_examples(
        "dragoman export checkpoints/en-de/best --out bundles/en-de --precision int8 \\",
        "    --dev-source dev.en.gz --dev-target dev.de.gz --calibration train.en.gz",
        "dragoman export checkpoints/en-de/best --out /tmp/fp32 --precision fp32 --dev-source dev.en.gz",
    ),
)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="Directory that `dragoman train` wrote.")],
    out: Annotated[Path, typer.Option(help="Directory of the new bundle.")],
    precision: Annotated[Literal["fp32", "fp16", "int8"], typer.Option(help="fp16 is for CUDA.")] = "int8",
    dev_source: Annotated[
        Path | None, typer.Option(help="Text that the gates are run on, a sentence a line, plain or .gz.")
    ] = None,
    dev_target: Annotated[Path | None, typer.Option(help="Its reference translation.")] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Source text for int8 activation ranges, as of the training corpus; else --dev-source."
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(help="Source text to choose the manifest's golden sentences from; else --dev-source."),
    ] = None,
    calibration_sentences: Annotated[int, typer.Option(min=1, help="How many of its lines to use.")] = 512,
    calibration_method: Annotated[
        Literal["minmax", "percentile", "mse"], typer.Option(help="How an activation range is chosen.")
    ] = "percentile",
    weight_bits: Annotated[
        int | None,
        typer.Option(min=7, max=8, help="7 or 8; by default 7 unless that costs 0.1 BLEU against 8."),
    ] = None,
    beam_widths: Annotated[
        str, typer.Option(help="One decoder graph each, separated by commas.")
    ] = "1,2,3,4,5,6,8",
    bundle_version: Annotated[str, typer.Option(help="Version that the manifest states.")] = "1",
    card_notes: Annotated[
        Path | None, typer.Option(help="Markdown to put into the model card: weak spots, test scores.")
    ] = None,
    allow_quality_loss: Annotated[
        bool, typer.Option("--allow-quality-loss", help="Write it even if it loses more than 0.5 BLEU.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the bundle that is there.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the gates.")] = 1,
) -> None:
    """Turn a checkpoint into a bundle for `dragoman serve`, after measuring what that costs."""
    from export.cli import run_export
    from export.pipeline import ExportOptions

    widths = [part.strip() for part in beam_widths.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 32 for part in widths):
        raise typer.BadParameter("numbers from 1 to 32, separated by commas", param_hint="--beam-widths")
    options = ExportOptions(
        precision=precision,
        dev_source=dev_source,
        dev_target=dev_target,
        golden=golden,
        calibration=calibration,
        calibration_sentences=calibration_sentences,
        calibration_method=calibration_method,
        weight_bits=weight_bits,
        beam_widths=[int(part) for part in widths],
        allow_quality_loss=allow_quality_loss,
        force=force,
        version=bundle_version,
        notes=card_notes.read_text(encoding="utf-8") if card_notes else "",
        threads=threads,
    )
    raise typer.Exit(run_export(checkpoint, out, options))


@app.command(epilog=_examples("dragoman serve", "dragoman serve bundles/en-de --port 8000 --workers 2"))
def serve(
    bundle: Annotated[
        Path | None, typer.Argument(help="Bundle to serve.", show_default="bundles/en-de")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Threads that translate.", show_default="one for each usable core")
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(help="Sentences (beams) that a worker decodes at once.", show_default="32")
    ] = None,
    beam_size: Annotated[
        int | None, typer.Option(help="Beam size of requests that do not choose one.", show_default="1")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.", show_default="info")
    ] = None,
) -> None:
    """Serve a bundle over HTTP.

    Every setting is also a variable, DRAGOMAN_PORT for instance; docs/operations.md lists them all.
    """
    from server import cli

    flags = {
        "bundle": bundle,
        "host": host,
        "port": port,
        "workers": workers,
        "max_rows": max_rows,
        "default_beam_size": beam_size,
        "log_level": log_level,
    }
    raise typer.Exit(cli.serve(flags))


@app.command(
    epilog=_examples(
        "dragoman translate bundles/en-de < in.txt > out.txt",
        "dragoman translate bundles/en-de --beam-size 4 < in.txt > out.txt",
    ),
)
def translate(
    bundle: Annotated[Path, typer.Argument(help="Bundle to translate with.")],
    beam_size: Annotated[
        int | None, typer.Option(help="Hypotheses kept at each step.", show_default="1")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Exponent of the length in a score.", show_default="1")
    ] = None,
    max_decoding_length: Annotated[
        int | None,
        typer.Option(help="Target tokens after which a sentence ends.", show_default="by its length"),
    ] = None,
    min_decoding_length: Annotated[
        int | None, typer.Option(help="Target tokens before which none ends.", show_default="0")
    ] = None,
    split: Annotated[bool, typer.Option(help="Translate a line sentence by sentence.")] = True,
    workers: Annotated[
        int | None, typer.Option(help="Threads that translate.", show_default="one for each usable core")
    ] = None,
    progress: Annotated[
        bool | None, typer.Option(help="Draw a progress bar.", show_default="if standard error is a terminal")
    ] = None,
) -> None:
    """Translate standard input, line by line, to standard output.

    Files of any size: lines are read as they are needed, translated many at a time, and written in order.
    """
    from server import cli
    from server.service.request import DecodingWishes

    wishes = DecodingWishes(
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_decoding_length=max_decoding_length,
        min_decoding_length=min_decoding_length,
    )
    flags = {"bundle": bundle, "workers": workers}
    raise typer.Exit(cli.translate(flags, wishes, split=split, progress=progress))


if __name__ == "__main__":
    app()
