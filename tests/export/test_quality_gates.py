"""The gates notice what they are there for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from export.bundle import load_manifest
from export.graph.runner import Decoded, GraphRunner, Tokens
from export.quality_gates import (
    GateError,
    check_beam_graph,
    is_batch_invariant,
    largest_difference,
    pick_golden,
)
from model.tokenizer import Tokenizer


@pytest.fixture
def runner(tiny_bundle_int8: Path) -> GraphRunner:
    return open_decoder(tiny_bundle_int8, 1)


def open_decoder(bundle: Path, width: int, file_of: int | None = None) -> GraphRunner:
    manifest = load_manifest(bundle)
    tokens = manifest.special_tokens
    return GraphRunner(
        bundle / manifest.graphs.encoder,
        bundle / manifest.graphs.decoders[str(file_of or width)],
        start_id=tokens.decoder_start_id,
        eos_id=tokens.eos_id,
        pad_id=tokens.pad_id,
        beam_width=width,
    )


def golden_rows(bundle: Path) -> tuple[list[Tokens], list[Tokens]]:
    golden = load_manifest(bundle).golden
    return [entry.source_ids for entry in golden], [entry.target_ids for entry in golden]


def test_one_bit_of_difference_is_noticed(
    runner: GraphRunner, tiny_bundle_int8: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = golden_rows(tiny_bundle_int8)
    assert is_batch_invariant(runner, sources, targets)
    honest = runner.forced

    def neighbourly(rows: Sequence[Tokens], known: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        logits = honest(rows, known)
        if len(rows) > 1:
            logits[-1][-1, -1] = np.nextafter(logits[-1][-1, -1], np.float32(np.inf))
        return logits

    monkeypatch.setattr(runner, "forced", neighbourly)
    assert not is_batch_invariant(runner, sources, targets)


def test_a_difference_in_the_encoder_is_noticed(
    runner: GraphRunner, tiny_bundle_int8: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = runner.encode

    def padded_matters(rows: Sequence[Tokens], capacity: int = 0) -> dict[str, NDArray[np.float32]]:
        return {name: values + (1e-6 if capacity else 0) for name, values in honest(rows, capacity).items()}

    monkeypatch.setattr(runner, "encode", padded_matters)
    assert not is_batch_invariant(runner, *golden_rows(tiny_bundle_int8))


def test_beam_graphs_agree_with_the_single_one(runner: GraphRunner, tiny_bundle_int8: Path) -> None:
    sources, targets = golden_rows(tiny_bundle_int8)
    check_beam_graph(runner, open_decoder(tiny_bundle_int8, 4), 4, "int8", sources, targets)


def test_a_beam_graph_that_mixes_beams_up_is_stopped(
    runner: GraphRunner, tiny_bundle_int8: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = golden_rows(tiny_bundle_int8)
    wide = open_decoder(tiny_bundle_int8, 2)
    honest = wide.forced

    def swapped(rows: Sequence[Tokens], known: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        logits = honest(rows, known)
        return [logits[1] if len(logits[1]) == len(logits[0]) else logits[0] + 1, *logits[1:]]

    monkeypatch.setattr(wide, "forced", swapped)
    with pytest.raises(GateError, match="graph for 2 beams differs"):
        check_beam_graph(runner, wide, 2, "int8", sources, targets)


def test_only_what_is_infinite_in_one_graph_alone_makes_an_infinite_difference() -> None:
    ours = np.array([[1.0, -np.inf, 3.0]], np.float32)
    assert largest_difference(ours, ours + np.float32(0.25)) == 0.25
    assert largest_difference(ours, np.array([[1.0, 2.0, 3.0]], np.float32)) == np.inf
    assert np.isnan(largest_difference(ours, np.array([[np.nan, -np.inf, 3.0]], np.float32)))


def test_golden_sentences_must_end_by_themselves(runner: GraphRunner, tiny_bundle_int8: Path) -> None:
    tokenizer = Tokenizer.load(tiny_bundle_int8 / "source.spm")
    results = [Decoded(index, [5, 6, 7], finished=False) for index in range(20)]
    with pytest.raises(GateError, match="only 0 translations of 3 to 30 tokens end by themselves, 5 are"):
        pick_golden(runner, tokenizer, ["x"] * 20, [[5, 3]] * 20, results)
