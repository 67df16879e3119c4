"""Adds `align.onnx` to a bundle: chooses the heads that link words as its lexicon does, and measures that."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from export.assemble import decoder_file
from export.bundle import Attention, Manifest
from export.graph.attention_graph import Scales, export_attention
from export.graph.onnx_export import encoder_output_names
from export.graph.runner import GraphRunner, open_session
from export.graph.stored_weights import save_beside
from export.lexicon import Lexicon
from export.recovery.from_bundle import RecoveryError, recover_checkpoint
from export.text_measures.dev_translator import DevTranslator
from export.text_measures.learn_lexicon import MeasureError
from model.checkpoint import load_checkpoint
from model.evaluation.attention_maps import cross_attention
from model.transformer import Transformer

ATTENTION_FILE = "align.onnx"
CARD_TITLE = "## Attention"
_SENTENCES = 500
_SURE = 0.25
_FEWEST_LINKS = 20
_LOST = 0.03
"""Agreement that the graph of an int8 bundle may lack against the model in floats."""
_BATCH_ROWS = 32

Floats = NDArray[np.float32]
Ids = Sequence[int]


@dataclass(frozen=True)
class Links:
    """What the lexicon is sure of in a sentence.

    Attributes:
        source: ids that the encoder reads.
        target: ids of the translation, without start and end token.
        pairs: [K, 2], place in the source and place in the target.
        special: places of the source that are no part of the text.
    """

    source: Ids
    target: Ids
    pairs: NDArray[np.int64]
    special: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """Whose attention links words best, and how well.

    Attributes:
        layer: of the decoder.
        heads: of it; their weights are averaged.
        shift: 1 if a token is linked by the step that reads it, 0 by the one that writes it.
        agreement: share of the sure links that it has.
    """

    layer: int
    heads: tuple[int, ...]
    shift: int
    agreement: float


def add_attention(
    directory: Path, manifest: Manifest, texts: Sequence[str], set_name: str, threads: int = 1
) -> Attention:
    """Write the graph into a bundle that nobody serves, and describe it.

    Args:
        directory: a complete bundle with a lexicon; it gets a file, the manifest stays as it is.
        manifest: of the bundle.
        texts: of the source language, none longer than the model reads.
        set_name: of these.
        threads: intra-op threads.

    Raises:
        MeasureError: the bundle's model has no attention that could be shown, or too little is known of it.
    """
    if manifest.text is None:
        raise MeasureError("attention is chosen by the lexicon: measure that first")
    if manifest.precision == "fp16":
        raise MeasureError("attention runs on the processor: for bundles of int8 and fp32")
    details = manifest.architecture.details
    if details is not None and details.decoder_mixer != "attention":
        raise MeasureError("attention is exported of decoders with self-attention, and its has an ssru")
    model = _recovered(directory)
    translator = DevTranslator.of_bundle(directory, manifest, threads=threads)
    sizes = manifest.architecture.source_vocab_size, manifest.architecture.vocab_size
    lexicon = Lexicon.load(directory / manifest.text.lexicon, *sizes)
    chosen = list(texts)[:: max(1, -(-len(texts) // _SENTENCES))]
    framing = manifest.framing(*next(manifest.pairs))
    ends = len(framing.source_prefix), len(framing.source_suffix)
    pairs = zip(translator.source_ids(chosen), translator.target_ids(chosen, set_name), strict=True)
    found = [one for pair in pairs if len((one := sure_links(lexicon, *pair, *ends)).pairs)]
    count = sum(len(one.pairs) for one in found)
    if count < _FEWEST_LINKS:
        raise MeasureError(f"{set_name}: the lexicon is sure of {count} links only, too few to choose by")
    start = manifest.special_tokens.decoder_start_id
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        best = choose(model, found, start)
    finally:
        torch.set_num_threads(before)
    path = directory / ATTENTION_FILE
    decoder = directory / decoder_file(1)
    graph = export_attention(model, best.layer, best.heads, _scales(decoder, manifest))
    save_beside(graph, path, [decoder, directory / manifest.graphs.encoder])
    agreement = _agreement(directory, manifest, path, found, best.shift)
    if agreement < best.agreement - _LOST:
        raise MeasureError(
            f"{ATTENTION_FILE} has {agreement:.1%} of the lexicon's links, the model {best.agreement:.1%}"
        )
    return Attention(
        graph=ATTENTION_FILE,
        layer=best.layer,
        heads=best.heads,
        shift=1 if best.shift else 0,
        agreement=round(agreement, 4),
        links=count,
        set=set_name,
    )


def sure_links(lexicon: Lexicon, source: Ids, target: Ids, prefix: int, suffix: int) -> Links:
    """Find the pieces of a sentence and its translation that belong together without a doubt.

    Each is the other's likeliest counterpart, by a mean probability of both ways of a quarter at least, and
    stands there once.

    Args:
        lexicon: of the direction.
        source: ids that the encoder reads.
        target: ids of the translation.
        prefix: of the source, ids that are no part of the text.
        suffix: of the source, the same.
    """
    inner = source[prefix : len(source) - suffix]
    forward, backward = lexicon.forward.rows, lexicon.backward.rows
    scores = np.zeros((len(inner), len(target)))
    for i, one in enumerate(inner):
        row = dict(forward[one])
        for j, other in enumerate(target):
            if other in row:
                back = dict(backward[other]).get(one)
                scores[i, j] = 0.0 if back is None else np.exp((row[other] + back) / 2)
    pairs = [
        (i + prefix, j)
        for i, j in np.argwhere(scores >= _SURE).tolist()
        if scores[i].argmax() == j
        and scores[:, j].argmax() == i
        and list(inner).count(inner[i]) == list(target).count(target[j]) == 1
    ]
    special = (*range(prefix), *range(len(source) - suffix, len(source)))
    return Links(source, target, np.array(pairs, np.int64).reshape(-1, 2), special)


def choose(model: Transformer, found: Sequence[Links], start_id: int) -> Choice:
    """Try every layer, head and shift, and the mean of each layer's heads.

    Which step looks at the source word of a token depends on the model: with one decoder layer the step that
    writes it must; with several it is often the one that reads it (Chen et al., 2020).

    Args:
        model: in eval mode.
        found: sentences.
        start_id: that every target begins with.
    """
    config = model.config
    hits = np.zeros((2, config.decoder_layers, config.decoder_heads + 1))
    for one in found:
        ids = torch.tensor([one.source]), torch.tensor([[start_id, *one.target]])
        weights = cross_attention(model, *ids).numpy()
        both = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
        hits += [_hits(both, one, shift) for shift in (0, 1)]
    shift, layer, head = np.unravel_index(hits.argmax(), hits.shape)
    heads = (int(head),) if head < config.decoder_heads else tuple(range(config.decoder_heads))
    return Choice(int(layer), heads, int(shift), float(hits.max() / sum(len(one.pairs) for one in found)))


def _hits(weights: Floats, links: Links, shift: int) -> NDArray[np.float64]:
    """Count the links that attention [..., T, S] has, [...]."""
    weights = weights.copy()
    weights[..., list(links.special)] = -1
    best = weights.argmax(axis=-1)[..., links.pairs[:, 1] + shift]
    hits: NDArray[np.float64] = (best == links.pairs[:, 0]).sum(axis=-1).astype(np.float64)
    return hits


def _agreement(directory: Path, manifest: Manifest, path: Path, found: Sequence[Links], shift: int) -> float:
    """Run the graph as the server does."""
    runner, session = GraphRunner.of_bundle(directory, manifest), open_session(path)
    needed = [entry.name for entry in session.get_inputs()]
    start, pad = manifest.special_tokens.decoder_start_id, manifest.special_tokens.pad_id
    hits = 0.0
    order = sorted(found, key=lambda one: len(one.source))
    for at in range(0, len(order), _BATCH_ROWS):
        batch = order[at : at + _BATCH_ROWS]
        feeds = runner.encode([one.source for one in batch])
        targets = np.full((len(batch), 1 + max(len(one.target) for one in batch)), pad, np.int64)
        for row, one in enumerate(batch):
            targets[row, : len(one.target) + 1] = [start, *one.target]
        feeds |= {"target_ids": targets, "lengths": np.array([len(one.source) for one in batch], np.int32)}
        (weights,) = session.run(["attention"], {name: feeds[name] for name in needed})
        hits += sum(float(_hits(own, one, shift)) for own, one in zip(weights, batch, strict=True))
    return hits / sum(len(one.pairs) for one in found)


def _recovered(directory: Path) -> Transformer:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "checkpoint"
        try:
            recover_checkpoint(directory, out)
        except RecoveryError as error:
            raise MeasureError(str(error)) from error
        return load_checkpoint(out).transformer.eval()


def _scales(decoder: Path, manifest: Manifest) -> Scales:
    """Read what the decoder multiplies the encoder's int8 outputs by; int8 bundles of old have floats."""
    tensors = {tensor.name: tensor for tensor in onnx.load(decoder).graph.initializer}
    names = encoder_output_names(manifest.architecture.decoder_layers)
    found = [tensors.get(f"{name}.scale") for name in names]
    return [None if one is None else numpy_helper.to_array(one) for one in found]


def card_section(attention: Attention) -> str:
    """Write the section of the model card."""
    heads = ", ".join(str(head) for head in attention.heads)
    step = "reads" if attention.shift else "writes"
    return (
        f"{CARD_TITLE}\n\n`{attention.graph}` tells where the decoder looks: layer {attention.layer}, "
        f"heads {heads} (counted from 0), in the step that {step} a token. It has {attention.agreement:.1%} "
        f"of the {attention.links:,} links of pieces that the lexicon is sure of, on {attention.set}.\n"
    )
