"""`dragoman pull`: its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from export.flags import (
    AllowQualityLoss,
    CalibrationText,
    DevSource,
    DevTarget,
    Force,
    ImportKind,
    ModelName,
    PrecisionName,
    Prompt,
    SourceLanguages,
    TargetLanguages,
    Threads,
    parse_codes,
)


def pull(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="opus-mt-en-de, facebook/nllb-200-distilled-600M, argos:en-de, firefox:en-de; with --list, "
            "two languages.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the new bundle.", show_default="the name's last part")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Say which models there are from one language into another.")
    ] = False,
    kind: ImportKind = None,
    source: SourceLanguages = None,
    target: TargetLanguages = None,
    prompt: Prompt = None,
    name: ModelName = None,
    precision: Annotated[
        PrecisionName | None,
        typer.Option(help="fp16 is for CUDA.", show_default="int8 if there is text, else fp32"),
    ] = None,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    calibration: CalibrationText = None,
    allow_quality_loss: AllowQualityLoss = False,
    force: Force = False,
    threads: Threads = 1,
) -> None:
    """Fetch a model from the Hugging Face hub, the Argos index or Firefox's, and import it.

    HF_ENDPOINT, ARGOS_PACKAGE_INDEX and FIREFOX_SETTINGS_SERVER name mirrors. What has been fetched stays in
    a cache.
    """
    if list_only:
        from export.fetch.listing import print_offers  # without torch, which takes seconds

        if len(names) != 2:
            raise typer.BadParameter("two languages: --list en de", param_hint="--list")
        raise typer.Exit(0 if print_offers(*names) else 1)
    if len(names) != 1:
        raise typer.BadParameter("one model at a time", param_hint="NAME")
    from export.cli import run_pull
    from export.convert.vocabularies.vocabulary import ImportNames
    from export.pipeline import ExportOptions

    text = dev_source or calibration
    options = ExportOptions(
        precision=precision or ("int8" if text else "fp32"),
        dev_source=dev_source or (),
        dev_target=dev_target or (),
        calibration=calibration or (),
        allow_quality_loss=allow_quality_loss,
        force=force,
        threads=threads,
    )
    called = ImportNames(name=name, sources=parse_codes(source), targets=parse_codes(target), prompt=prompt)
    raise typer.Exit(run_pull(names[0], out, kind, called, options))
