"""What ``dragoman import`` does: a Hugging Face directory to a bundle, or either of them to a checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from export.bundle import MANIFEST_NAME
from export.convert.ctranslate2.from_ctranslate2 import import_ctranslate2, is_ctranslate2
from export.convert.from_huggingface import import_checkpoint
from export.convert.huggingface_files import find_directory
from export.convert.marian_native.from_marian import import_marian, is_marian
from export.convert.own_words import write_own_words
from export.convert.to_huggingface import write_huggingface
from export.convert.vocabularies.vocabulary import ImportNames
from export.gate_texts import ExportError
from export.pipeline import ExportOptions, export_bundle
from export.recovery.from_bundle import recover_checkpoint
from model.checkpoint import load_checkpoint

Kind = Literal["bundle", "checkpoint"]
Report = Callable[[str], None]


def import_model(
    origin: str, out: Path, kind: Kind | None, names: ImportNames, options: ExportOptions, report: Report
) -> None:
    """Bring a model in.

    Args:
        origin: a directory of another project, an Argos package, a name on the Hugging Face hub, or a bundle.
        out: what to write; appears complete or not at all.
        kind: what to make; None makes a bundle of a foreign model and a checkpoint of a bundle.
        names: what a foreign model does not say of itself.
        options: of the export to a bundle; fp32 needs no text.
        report: gets a line at every stage.

    Raises:
        ExportError: the options do not fit together, or ``out`` exists.
        ValueError: a file is missing, damaged or odd; the message names it.
        GateError: the bundle is not good enough.
        BundleError: the bundle is refused.
    """
    if (Path(origin) / MANIFEST_NAME).exists():
        if out.exists() and not options.force:
            raise ExportError(f"{out} exists already; --force replaces it")
        if kind == "bundle":
            raise ExportError(f"{origin} is a bundle already; it can become a checkpoint")
        if names != ImportNames():
            raise ExportError(f"{origin} is a bundle, which says its name, its task and its languages itself")
        config = recover_checkpoint(Path(origin), out)
        report(f"wrote {out}: {config.origin}")
        return
    check_import(out, kind, names, options)
    if kind == "checkpoint":
        _read(origin, out, names, report)
        report(f"wrote {out}")
        return
    with tempfile.TemporaryDirectory(prefix="dragoman-import-") as aside:
        checkpoint = Path(aside) / "checkpoint"
        _read(origin, checkpoint, names, report)
        if not _has_text(options):
            report("no text: the graphs are compared with PyTorch on sentences of the model's own words")
            options = replace(
                options, dev_source=[write_own_words(checkpoint, Path(aside) / "own-words.txt")]
            )
        export_bundle(checkpoint, out, options, report)


def check_import(out: Path, kind: Kind | None, names: ImportNames, options: ExportOptions) -> None:
    """Refuse at once what could only fail after hours.

    Raises:
        ExportError: ``out`` exists, there is no text for a precision that needs it, or the version is odd.
        HuggingFaceError: a name is odd.
    """
    if out.exists() and not options.force:
        raise ExportError(f"{out} exists already; --force replaces it")
    names.check()
    options.about.check()
    if kind != "checkpoint" and not _has_text(options) and options.precision != "fp32":
        raise ExportError(
            "text is needed for the gates: give --dev-source, with or without --dev-target, or "
            "--calibration; --precision fp32 needs none"
        )


def _has_text(options: ExportOptions) -> bool:
    return bool(options.dev_source or options.calibration)


def _read(origin: str, out: Path, names: ImportNames, report: Report) -> None:
    """Write the checkpoint of a model of another project."""
    if is_ctranslate2(Path(origin)):
        import_ctranslate2(Path(origin), out, names, report)
    elif is_marian(Path(origin)):
        import_marian(Path(origin), out, names, report)
    else:
        import_checkpoint(find_directory(origin, report), out, names, report)


def export_huggingface(origin: Path, out: Path, *, force: bool, report: Report) -> None:
    """Write a checkpoint, or the checkpoint that a bundle was made of, as a Hugging Face directory.

    Raises:
        ExportError: ``out`` exists.
        ValueError: the origin is damaged, or no Hugging Face class computes what the model does.
        BundleError: the bundle is refused.
    """
    if out.exists() and not force:
        raise ExportError(f"{out} exists already; --force replaces it")
    with tempfile.TemporaryDirectory(prefix="dragoman-export-") as aside:
        if (origin / MANIFEST_NAME).exists():
            report(f"{origin} is a bundle: reading its weights back")
            recover_checkpoint(origin, checkpoint := Path(aside) / "checkpoint")
        else:
            checkpoint = origin
        architecture = write_huggingface(load_checkpoint(checkpoint), out, report)
    report(f"wrote {out}: {architecture} with a MarianTokenizer")
