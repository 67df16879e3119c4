"""`dragoman shortlist`: its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from export.flags import (
    AllowQualityLoss,
    AllowWide,
    Force,
    Frequent,
    PerPiece,
    TableSource,
    TableTarget,
    Threads,
    Vmap,
)


def shortlist(
    bundle: Annotated[Path, typer.Argument(help="int8 bundle to start from; it is not changed.")],
    out: Annotated[Path, typer.Option(help="Directory of the new bundle.")],
    dev_source: Annotated[Path, typer.Option(help="Text that BLEU is measured on, plain or .gz.")],
    dev_target: Annotated[Path, typer.Option(help="Its reference translation.")],
    source: TableSource = None,
    target: TableTarget = None,
    vmap: Vmap = None,
    per_piece: PerPiece = 100,
    frequent: Frequent = 200,
    allow_quality_loss: AllowQualityLoss = False,
    allow_wide: AllowWide = False,
    force: Force = False,
    threads: Threads = 1,
) -> None:
    """Copy a bundle and give it a shortlist: every sentence is decoded over the words it may become.

    Refused if that loses more than 0.2 BLEU, or if 32 sentences need more than a third of the vocabulary
    together. Worth its while with vocabularies of 10,000 and more.
    """
    from export.cli import run_shortlist
    from export.shortlist.build import ShortlistOptions

    options = ShortlistOptions(
        dev_source=dev_source,
        dev_target=dev_target,
        source=source,
        target=target,
        vmap=vmap,
        per_piece=per_piece,
        frequent=frequent,
        allow_quality_loss=allow_quality_loss,
        allow_wide=allow_wide,
        threads=threads,
    )
    raise typer.Exit(run_shortlist(bundle, out, options, force=force))
