"""`dragoman measure`: its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from export.flags import LexiconText, TableSource, TableTarget, Threads, WithAttention


def measure(
    bundle: Annotated[Path, typer.Argument(help="Bundle to measure; it is replaced when all is done.")],
    dev_source: Annotated[
        Path, typer.Option(help="Text that is translated in many ways, a sentence a line, plain or .gz.")
    ],
    dev_target: Annotated[
        Path | None, typer.Option(help="Its reference translation; tells which length is too long.")
    ] = None,
    source: TableSource = None,
    target: TableTarget = None,
    lexicon_text: LexiconText = None,
    entries: Annotated[int, typer.Option(min=1, max=32, help="Probable words kept for a word.")] = 8,
    attention: WithAttention = False,
    only: Annotated[
        Literal["confidence", "attention"] | None,
        typer.Option(help="Measure this alone, and keep the rest.", show_default="everything"),
    ] = None,
    threads: Threads = 1,
) -> None:
    """Measure what the server's text layer must know of a model, and write it into the bundle.

    Which masks it copies, up to which length it translates well, what usual translations look like, and which
    words become which; with --dev-target, how sure it may say that it is of a word or sentence, too. Measured
    again, it replaces what was there.
    """
    from export.cli import run_measure
    from export.text_measures.learn_lexicon import LexiconTexts
    from export.text_measures.measure import MeasureOptions

    options = MeasureOptions(
        dev_source=dev_source,
        dev_target=dev_target,
        lexicon=LexiconTexts(source, target, lexicon_text),
        entries=entries,
        threads=threads,
        attention=attention,
        only=only,
    )
    raise typer.Exit(run_measure(bundle, options))
