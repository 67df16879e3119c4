"""Gives a bundle a shortlist: learns or reads the table, measures what it costs, and adds files and manifest.

A shortlist is worth its while where the vocabulary is large: with 32,000 words the projection is 43 % of the
multiplications of a decoder of 6 layers of 512. Each sentence is then decoded over some hundred to 2,000
words that its own source words may become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from export.assemble import WEIGHTS_FILE
from export.bundle import Manifest, Shortlist, copy_bundle, renewed, verify_bundle
from export.graph.runner import GraphRunner, Tokens
from export.graph.shared_weights import save_graphs
from export.quality_gates import MIN_GOLDEN_SENTENCES, GateError
from export.shortlist.graphs import (
    ShortlistError,
    column_graph,
    with_bound_columns,
)
from export.shortlist.lexical_table import Candidates, LexicalTable, make_table, save_table
from export.shortlist.marian import is_marian_shortlist, read_marian_shortlist
from export.shortlist.vmap import read_vmap
from model.checkpoint import replacing
from model.data.corpus import ParallelText, read_parallel
from model.data.word_alignment import learn_translations
from model.evaluation.scoring import score
from model.tokenizer import Tokenizer

MAX_BLEU_LOSS = 0.2
"""Of greedy decoding on the dev set, against the same graphs over the whole vocabulary."""

MAX_BATCH_SHARE = 1 / 3
"""Of the vocabulary that the sentences of a batch may need together: with more, decoding gets no faster."""

BATCH_SENTENCES = 32
"""Of the batches of dev sentences of which that is measured."""

TABLE_FILE, COLUMNS_FILE = "shortlist.npz", "shortlist.columns.onnx"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class ShortlistOptions:
    """Where a shortlist comes from and how it is judged.

    Attributes:
        dev_source: text for the gate, one sentence a line, plain or gzip.
        dev_target: its reference translation.
        source: text to learn the table from.
        target: its translation.
        vmap: CTranslate2's vocabulary map or Marian's binary shortlist, instead of a text.
        per_piece: most probable targets kept for a source piece. On the default model's dev set of 2,060
            sentences, 30 lose 0.07 BLEU, 50 lose 0.03, 100 nothing.
        frequent: most frequent target pieces that are always candidates.
        allow_quality_loss: add it even if it loses more than 0.2 BLEU.
        allow_wide: add it even if batches need more than a third of the vocabulary.
        threads: intra-op threads of the gate.
    """

    dev_source: Path
    dev_target: Path
    source: Path | None = None
    target: Path | None = None
    vmap: Path | None = None
    per_piece: int = 100
    frequent: int = 200
    allow_quality_loss: bool = False
    allow_wide: bool = False
    threads: int = 1


def shortlist_bundle(
    bundle: Path,
    out: Path,
    options: ShortlistOptions,
    *,
    force: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> Manifest:
    """Write a copy of a bundle that has a shortlist.

    Args:
        bundle: an int8 bundle; it is not changed.
        out: the new one; appears complete or not at all.
        options: see there.
        force: replace a bundle that is there.
        report: gets a line at every stage.

    Raises:
        ShortlistError: ``out`` exists, or as `add_shortlist`, which see for the others.
    """
    if out.exists() and not force:
        raise ShortlistError(f"{out} exists already; --force replaces it")
    with replacing(out) as aside:
        copy_bundle(bundle, aside)
        return add_shortlist(aside, options, report)


def add_shortlist(
    directory: Path, options: ShortlistOptions, report: Callable[[str], None] = lambda line: None
) -> Manifest:
    """Add a shortlist to a bundle that nobody serves: a copy, or one under construction.

    Args:
        directory: a complete int8 bundle; changed in place.
        options: see there.
        report: gets a line at every stage.

    Raises:
        ShortlistError: the bundle cannot have one, or the options do not fit together.
        GateError: it costs too much, or is too wide to gain anything.
        BundleError: the bundle is damaged.
        CorpusError: a text file is unusable.
        VmapError: the vocabulary map is.
    """
    manifest = verify_bundle(directory)
    if manifest.shortlist is not None:
        raise ShortlistError(f"{directory} has a shortlist already; start from the bundle without it")
    if manifest.precision != "int8" or manifest.architecture.source_features:
        found = "one of features" if manifest.architecture.source_features else manifest.precision
        raise ShortlistError(f"a shortlist needs precision int8, this bundle is {found}")
    dev = read_parallel([options.dev_source], [options.dev_target])
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(directory))
    table, origin = _make(manifest, tokenizer, options, report)
    measured = _judge(directory, manifest, tokenizer, table, dev, options, report)
    widths = [str(width) for width in manifest.graphs.beam_widths]
    decoders = {width: f"shortlist.{manifest.graphs.decoders[width]}" for width in widths}
    _write_graphs(directory, manifest, decoders)
    save_table(directory / TABLE_FILE, table)
    learnt = options.vmap is None
    shortlist = Shortlist(
        table=TABLE_FILE,
        columns=COLUMNS_FILE,
        decoders=decoders,
        origin=origin,
        per_piece=options.per_piece if learnt else None,
        frequent=options.frequent if learnt else None,
        mean_candidates=measured.mean_candidates,
        set=options.dev_source.name,
        sentences=measured.sentences,
        bleu_all=measured.bleu_all,
        bleu=measured.bleu,
        bleu_loss=measured.loss,
        loss_accepted_by_flag=measured.loss > MAX_BLEU_LOSS,
    )
    with (directory / "MODEL_CARD.md").open("a", encoding="utf-8") as card:
        card.write(_card(shortlist))
    golden = tuple(g for g in manifest.golden if set(g.target_ids) <= set(Candidates(table).of(g.source_ids)))
    if len(golden) < min(MIN_GOLDEN_SENTENCES, len(manifest.golden)):
        raise GateError(
            f"only {len(golden)} of {len(manifest.golden)} golden translations lie within their candidates; "
            "keep more of them for each source piece"
        )
    return renewed(directory, manifest, shortlist=shortlist, golden=golden)


def _make(
    manifest: Manifest, tokenizer: Tokenizer, options: ShortlistOptions, report: Callable[[str], None]
) -> tuple[LexicalTable, str]:
    """Learn or read the table; also says where it comes from."""
    pieces = tokenizer.source_pieces(), tokenizer.target_pieces()
    always = _always(manifest, pieces[1])
    if options.vmap is not None and is_marian_shortlist(options.vmap):
        is_shared = manifest.tokenizer.target is None and manifest.tokenizer.target_vocabulary is None
        sizes = len(pieces[0]), len(pieces[1])
        return read_marian_shortlist(options.vmap, *sizes, always, is_shared=is_shared), options.vmap.name
    if options.vmap is not None:
        source_ids, target_ids = ({piece: i for i, piece in enumerate(side) if piece} for side in pieces)
        return read_vmap(options.vmap, source_ids, target_ids, always), options.vmap.name
    if options.source is None or options.target is None:
        raise ShortlistError("a shortlist is learnt from a text and its translation, or read from a vmap")
    if (count := len(list(manifest.pairs))) > 1:
        raise ShortlistError(f"a table is learnt for one direction, this bundle has {count}; give a vmap")
    text = read_parallel([options.source], [options.target])
    report(f"learning which words become which from {len(text)} sentence pairs of {options.source.name}")
    sources = _source_ids(manifest, tokenizer, text.sources)
    targets = tokenizer.encode_target_batch(text.targets)
    sizes = len(pieces[0]), len(pieces[1])
    table = make_table(
        learn_translations(sources, targets, *sizes),
        np.bincount(np.concatenate([np.array(ids, np.int64) for ids in targets]), minlength=sizes[1]),
        per_piece=options.per_piece,
        frequent=options.frequent,
        always=always,
        copies=_copies(*pieces),
    )
    return table, f"{options.source.name}, {len(text)} sentence pairs"


def _always(manifest: Manifest, target_pieces: Sequence[str]) -> list[int]:
    """List what every sentence may need: special tokens, and bytes, which spell anything."""
    special = manifest.special_tokens
    tokens = {special.unk_id, special.bos_id, special.eos_id, *special.target_prefix_ids}
    for way in (*manifest.directions, *manifest.languages):
        tokens.update(way.target_prefix_ids)
    return sorted(tokens | {i for i, piece in enumerate(target_pieces) if _BYTE.fullmatch(piece)})


def _copies(source_pieces: Sequence[str], target_pieces: Sequence[str]) -> dict[int, int]:
    """Map source ids to the target ids of the same pieces."""
    known = {piece: i for i, piece in enumerate(target_pieces) if piece}
    return {i: known[piece] for i, piece in enumerate(source_pieces) if piece in known}


def _source_ids(manifest: Manifest, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise as the server does for the first direction."""
    around = manifest.framing(*next(manifest.pairs))
    return [[*around.source_prefix, *ids, *around.source_suffix] for ids in tokenizer.encode_batch(texts)]


