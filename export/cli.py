"""What ``dragoman export`` does around the pipeline: progress on standard error, one line on failure."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from export.bundle import BundleError
from export.pipeline import ExportError, ExportOptions, export_bundle
from export.verify import GateError
from model.checkpoint import CheckpointError
from model.corpus import CorpusError
from model.tokenizer import TokenizerError

_REFUSALS = (BundleError, CheckpointError, CorpusError, ExportError, GateError, TokenizerError, OSError)


def run_export(checkpoint: Path, out: Path, options: ExportOptions) -> int:
    """Export a checkpoint and return the exit code: 0, or 1 after one line on standard error."""
    started = time.monotonic()
    torch.set_num_threads(options.threads)

    def report(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - started:6.1f} s] {line}\n")
        sys.stderr.flush()

    try:
        export_bundle(checkpoint, out, options, report)
    except _REFUSALS as error:
        sys.stderr.write(f"dragoman export: {error}\n")
        return 1
    return 0
