"""Checkpoint to bundle: export, calibrate, quantise, judge, write aside, rename."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import torch

from export.assemble import (
    ENCODER_FILE,
    Findings,
    complete,
    decoder_file,
    put_in_place,
    save_all_graphs,
    start_aside,
)
from export.bundle import Agreement, Calibration, Golden, Manifest, Parity, Precision, Quality, Score
from export.calibration import CalibratedRanges, Method, calibrate, hash_sample
from export.onnx_export import export_decoder, export_encoder
from export.quantize import quantize_graph
from export.runner import Decoded, GraphRunner
from export.verify import (
    MAX_BLEU_LOSS,
    MIN_AGREEMENT_BLEU,
    GateError,
    check_beam_graph,
    check_parity,
    decode_all,
    is_batch_invariant,
    measure_agreement,
    pick_golden,
    to_source_ids,
)
from model.checkpoint import Checkpoint, load_checkpoint
from model.corpus import read_lines, read_parallel
from model.scoring import score

BEAM_WIDTHS = (1, 2, 3, 4, 5, 6, 8)
MAX_BLEU_LOSS_OF_7_BITS = 0.1
_PARITY_SENTENCES = 300
_INVARIANCE_SENTENCES = 48
_BEAM_SENTENCES = 12


class ExportError(Exception):
    """An export cannot be done as asked; the message is one line."""


@dataclass(frozen=True)
class ExportOptions:
    """What to make of a checkpoint.

    Attributes:
        precision: of the graphs.
        dev_source: text for the gates, one sentence a line, plain or gzip.
        dev_target: its reference translation.
        golden: source text that golden sentences are chosen from and that so becomes part of the bundle;
            ``dev_source`` if None.
        calibration: source text that int8 activation ranges come from; ``dev_source`` if None.
        calibration_sentences: how many of its lines, drawn with a fixed seed.
        calibration_method: how a range is chosen.
        weight_bits: 7 or 8; None takes 7 unless that costs 0.1 BLEU against 8.
        beam_widths: one decoder graph each; 1 and the model's own default are always there.
        allow_quality_loss: write the bundle even if it loses more than 0.5 BLEU or, without references, is
            further from fp32 than a BLEU of 80.
        force: replace an existing bundle.
        version: of the bundle.
        notes: further sections of the model card, Markdown.
        threads: intra-op threads of the gates.
    """

    precision: Precision = "int8"
    dev_source: Path | None = None
    dev_target: Path | None = None
    golden: Path | None = None
    calibration: Path | None = None
    calibration_sentences: int = 512
    calibration_method: Method = "percentile"
    weight_bits: int | None = None
    beam_widths: Sequence[int] = BEAM_WIDTHS
    allow_quality_loss: bool = False
    force: bool = False
    version: str = "1"
    notes: str = ""
    threads: int = 1


@dataclass
class _Texts:
    """Text for the gates, tokenised once."""

    sources: list[str]
    ids: list[list[int]]
    references: list[str] | None
    name: str


@dataclass
class _Graphs:
    """Graphs of one precision in memory."""

    encoder: onnx.ModelProto
    decoders: dict[int, onnx.ModelProto]
    weight_bits: int | None = None
    results: list[Decoded] = field(default_factory=list)


def export_bundle(
    directory: Path, out: Path, options: ExportOptions, report: Callable[[str], None] = lambda line: None
) -> Manifest:
    """Export a checkpoint, judge the result and write the bundle.

    Args:
        directory: the checkpoint.
        out: the bundle; appears complete or not at all.
        options: see there.
        report: gets a line at every stage.

    Raises:
        ExportError: the options do not fit together, or ``out`` exists.
        GateError: the result is not good enough.
        CheckpointError: the checkpoint is damaged.
        CorpusError: a text file is unusable.
    """
    if out.exists() and not options.force:
        raise ExportError(f"{out} exists already; --force replaces it")
    if options.dev_source is None and options.calibration is None:
        raise ExportError(
            "text is needed for the gates: give --dev-source and --dev-target, or --calibration"
        )
    checkpoint = load_checkpoint(directory)
    return _Export(checkpoint, out, options, report).run()


class _Export:
    """One export from beginning to end."""

    def __init__(
        self, checkpoint: Checkpoint, out: Path, options: ExportOptions, report: Callable[[str], None]
    ) -> None:
        self.checkpoint = checkpoint
        self.out = out
        self.options = options
        self.report = report
        self.special = checkpoint.config.special_tokens
        self.limit = checkpoint.config.model.max_positions
        # The width that the model is meant for is always there: requests that do not choose get it.
        self.widths = sorted({1, *options.beam_widths, checkpoint.config.generation.beam_size or 1})

    def run(self) -> Manifest:
        texts = self._read_texts()
        self.report(f"exporting the encoder and {len(self.widths)} decoder graphs to ONNX")
        full = self._export(torch.float32)
        parity = self._check_parity(full, texts)
        calibration, graphs = None, full
        if self.options.precision == "fp16":
            self.report("exporting the same in fp16")
            graphs = self._export(torch.float16)
        elif self.options.precision == "int8":
            calibration, graphs = self._quantize(full, texts)
        quality = self._judge(full, graphs, texts)
        agreement = self._compare(full, graphs, texts) if quality is None else None
        aside = start_aside(self.out)
        try:
            save_all_graphs(aside, graphs.encoder, graphs.decoders)
            invariant, golden = self._check_files(aside, graphs, texts)
            findings = Findings(
                self.options.precision, parity, quality, agreement, calibration, invariant, golden
            )
            widths = tuple(self.widths)
            manifest = complete(
                aside, self.checkpoint, widths, findings, self.options.version, self.options.notes
            )
            put_in_place(aside, self.out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        size = sum(entry.size_bytes for entry in manifest.files.values())
        self.report(f"wrote {self.out}: {len(manifest.files) + 1} files, {size / 1e6:.1f} MB")
        return manifest

    def _read_texts(self) -> _Texts:
        options, references = self.options, None
        if options.dev_source is None:
            assert options.calibration is not None
            path, sources = options.calibration, [line for line in read_lines(options.calibration) if line]
        elif options.dev_target is None:
            path, sources = options.dev_source, [line for line in read_lines(options.dev_source) if line]
        else:
            path, pairs = options.dev_source, read_parallel([options.dev_source], [options.dev_target])
            sources, references = pairs.sources, pairs.targets
        return _Texts(sources, self._tokenize(sources, path), references, path.name)

    def _source_ids(self, sources: Sequence[str], directions: int = 1) -> list[list[int]]:
        """Tokenise for the first direction, or in turn for the first ``directions``."""
        prefixes = [d.source_prefix_ids for d in self.checkpoint.config.all_directions[:directions]]
        return to_source_ids(self.checkpoint.tokenizer, self.special, sources, prefixes)

    def _tokenize(self, sources: Sequence[str], path: Path) -> list[list[int]]:
        rows = self._source_ids(sources)
        for number, row in enumerate(rows, start=1):
            if len(row) > self.limit:
                raise ExportError(f"{path}:{number}: {len(row)} tokens, the model takes {self.limit}")
        return rows

    def _export(self, dtype: torch.dtype) -> _Graphs:
        model = self.checkpoint.model
        decoders = {width: export_decoder(model, width, dtype) for width in self.widths}
        return _Graphs(export_encoder(model, dtype), decoders)

    def _runner(self, encoder: Path | bytes, decoder: Path | bytes, width: int = 1) -> GraphRunner:
        return GraphRunner(
            encoder,
            decoder,
            start_id=self.special.decoder_start_id,
            eos_id=self.special.eos_id,
            pad_id=self.special.pad_id,
            beam_width=width,
            threads=self.options.threads,
            suppressed_ids=self.special.suppressed_ids,
        )

    def _in_memory(self, graphs: _Graphs) -> GraphRunner:
        return self._runner(graphs.encoder.SerializeToString(), graphs.decoders[1].SerializeToString())

    def _check_parity(self, full: _Graphs, texts: _Texts) -> Parity:
        sample = texts.ids[:_PARITY_SENTENCES]
        parity = check_parity(
            self.checkpoint.model,
            self._in_memory(full),
            sample,
            self.special.decoder_start_id,
            self.special.eos_id,
        )
        self.report(
            f"fp32 graphs against PyTorch, {parity.sentences} sentences: logits differ by at most "
            f"{parity.largest_logit_difference:.1e}, tokens agree"
        )
        return parity

    def _quantize(self, full: _Graphs, texts: _Texts) -> tuple[Calibration, _Graphs]:
        options = self.options
        path = options.calibration or options.dev_source
        assert path is not None
        lines = [line for line in read_lines(path) if line]
        if len(lines) > options.calibration_sentences:
            lines = random.Random(0).sample(lines, options.calibration_sentences)
        # A training corpus may hold lines that the model cannot take; they say nothing about ranges.
        every = len(self.checkpoint.config.all_directions)
        rows = [row for row in self._source_ids(lines, every) if len(row) <= self.limit]
        self.report(
            f"calibrating int8 on {len(lines)} sentences of {path.name} ({options.calibration_method})"
        )
        ranges = calibrate(
            full.encoder,
            full.decoders[1],
            rows,
            options.calibration_method,
            start_id=self.special.decoder_start_id,
            eos_id=self.special.eos_id,
            pad_id=self.special.pad_id,
            threads=options.threads,
            suppressed_ids=self.special.suppressed_ids,
        )
        graphs = self._choose_bits(full, ranges, texts)
        assert graphs.weight_bits is not None
        calibration = Calibration(
            method=options.calibration_method,
            weight_bits=graphs.weight_bits,
            sentences=len(lines),
            sample=path.name,
            sample_sha256=hash_sample(lines),
        )
        return calibration, graphs

    def _choose_bits(self, full: _Graphs, ranges: CalibratedRanges, texts: _Texts) -> _Graphs:
        def quantize(bits: int) -> _Graphs:
            decoders = {
                width: quantize_graph(graph, ranges.decoder, bits, ranges.caches)
                for width, graph in full.decoders.items()
            }
            return _Graphs(quantize_graph(full.encoder, ranges.encoder, bits, ranges.caches), decoders, bits)

        if self.options.weight_bits is not None:
            return quantize(self.options.weight_bits)
        seven = quantize(7)
        if texts.references is None:
            return seven
        eight = quantize(8)
        loss = self._bleu(eight, texts).bleu - self._bleu(seven, texts).bleu
        self.report(f"7-bit weights lose {loss:.2f} BLEU against 8-bit")
        return seven if loss < MAX_BLEU_LOSS_OF_7_BITS else eight

    def _decode(self, graphs: _Graphs, texts: _Texts) -> list[Decoded]:
        if not graphs.results:
            graphs.results = decode_all(self._in_memory(graphs), texts.ids)
        return graphs.results

    def _bleu(self, graphs: _Graphs, texts: _Texts) -> Score:
        assert texts.references is not None
        decode = self.checkpoint.tokenizer.decode
        measured = score([decode(result.tokens) for result in self._decode(graphs, texts)], texts.references)
        return Score(bleu=measured.bleu, chrf=measured.chrf)

    def _compare(self, full: _Graphs, graphs: _Graphs, texts: _Texts) -> Agreement | None:
        """Without references, judge by how close the translations are to those of fp32."""
        precision = self.options.precision
        if precision == "fp32":
            return None
        self.report(f"translating {len(texts.sources)} sentences")
        found = measure_agreement(
            self.checkpoint.tokenizer, texts.name, self._decode(full, texts), self._decode(graphs, texts)
        )
        self.report(
            f"{precision} against fp32: {found.same_tokens} of {found.sentences} translations are the same, "
            f"BLEU {found.bleu:.1f}"
        )
        lost = found.bleu < MIN_AGREEMENT_BLEU
        if lost and not self.options.allow_quality_loss:
            raise GateError(
                f"{precision} translations of {texts.name} have BLEU {found.bleu:.1f} against those of fp32, "
                f"less than {MIN_AGREEMENT_BLEU:g}; --allow-quality-loss overrides"
            )
        return found.model_copy(update={"loss_accepted_by_flag": lost})

    def _judge(self, full: _Graphs, graphs: _Graphs, texts: _Texts) -> Quality | None:
        precision = self.options.precision
        if texts.references is None:
            return None
        self.report(f"translating {len(texts.sources)} dev sentences")
        scores: dict[Precision, Score] = {"fp32": self._bleu(full, texts)}
        if precision != "fp32":
            scores[precision] = self._bleu(graphs, texts)
        for name, measured in scores.items():
            self.report(f"{name}: BLEU {measured.bleu:.2f}, chrF {measured.chrf:.2f}")
        loss = round(scores["fp32"].bleu - scores[precision].bleu, 2)
        if loss > MAX_BLEU_LOSS and not self.options.allow_quality_loss:
            raise GateError(
                f"{precision} loses {loss:.2f} BLEU on {texts.name}, more than {MAX_BLEU_LOSS}; "
                "--allow-quality-loss overrides"
            )
        signatures = score(texts.references[:1], texts.references[:1])
        return Quality(
            set=texts.name,
            sentences=len(texts.sources),
            signature_bleu=signatures.bleu_signature,
            signature_chrf=signatures.chrf_signature,
            scores=scores,
            bleu_loss=loss,
            loss_accepted_by_flag=loss > MAX_BLEU_LOSS,
        )

    def _check_files(self, aside: Path, graphs: _Graphs, texts: _Texts) -> tuple[bool, tuple[Golden, ...]]:
        """Run the gates that look at the written files: batch invariance, beam graphs, golden sentences."""
        encoder = aside / ENCODER_FILE
        single = self._runner(encoder, aside / decoder_file(1))
        results = self._decode(graphs, texts)
        # A stride, so that short and long sentences meet in one batch.
        chosen = results[:: max(1, len(results) // _INVARIANCE_SENTENCES)][:_INVARIANCE_SENTENCES]
        sources, targets = (
            [texts.ids[result.index] for result in chosen],
            [result.tokens for result in chosen],
        )
        invariant = is_batch_invariant(single, sources, targets)
        self.report(f"batch-invariant bit by bit: {'yes' if invariant else 'no'}")
        few = slice(_BEAM_SENTENCES)
        for width in self.widths[1:]:
            wide = self._runner(encoder, aside / decoder_file(width), width)
            check_beam_graph(single, wide, width, self.options.precision, sources[few], targets[few])
        return invariant, self._golden(single, texts, results)

    def _golden(self, runner: GraphRunner, texts: _Texts, results: Sequence[Decoded]) -> tuple[Golden, ...]:
        tokenizer, path = self.checkpoint.tokenizer, self.options.golden
        if path is None:
            return pick_golden(runner, tokenizer, texts.sources, texts.ids, results)
        sources = read_lines(path)
        ids = self._tokenize(sources, path)
        return pick_golden(runner, tokenizer, sources, ids, decode_all(runner, ids))