@dataclass(frozen=True)
class _Measured:
    """What the gate found."""

    sentences: int
    mean_candidates: float
    bleu_all: float
    bleu: float

    @property
    def loss(self) -> float:
        return round(self.bleu_all - self.bleu, 2)


def _judge(
    directory: Path,
    manifest: Manifest,
    tokenizer: Tokenizer,
    table: LexicalTable,
    text: ParallelText,
    options: ShortlistOptions,
    report: Callable[[str], None],
) -> _Measured:
    """Translate the dev set over the whole vocabulary and over the candidates."""
    vocabulary_size = manifest.architecture.vocab_size
    prefix = manifest.framing(*next(manifest.pairs)).target_prefix
    sources = _source_ids(manifest, tokenizer, text.sources)
    runner = GraphRunner.of_bundle(directory, manifest, threads=options.threads)
    found = Candidates(table)
    candidates = [found.of(source) for source in sources]
    share = batch_share(candidates, vocabulary_size)
    if share > MAX_BATCH_SHARE and not options.allow_wide:
        raise GateError(
            f"{BATCH_SENTENCES} sentences of {options.dev_source.name} need {share:.0%} of the vocabulary "
            f"together, more than {MAX_BATCH_SHARE:.0%}: decoding would get no faster; keep fewer candidates "
            "for each piece, or --allow-wide overrides"
        )
    report(f"translating {len(sources)} dev sentences over all words and over their candidates")

    def bleu(allowed: Sequence[Tokens] | None) -> float:
        targets = decode_within(runner, sources, allowed, vocabulary_size, prefix)
        return score([tokenizer.decode(target) for target in targets], text.targets).bleu

    mean = float(np.mean([len(ids) for ids in candidates]))
    measured = _Measured(len(sources), round(mean, 1), bleu(None), bleu(candidates))
    report(
        f"{mean:.0f} candidates a sentence: BLEU {measured.bleu:.2f}, over all words {measured.bleu_all:.2f}"
    )
    if measured.loss > MAX_BLEU_LOSS and not options.allow_quality_loss:
        raise GateError(
            f"the shortlist loses {measured.loss:.2f} BLEU on {options.dev_source.name}, more than "
            f"{MAX_BLEU_LOSS}; keep more candidates for each piece, or --allow-quality-loss overrides"
        )
    return measured


