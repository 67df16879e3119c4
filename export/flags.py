"""Options that `dragoman export` and `dragoman import` share; imports nothing heavy, for every `--help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

PrecisionName = Literal["fp32", "fp16", "int8"]
Precision = Annotated[PrecisionName, typer.Option(help="fp16 is for CUDA.")]
DevSource = Annotated[
    list[Path] | None,
    typer.Option(
        help="Text that the gates are run on, a sentence a line, plain or .gz; given again for the model's "
        "next direction.",
    ),
]
DevTarget = Annotated[
    list[Path] | None,
    typer.Option(help="Its reference translation; without it, int8 and fp16 are compared with fp32."),
]
CalibrationText = Annotated[
    list[Path] | None,
    typer.Option(
        help="Source text for int8 activation ranges, as of the training corpus; else --dev-source. "
        "One file, or one a direction."
    ),
]
GoldenText = Annotated[
    list[Path] | None,
    typer.Option(
        help="Source text to choose the manifest's golden sentences from; else --dev-source. Given again for "
        "the model's next direction."
    ),
]
CalibrationSentences = Annotated[int, typer.Option(min=1, help="How many of its lines to use.")]
CalibrationMethod = Annotated[
    Literal["minmax", "percentile", "mse"], typer.Option(help="How an activation range is chosen.")
]
WeightBits = Annotated[
    int | None,
    typer.Option(min=7, max=8, help="7 or 8; by default 7 unless that costs 0.1 BLEU against 8."),
]
BeamWidths = Annotated[
    str,
    typer.Option(help="One decoder graph each, separated by commas; 1 and the model's default always."),
]
MultiStepWidths = Annotated[
    str | None,
    typer.Option(
        help="Beam widths that get a graph for several steps in one run: one client alone is up to 1.5 times "
        "as fast. Separated by commas, 'none' for none; by default the "
        "model's own width. Width 1 always has one."
    ),
]
BundleVersion = Annotated[str, typer.Option(help="Version that the manifest states.")]
Purpose = Annotated[
    str, typer.Option(help="One line for `GET /models`, the page and the card: the text that it is good for.")
]


def _read_notes(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: cannot be read: {error}") from None


CardNotes = Annotated[
    str | None,
    typer.Option(
        parser=_read_notes,
        metavar="PATH",
        help="Markdown to put into the model card: weak spots, test scores.",
    ),
]
AllowQualityLoss = Annotated[
    bool, typer.Option("--allow-quality-loss", help="Write it even if a quality gate refuses it.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of the gates.")]

AllowWide = Annotated[
    bool,
    typer.Option("--allow-wide", help="Write it even if batches need more than a third of the vocabulary."),
]
TableSource = Annotated[
    Path | None, typer.Option(help="Text to learn from which words become which, as the training corpus.")
]
TableTarget = Annotated[Path | None, typer.Option(help="Its translation.")]
Vmap = Annotated[
    Path | None,
    typer.Option(help="CTranslate2's vocabulary map or Marian's lex.*.bin, instead of learning from a text."),
]
LexiconText = Annotated[
    Path | None,
    typer.Option(help="Source text alone, instead: the bundle's own translations of it are learnt from."),
]
LexiconSource = Annotated[
    Path | None,
    typer.Option(
        help="Text to learn from which words become which, as the training corpus; with it, the bundle is "
        "measured as by `dragoman measure`."
    ),
]
LexiconTarget = Annotated[Path | None, typer.Option(help="Its translation.")]
PerPiece = Annotated[int, typer.Option(min=1, help="Most probable words kept for a source piece.")]
Frequent = Annotated[int, typer.Option(min=0, help="Most frequent words that are always candidates.")]

Origin = Annotated[
    str,
    typer.Argument(
        help="Directory of a MarianMT, M2M100, NLLB, mBART, BART, T5, Pegasus, Marian or CTranslate2 model, "
        "a name on the hub, an Argos package, or a bundle."
    ),
]
ImportKind = Annotated[
    Literal["bundle", "checkpoint"] | None,
    typer.Option("--as", help="What to make.", show_default="a bundle; of a bundle, a checkpoint"),
]
SourceLanguages = Annotated[
    str | None, typer.Option(help="Languages it translates from, if it does not say: en or fr,es,it.")
]
TargetLanguages = Annotated[
    str | None,
    typer.Option(help="Languages it translates to: de, or of a multilingual model fr,pt=pt_BR."),
]
Prompt = Annotated[
    str | None,
    typer.Option(help="Text before every source, as of T5: 'translate English to German: '."),
]
Task = Annotated[
    str | None,
    typer.Option(
        help="What the model does, as summarization; it is served by POST /generate unless it translates.",
        show_default="translation; of BART and Pegasus summarization",
    ),
]
ModelName = Annotated[
    str | None, typer.Option(help="Name of the model.", show_default="that of the directory")
]

ALL_WIDTHS = "1,2,3,4,5,6,8"


def parse_widths(beam_widths: str, flag: str = "--beam-widths") -> list[int]:
    """Read beam widths separated by commas.

    Raises:
        typer.BadParameter: they are something else.
    """
    parts = [part.strip() for part in beam_widths.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 32 for part in parts):
        raise typer.BadParameter("numbers from 1 to 32, separated by commas", param_hint=flag)
    return [int(part) for part in parts]


def parse_multi_step_widths(beam_widths: str | None) -> list[int] | None:
    """Read beam widths as above, or ``none``; None stays None."""
    if beam_widths is None or beam_widths == "none":
        return None if beam_widths is None else []
    return parse_widths(beam_widths, "--multi-step-widths")


def parse_codes(codes: str | None) -> list[str] | None:
    """Read language codes separated by commas; None stays None."""
    return None if codes is None else [code.strip() for code in codes.split(",") if code.strip()]


WithAttention = Annotated[
    bool,
    typer.Option(
        "--attention",
        help="Add a graph that tells where the model looks: for `attention` and better `alignments`.",
    ),
]
