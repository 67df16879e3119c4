"""The command line: one command for each job.

Every command imports what it needs in its own body: `dragoman serve` never loads torch, `--help` is quick.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from export.commands.measure import measure
from export.commands.pull import pull
from export.commands.shortlist import shortlist
from export.flags import (
    ALL_WIDTHS,
    AllowQualityLoss,
    BeamWidths,
    BundleVersion,
    CalibrationMethod,
    CalibrationSentences,
    CalibrationText,
    CardNotes,
    DevSource,
    DevTarget,
    Force,
    GoldenText,
    ImportKind,
    LexiconSource,
    LexiconTarget,
    LexiconText,
    ModelName,
    MultiStepWidths,
    Origin,
    Precision,
    Prompt,
    Purpose,
    SourceLanguages,
    TargetLanguages,
    Task,
    Threads,
    WeightBits,
    WithAttention,
    parse_codes,
    parse_multi_step_widths,
    parse_widths,
)
from model.commands import (
    BundleSystems,
    average,
    corpus,
    distill,
    evaluate_command,
    prune,
    reported_errors,
    train,
    trim,
)
from server.cli.command_line import CONVERT, EXIT_CODES_HELP, MEASURE, SERVE, TRAIN, CommandLine, run
from server.cli.commands import api_key, bench_http, explain, generate, reload, serve, translate
from server.cli.exit_codes import EXIT_BAD_BUNDLE, fail

app = typer.Typer(
    name="dragoman",
    cls=CommandLine,
    invoke_without_command=True,
    epilog=EXIT_CODES_HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def dragoman(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Train, convert, serve and measure translation models."""
    if version:
        typer.echo(f"dragoman {metadata.version('dragoman')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _examples(*commands: str) -> str:
    """Lay out the examples at the end of a command's `--help`."""
    # \b keeps the lines of the paragraph as they are.
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


app.command(
    rich_help_panel=TRAIN,
    short_help="Train a model from a recipe, or resume the run.",
    epilog=_examples(
        "dragoman train recipes/tatoeba-en-de.toml",
        "dragoman train recipes/tatoeba-en-de.toml --out runs/second --device cuda",
    ),
)(train)
_CORPUS = _examples("dragoman corpus recipes/broad-en-de.corpus.toml --out data/corpus-en-de")
app.command(rich_help_panel=TRAIN, short_help="Make a corpus of several sources.", epilog=_CORPUS)(corpus)
_AVERAGE = _examples(
    "dragoman average runs/en-de/checkpoint-0004000 runs/en-de/checkpoint-0005000 --out runs/en-de-mean",
    "dragoman average runs/robust/best runs/names/best --weights 0.15,0.85 --out runs/final",
)
app.command(rich_help_panel=TRAIN, short_help="Average the weights of checkpoints.", epilog=_AVERAGE)(average)
_PRUNE = _examples(
    "dragoman prune runs/en-de/best --keep 0.7 --source dev.en --target dev.de --out runs/small"
)
app.command(rich_help_panel=TRAIN, short_help="Make a smaller checkpoint.", epilog=_PRUNE)(prune)
_TRIM = _examples(
    "dragoman trim runs/nllb --languages en,de --source en.txt --target de.txt --out runs/nllb-en-de"
)
app.command(rich_help_panel=TRAIN, short_help="Leave words out of a checkpoint.", epilog=_TRIM)(trim)
app.command(
    rich_help_panel=TRAIN,
    short_help="Choose a teacher's translations for a student.",
    epilog=_examples(
        "dragoman translate bundles/teacher --beam-size 8 --n-best 8 < train.en | gzip > train.n-best.gz",
        "dragoman distill train.n-best.gz --reference train.de.gz | gzip > train.distilled.de.gz",
    ),
)(distill)


@contextmanager
def _refused_bundles(command: str) -> Iterator[None]:
    from export.bundle import BundleError

    try:
        yield
    except BundleError as error:
        raise typer.Exit(fail(command, EXIT_BAD_BUNDLE, str(error))) from None


@contextmanager
def _evaluation_errors() -> Iterator[None]:
    from server.errors import DragomanError
    from server.service.translation.file_translation import LineError

    with reported_errors("evaluate", DragomanError, LineError, OSError), _refused_bundles("evaluate"):
        yield


def _bundle_systems(
    bundle: Path, beam_size: int, length_penalty: float, direction: str | None
) -> BundleSystems:
    from server.service.translation.bundle_systems import bundle_systems

    return bundle_systems(bundle, beam_size, length_penalty, direction)


app.command(
    rich_help_panel=MEASURE,
    short_help="Score a checkpoint or a bundle.",
    epilog=_examples(
        "dragoman evaluate bundles/en-de --source test.en.gz --reference test.de.gz --beam-size 4",
        "dragoman evaluate runs/tatoeba-en-de/best --source test.en --reference test.de",
        "dragoman evaluate bundles/new --against bundles/old --robustness --page evaluation.html \\",
        "    --source test.en.gz --reference test.de.gz",
        "dragoman evaluate bundles/en-de --fairness downloads",
    ),
)(evaluate_command(_bundle_systems, _evaluation_errors))


@app.command(
    rich_help_panel=CONVERT,
    short_help="Turn a checkpoint into a bundle.",
    epilog=_examples(
        "dragoman export checkpoints/en-de/best --out bundles/en-de --precision int8 \\",
        "    --dev-source dev.en.gz --dev-target dev.de.gz --calibration train.en.gz",
        "dragoman export checkpoints/en-de/best --out /tmp/fp32 --precision fp32 --dev-source dev.en.gz",
        "dragoman export bundles/en-de --format huggingface --out /tmp/hf-en-de",
    ),
)
def export(
    checkpoint: Annotated[
        Path, typer.Argument(help="Directory that `dragoman train` wrote; for huggingface also a bundle.")
    ],
    out: Annotated[Path, typer.Option(help="Directory of the new bundle or Hugging Face model.")],
    format: Annotated[
        Literal["bundle", "huggingface"],
        typer.Option(help="huggingface is what transformers and CTranslate2's converter read."),
    ] = "bundle",
    precision: Precision = "int8",
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    calibration: CalibrationText = None,
    golden: GoldenText = None,
    lexicon_source: LexiconSource = None,
    lexicon_target: LexiconTarget = None,
    lexicon_text: LexiconText = None,
    attention: WithAttention = False,
    calibration_sentences: CalibrationSentences = 512,
    calibration_method: CalibrationMethod = "percentile",
    weight_bits: WeightBits = None,
    beam_widths: BeamWidths = ALL_WIDTHS,
    multi_step_widths: MultiStepWidths = None,
    bundle_version: BundleVersion = "1",
    purpose: Purpose = "",
    card_notes: CardNotes = None,
    allow_quality_loss: AllowQualityLoss = False,
    force: Force = False,
    threads: Threads = 1,
) -> None:
    """Turn a checkpoint into a bundle for `dragoman serve`, after measuring what that costs."""
    from export.card import About
    from export.cli import run_export, run_export_huggingface
    from export.pipeline import ExportOptions
    from export.text_measures.learn_lexicon import LexiconTexts

    if format == "huggingface":
        raise typer.Exit(run_export_huggingface(checkpoint, out, force=force))
    options = ExportOptions(
        precision=precision,
        dev_source=dev_source or (),
        dev_target=dev_target or (),
        golden=golden or (),
        calibration=calibration or (),
        lexicon=LexiconTexts.given(lexicon_source, lexicon_target, lexicon_text),
        attention=attention,
        calibration_sentences=calibration_sentences,
        calibration_method=calibration_method,
        weight_bits=weight_bits,
        beam_widths=parse_widths(beam_widths),
        multi_step_widths=parse_multi_step_widths(multi_step_widths),
        allow_quality_loss=allow_quality_loss,
        force=force,
        about=About(bundle_version, purpose, card_notes or ""),
        threads=threads,
    )
    raise typer.Exit(run_export(checkpoint, out, options))


@app.command(
    "import",
    rich_help_panel=CONVERT,
    short_help="Turn a model of another library into a bundle.",
    epilog=_examples(
        "dragoman import opus-mt-en-de --out bundles/opus-en-de --precision int8 \\",
        "    --dev-source dev.en.gz --dev-target dev.de.gz",
        "dragoman import opus-mt-en-ROMANCE --out bundles/en-romance --target fr,es,it --dev-source dev.en",
        "dragoman import Helsinki-NLP/opus-mt-en-de --out bundles/opus-en-de --dev-source dev.en.gz",
        "dragoman import opus-mt-en-de --as checkpoint --out checkpoints/opus-en-de",
        "dragoman import bundles/en-de --out checkpoints/en-de",
    ),
)
def import_model(
    origin: Origin,
    out: Annotated[Path, typer.Option(help="Directory of the new bundle or checkpoint.")],
    kind: ImportKind = None,
    source: SourceLanguages = None,
    target: TargetLanguages = None,
    prompt: Prompt = None,
    task: Task = None,
    name: ModelName = None,
    precision: Precision = "int8",
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    calibration: CalibrationText = None,
    golden: GoldenText = None,
    lexicon_source: LexiconSource = None,
    lexicon_target: LexiconTarget = None,
    lexicon_text: LexiconText = None,
    attention: WithAttention = False,
    calibration_sentences: CalibrationSentences = 512,
    calibration_method: CalibrationMethod = "percentile",
    weight_bits: WeightBits = None,
    beam_widths: BeamWidths = ALL_WIDTHS,
    multi_step_widths: MultiStepWidths = None,
    bundle_version: BundleVersion = "1",
    card_notes: CardNotes = None,
    allow_quality_loss: AllowQualityLoss = False,
    force: Force = False,
    threads: Threads = 1,
) -> None:
    """Bring in a model of another library as a bundle, or take the weights of a bundle out as a checkpoint.

    Nothing of the model is run before its files are checked, and no pickle is ever loaded. Of a multilingual
    model the first target is the language of --dev-target.
    """
    from export.card import About
    from export.cli import run_import
    from export.convert.vocabularies.vocabulary import ImportNames
    from export.pipeline import ExportOptions
    from export.text_measures.learn_lexicon import LexiconTexts

    options = ExportOptions(
        precision=precision,
        dev_source=dev_source or (),
        dev_target=dev_target or (),
        golden=golden or (),
        calibration=calibration or (),
        lexicon=LexiconTexts.given(lexicon_source, lexicon_target, lexicon_text),
        attention=attention,
        calibration_sentences=calibration_sentences,
        calibration_method=calibration_method,
        weight_bits=weight_bits,
        beam_widths=parse_widths(beam_widths),
        multi_step_widths=parse_multi_step_widths(multi_step_widths),
        allow_quality_loss=allow_quality_loss,
        force=force,
        about=About(bundle_version, "", card_notes or ""),
        threads=threads,
    )
    names = ImportNames(name, parse_codes(source), parse_codes(target), prompt, task)
    raise typer.Exit(run_import(origin, out, kind, names, options))


app.command(
    rich_help_panel=CONVERT,
    short_help="Fetch a model and import it.",
    epilog=_examples(
        "dragoman pull --list en de",
        "dragoman pull opus-mt-en-de --dev-source dev.en.gz --dev-target dev.de.gz",
        "dragoman pull facebook/nllb-200-distilled-600M --source en --target de --dev-source dev.en.gz",
        "dragoman pull argos:en-de --out bundles/argos-en-de",
    ),
)(pull)
app.command(
    rich_help_panel=CONVERT,
    short_help="Give a bundle a vocabulary shortlist.",
    epilog=_examples(
        "dragoman shortlist bundles/en-de --out bundles/en-de-short --source train.en --target train.de \\",
        "    --dev-source dev.en.gz --dev-target dev.de.gz",
    ),
)(shortlist)
app.command(
    rich_help_panel=CONVERT,
    short_help="Measure what the text layer must know of a bundle.",
    epilog=_examples(
        "dragoman measure bundles/en-de --source train.en.gz --target train.de.gz \\",
        "    --dev-source dev.en.gz --dev-target dev.de.gz",
        "dragoman measure bundles/opus-en-de --lexicon-text news.en.gz --dev-source dev.en.gz",
    ),
)(measure)
app.command(
    rich_help_panel=SERVE,
    short_help="Serve bundles over HTTP.",
    epilog=_examples("dragoman serve", "dragoman serve bundles/en-de --port 8000 --workers 2"),
)(serve)
app.command(
    rich_help_panel=SERVE,
    short_help="Make a running server load its bundles again.",
    epilog=_examples("dragoman reload --admin-port 9464"),
)(reload)
app.command(
    rich_help_panel=SERVE,
    short_help="Make an API key.",
    epilog=_examples(
        "dragoman api-key weblate >> keys            # the key is shown, the file gets its hash",
        "dragoman api-key mastodon --requests-per-minute 60 --characters-per-day 500000 >> keys",
        "dragoman serve --api-keys keys",
    ),
)(api_key)
app.command(
    rich_help_panel=MEASURE,
    short_help="Load a server and measure it.",
    epilog=_examples(
        "dragoman bench-http http://localhost:8000 --clients 64            # how much it can do",
        "dragoman bench-http http://localhost:8000 --rate 50 --plot load.png",
        "dragoman bench-http http://localhost:8000 --rate 200 --lengths short --retries 3 --json load.json",
    ),
)(bench_http)


app.command(
    rich_help_panel=SERVE,
    short_help="Translate standard input to standard output.",
    epilog=_examples(
        "dragoman translate bundles/en-de < in.txt > out.txt",
        "dragoman translate bundles/en-de --beam-size 4 < in.txt > out.txt",
        "dragoman translate bundles/en-de --sampling-topk 10 --seed 1 < in.txt > out.txt",
        "dragoman translate bundles --source de --target en < in.txt > out.txt",
        "dragoman translate bundles/en-de --beam-size 8 --n-best 8 < in.txt > in.n-best",
    ),
)(translate)
app.command(
    rich_help_panel=SERVE,
    short_help="Run a model of another task on standard input.",
    epilog=_examples("dragoman generate bundles/g2p --beam-size 4 < words.txt > pronunciations.txt"),
)(generate)
app.command(
    rich_help_panel=MEASURE,
    short_help="Show how a translation came about.",
    epilog=_examples(
        "dragoman explain bundles/en-de 'The red car is fast.'",
        "dragoman explain bundles/en-de '<b>Two</b> cars.' --html --beam-size 4 --json",
    ),
)(explain)


def main() -> None:
    """Run the command of the command line."""
    run(app)


if __name__ == "__main__":
    main()