def batch_share(candidates: Sequence[Tokens], vocabulary_size: int) -> float:
    """Measure the share of the vocabulary that `BATCH_SENTENCES` sentences need together, on average.

    Args:
        candidates: of each sentence, in the order of the text.
        vocabulary_size: V.
    """
    batches = [
        candidates[first : first + BATCH_SENTENCES] for first in range(0, len(candidates), BATCH_SENTENCES)
    ]
    full = [batch for batch in batches if len(batch) == BATCH_SENTENCES] or batches
    return float(np.mean([len(set().union(*batch)) for batch in full])) / vocabulary_size


def decode_within(
    runner: GraphRunner,
    sources: Sequence[Tokens],
    candidates: Sequence[Tokens] | None,
    vocabulary_size: int,
    prefix: Tokens = (),
) -> list[list[int]]:
    """Decode greedily, each sentence within its candidates.

    Args:
        runner: of a bundle's graphs over the whole vocabulary, one beam.
        sources: sentences.
        candidates: what each may become; None for everything.
        vocabulary_size: V.
        prefix: what every target begins with, whatever is probable.

    Returns:
        Targets in the order of the sources, without the end token.
    """

    def masks(rows: Sequence[int]) -> NDArray[np.float32]:
        mask = np.zeros((len(rows), vocabulary_size), np.float32)
        if candidates is not None:
            mask[:] = -np.inf
            for row, index in enumerate(rows):
                mask[row, list(candidates[index])] = 0
        return mask

    results = runner.greedy(sources, prefixes=[prefix] * len(sources), masks=masks)
    return [result.tokens for result in sorted(results, key=lambda result: result.index)]


def _write_graphs(directory: Path, manifest: Manifest, decoders: dict[str, str]) -> None:
    """Write decoders over bound columns, and the columns, over the weights that are there.

    The bundle's own graphs come first, so that they are written as they were.
    """
    widths = [manifest.graphs.decoders[width] for width in decoders]
    own = [manifest.graphs.encoder, *widths, *manifest.graphs.all_multi_step]
    graphs = {graph: onnx.load(directory / graph) for graph in own}
    whole = [graphs[graph] for graph in widths]
    graphs |= {name: with_bound_columns(graph) for name, graph in zip(decoders.values(), whole, strict=True)}
    graphs[COLUMNS_FILE] = column_graph(whole[0])
    save_graphs(directory, graphs, WEIGHTS_FILE)


def _card(shortlist: Shortlist) -> str:
    """Say in the model card what was added."""
    return (
        f"\n## Shortlist\n\nEvery sentence is decoded over its own candidate words, "
        f"{shortlist.mean_candidates:.0f} on average ({shortlist.origin}). On {shortlist.set}, greedy: BLEU "
        f"{shortlist.bleu:.2f} with it, {shortlist.bleu_all:.2f} over the whole vocabulary. The server can "
        "be told not to use it.\n"
    )
