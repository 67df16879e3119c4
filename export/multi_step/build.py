"""The multi-step graphs of one bundle: made of its decoders, kept if they do what the decoders do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from export.assemble import multi_step_file
from export.graph.runner import GraphRunner, Source, open_session
from export.multi_step.beam_graph import beam_multi_step_graph
from export.multi_step.greedy_graph import greedy_multi_step_graph
from export.quality_gates import is_same_in_multi_step

_BEAM_SENTENCES = 4


def multi_step_graphs(decoders: Mapping[int, onnx.ModelProto]) -> dict[int, onnx.ModelProto]:
    """Make the multi-step graph of every int8 decoder, by beam width."""
    return {
        width: greedy_multi_step_graph(decoder) if width == 1 else beam_multi_step_graph(decoder, width)
        for width, decoder in decoders.items()
    }


def check_multi_step(
    directory: Path,
    runner: GraphRunner,
    width: int,
    sources: Sequence[Source],
    steps: Sequence[int],
    report: Callable[[str], None],
) -> None:
    """Remove the multi-step graph that does not do what single steps do, which then have to do.

    Args:
        directory: where it is, if there is one.
        runner: of the decoder of this beam width.
        width: beams K.
        sources: sentences.
        steps: of each.
        report: takes one line.
    """
    file = directory / multi_step_file(width)
    if not file.is_file():
        return
    multi_step = open_session(file)
    if width == 1:
        same = is_same_in_multi_step(runner, multi_step, sources, steps)
    else:
        same = runner.agrees_in_beams(sources[:_BEAM_SENTENCES], max(steps), multi_step)
    report(f"beam width {width}: several steps in one run are the same: {'yes' if same else 'no'}")
    if not same:
        file.unlink()
