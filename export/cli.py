"""What the export commands do around their work: progress on standard error, one line on failure."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from export.bundle import BundleError
from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import Kind, Report, check_import, export_huggingface, import_model
from export.convert.vocabularies.vocabulary import ImportNames
from export.fetch.argos import fetch_argos
from export.fetch.download import FetchError
from export.fetch.firefox import fetch_firefox
from export.fetch.hub import fetch_repository, full_name
from export.gate_texts import ExportError
from export.pipeline import ExportOptions, export_bundle
from export.quality_gates import GateError
from export.recovery.from_bundle import RecoveryError
from export.shortlist.build import ShortlistOptions, shortlist_bundle
from export.shortlist.graphs import ShortlistError
from export.shortlist.vmap import VmapError
from export.text_measures.learn_lexicon import MeasureError
from export.text_measures.measure import MeasureOptions, measure_bundle
from model.checkpoint import CheckpointError
from model.data.corpus import CorpusError
from model.tokenizer import TokenizerError

EXIT_FAILED = 1
EXIT_BAD_BUNDLE = 3  # these two are those of server.cli.exit_codes, which export does not import
_ARGOS, _FIREFOX = "argos:", "firefox:"
_REFUSALS = (
    BundleError,
    CheckpointError,
    CorpusError,
    ExportError,
    FetchError,
    GateError,
    HuggingFaceError,
    MeasureError,
    RecoveryError,
    ShortlistError,
    TokenizerError,
    VmapError,
    OSError,
)


def run_export(checkpoint: Path, out: Path, options: ExportOptions) -> int:
    """Export a checkpoint and return the exit code, not 0 after one line on standard error."""
    torch.set_num_threads(options.threads)
    return _run("export", lambda report: export_bundle(checkpoint, out, options, report))


def run_export_huggingface(origin: Path, out: Path, *, force: bool) -> int:
    """Write a checkpoint or a bundle as a Hugging Face directory and return the exit code."""
    return _run("export", lambda report: export_huggingface(origin, out, force=force, report=report))


def run_import(origin: str, out: Path, kind: Kind | None, names: ImportNames, options: ExportOptions) -> int:
    """Import a model and return the exit code."""
    torch.set_num_threads(options.threads)
    return _run("import", lambda report: import_model(origin, out, kind, names, options, report))


def run_pull(
    name: str, out: Path | None, kind: Kind | None, names: ImportNames, options: ExportOptions
) -> int:
    """Fetch a model, import it and return the exit code."""
    torch.set_num_threads(options.threads)

    def work(report: Report) -> None:
        target = out or Path(name.rpartition("/")[2].replace(":", "-"))
        check_import(target, kind, names, options)
        called = names
        if name.startswith(_ARGOS):
            report(f"fetching {name} from the index of Argos packages, which states no licenses")
            origin = fetch_argos(name.removeprefix(_ARGOS), report)
        elif name.startswith(_FIREFOX):
            origin, entry = fetch_firefox(name.removeprefix(_FIREFOX), report)
            called = replace(
                names,
                name=names.name or f"firefox-{entry.source}-{entry.target}",
                sources=names.sources or [entry.source],
                targets=names.targets or [entry.target],
            )
        elif (full := full_name(name)) is not None:
            origin = fetch_repository(full, report)
        else:
            raise FetchError(
                f"{ascii(name)[1:-1][:100]}: no name of a model; they are like Helsinki-NLP/opus-mt-en-de, "
                "argos:en-de or firefox:en-de, and dragoman pull --list en de lists some"
            )
        import_model(str(origin), target, kind, called, options, report)

    return _run("pull", work)


def run_shortlist(bundle: Path, out: Path, options: ShortlistOptions, *, force: bool) -> int:
    """Write a copy of a bundle that has a shortlist and return the exit code."""
    return _run(
        "shortlist", lambda report: shortlist_bundle(bundle, out, options, force=force, report=report)
    )


def run_measure(bundle: Path, options: MeasureOptions) -> int:
    """Add or renew what is measured in a bundle and return the exit code."""
    return _run("measure", lambda report: measure_bundle(bundle, options, report))


def _run(command: str, work: Callable[[Callable[[str], None]], object]) -> int:
    started = time.monotonic()

    def report(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - started:6.1f} s] {line}\n")
        sys.stderr.flush()

    try:
        work(report)
    except _REFUSALS as error:
        sys.stderr.write(f"dragoman {command}: {error}".replace("\n", " ") + "\n")
        return EXIT_BAD_BUNDLE if isinstance(error, BundleError) else EXIT_FAILED
    return 0
