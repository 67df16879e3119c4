"""Checkpoint to bundle: export, calibrate, quantise, judge, write aside, rename."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from export.assemble import (
    ENCODER_FILE,
    check_config,
    complete,
    decoder_file,
    save_all_graphs,
)
from export.bundle import Agreement, Calibration, Golden, Manifest, Parity, Precision, Quality, Score
from export.card import About, Findings
from export.gate_texts import ExportError, Sample, Texts, calibration_sample, read_texts, spread
from export.graph.graph_set import GraphSet, export_graphs
from export.graph.runner import Decoded, GraphRunner
from export.int8.cache_writes import with_own_writes
from export.int8.calibration import CalibratedRanges, Method, calibrate, hash_sample
from export.int8.quantized_set import quantize_graphs
from export.lexicon import DEFAULT_ENTRIES
from export.multi_step.build import check_multi_step, multi_step_graphs
from export.quality_gates import (
    GOLDEN_CANDIDATES,
    MAX_BLEU_LOSS,
    MIN_AGREEMENT_BLEU,
    MIN_PARITY_SENTENCES,
    GateError,
    check_beam_graph,
    check_parity,
    decode_all,
    is_batch_invariant,
    measure_agreement,
    pick_golden,
)
from export.text_measures.learn_lexicon import LexiconTexts
from export.text_measures.measure import MeasureOptions, add_text_measures
from model.checkpoint import Checkpoint, load_checkpoint, replacing, start_aside
from model.evaluation.scoring import score

BEAM_WIDTHS = (1, 2, 3, 4, 5, 6, 8)
MAX_BLEU_LOSS_OF_7_BITS = 0.1
_LARGE_PARAMETERS = 100e6
_MEMORY_BYTES, _DISK_BYTES = 24, 14  # of a parameter, measured with 0.6 billion
_PARITY_SENTENCES = 300
_INVARIANCE_SENTENCES = 48
_BEAM_SENTENCES = 12


@dataclass(frozen=True)
class ExportOptions:
    """What to make of a checkpoint.

    Attributes:
        precision: of the graphs.
        dev_source: text for the gates, one sentence a line, plain or gzip: a file for the first direction, a
            second one for the second, and so on.
        dev_target: its reference translation.
        golden: source text that golden sentences are chosen from and that so becomes part of the bundle, by
            direction as above; ``dev_source`` if there is none.
        calibration: source text that int8 activation ranges come from, one file for all directions or one
            each; ``dev_source`` if there is none.
        lexicon: text to learn which words become which from; with it, the text layer's measures are taken on
            the first file of ``dev_source``.
        attention: adds a graph that tells where the model looks; needs ``lexicon``.
        calibration_sentences: how many of its lines, drawn with a fixed seed.
        calibration_method: how a range is chosen.
        weight_bits: 7 or 8; None takes 7 unless that costs 0.1 BLEU against 8.
        beam_widths: one decoder graph each; 1 and the model's own default are always there.
        multi_step_widths: beam widths above 1 that get a multi-step graph, int8 only; None for the model's
            own default. Width 1 always has one.
        allow_quality_loss: write the bundle even if it loses more than 0.5 BLEU or, without references, is
            further from fp32 than a BLEU of 80.
        force: replace an existing bundle.
        about: what the bundle says of itself.
        threads: intra-op threads of the gates.
    """

    precision: Precision = "int8"
    dev_source: Sequence[Path] = ()
    dev_target: Sequence[Path] = ()
    golden: Sequence[Path] = ()
    calibration: Sequence[Path] = ()
    lexicon: LexiconTexts | None = None
    attention: bool = False
    calibration_sentences: int = 512
    calibration_method: Method = "percentile"
    weight_bits: int | None = None
    beam_widths: Sequence[int] = BEAM_WIDTHS
    multi_step_widths: Sequence[int] | None = None
    allow_quality_loss: bool = False
    force: bool = False
    about: About = field(default_factory=About)
    threads: int = 1


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
    options.about.check()
    if not options.dev_source and not options.calibration:
        raise ExportError("text for the gates is needed: --dev-source and --dev-target, or --calibration")
    checkpoint = load_checkpoint(directory)
    check_config(checkpoint)
    if options.lexicon is not None:
        options.lexicon.check(len(checkpoint.config.all_directions))
    if options.attention and (options.lexicon is None or options.precision == "fp16"):
        raise ExportError("--attention needs text for a lexicon, and int8 or fp32: it runs on the processor")
    if options.lexicon is not None and checkpoint.config.transformer.source_features:
        raise ExportError(f"{checkpoint.config.name} reads features, which have no lexicon")
    if checkpoint.config.transformer.unservable:
        raise ExportError(checkpoint.config.transformer.unservable)
    if checkpoint.config.transformer.relative_distances and options.precision == "fp16":
        raise ExportError("fp16 is for CUDA, whose attention takes no biases of distances; int8 and fp32 do")
    export = _Export(checkpoint, out, options, report)
    try:
        return export.run()
    finally:
        shutil.rmtree(export.folder, ignore_errors=True)


class _Export:
    """One export from beginning to end."""

    def __init__(
        self, checkpoint: Checkpoint, out: Path, options: ExportOptions, report: Callable[[str], None]
    ) -> None:
        self.checkpoint = checkpoint
        self.out = out
        self.options = options
        self.report = report
        self.parameters = sum(tensor.numel() for tensor in checkpoint.transformer.parameters())
        self.special = checkpoint.config.special_tokens
        # The width that the model is meant for is always there: requests that do not choose get it.
        default = checkpoint.config.generation.beam_size or 1
        self.widths = sorted({1, *options.beam_widths, default})
        named = [default] if options.multi_step_widths is None else options.multi_step_widths
        self.multi_step_widths = sorted({1, *named})
        if missing := set(named) - set(self.widths):
            where = f"--multi-step-widths: beam width {min(missing)}"
            raise ExportError(f"{where} has no decoder graph; add it to --beam-widths")
        self.folder = start_aside(out, "graphs")

    def run(self) -> Manifest:
        options, widths = self.options, tuple(self.widths)
        sources = options.dev_source or options.calibration
        references = options.dev_target if options.dev_source else ()
        texts = read_texts(self.checkpoint, sources, references)
        golden_texts = read_texts(self.checkpoint, options.golden) if options.golden else texts
        sample = None
        if options.precision == "int8":
            count = self._few(options.calibration_sentences)
            sample = calibration_sample(self.checkpoint, options.calibration or sources, count)
        if self.parameters > _LARGE_PARAMETERS:
            memory, disk = (share * self.parameters / 1e9 for share in (_MEMORY_BYTES, _DISK_BYTES))
            self.report(f"this takes about {memory:.0f} GB of memory, and {disk:.0f} GB beside {self.out}")
        self.report(f"exporting the encoder and the decoder of {len(self.widths)} beam widths to ONNX")
        full = self._export(torch.float32)
        parity = self._check_parity(full, texts)
        calibration, graphs = None, full
        if options.precision == "fp16":
            self.report("exporting the same in fp16")
            graphs = self._export(torch.float16)
        elif sample is not None:
            calibration, graphs = self._quantize(full, sample, texts)
        quality = self._judge(full, graphs, texts)
        agreement = self._compare(full, graphs, texts) if quality is None else None
        with replacing(self.out) as aside:
            widths_of_steps = self.multi_step_widths if options.precision == "int8" else []
            multi_step = multi_step_graphs({width: graphs.decoder(width) for width in widths_of_steps})
            decoders = {width: with_own_writes(graphs.decoder(width)) for width in widths}
            save_all_graphs(aside, graphs.encoder, decoders, multi_step, graphs.folder)
            invariant, golden = self._check_files(aside, graphs, texts, golden_texts)
            findings = Findings(options.precision, parity, quality, agreement, calibration, invariant, golden)
            manifest = complete(aside, self.checkpoint, widths, findings, options.about)
            if options.lexicon is not None:
                files = sources[0], next(iter(references), None)
                how = MeasureOptions(
                    *files, options.lexicon, DEFAULT_ENTRIES, options.threads, options.attention
                )
                manifest = add_text_measures(aside, how, self.report)
        size = sum(entry.size_bytes for entry in manifest.files.values())
        self.report(f"wrote {self.out}: {len(manifest.files) + 1} files, {size / 1e6:.1f} MB")
        return manifest

    def _export(self, dtype: torch.dtype) -> GraphSet:
        return export_graphs(self.checkpoint.transformer, dtype, self.folder)

    def _few(self, sentences: int) -> int:
        """Of a large model, whose every token costs, gates see fewer sentences."""
        return max(sentences // 8, round(sentences * min(1.0, _LARGE_PARAMETERS / self.parameters)))

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
            max_positions=self.checkpoint.config.transformer.max_positions,
        )

    def _check_parity(self, full: GraphSet, texts: Texts) -> Parity:
        count = self._few(_PARITY_SENTENCES)
        sample, prefixes = spread(texts.ids, count), spread(texts.prefixes, count)
        parity = check_parity(
            self.checkpoint.transformer,
            self._runner(*full.write()),
            sample,
            self.special.decoder_start_id,
            self.special.eos_id,
            prefixes,
            self._few(MIN_PARITY_SENTENCES),
        )
        self.report(
            f"fp32 graphs against PyTorch, {parity.sentences} sentences: logits differ by at most "
            f"{parity.largest_logit_difference:.1e}, tokens agree"
        )
        return parity

    def _quantize(self, full: GraphSet, sample: Sample, texts: Texts) -> tuple[Calibration, GraphSet]:
        count, method = len(sample.lines), self.options.calibration_method
        self.report(f"calibrating int8 on {count} sentences of {sample.name} ({method})")
        ranges = calibrate(
            full.encoder,
            full.decoder(1),
            sample.rows,
            method,
            start_id=self.special.decoder_start_id,
            eos_id=self.special.eos_id,
            pad_id=self.special.pad_id,
            threads=self.options.threads,
            suppressed_ids=self.special.suppressed_ids,
            max_positions=self.checkpoint.config.transformer.max_positions,
            prefixes=sample.prefixes,
            folder=full.folder,
        )
        graphs = self._choose_bits(full, ranges, texts)
        assert graphs.weight_bits is not None
        calibration = Calibration(
            method=method,
            weight_bits=graphs.weight_bits,
            sentences=count,
            sample=sample.name,
            sample_sha256=hash_sample(sample.lines),
        )
        return calibration, graphs

    def _choose_bits(self, full: GraphSet, ranges: CalibratedRanges, texts: Texts) -> GraphSet:
        if self.options.weight_bits is not None:
            return quantize_graphs(full, ranges, self.options.weight_bits)
        seven = quantize_graphs(full, ranges, 7)
        if texts.references is None:
            return seven
        eight = quantize_graphs(full, ranges, 8)
        loss = self._bleu(eight, texts).bleu - self._bleu(seven, texts).bleu
        self.report(f"7-bit weights lose {loss:.2f} BLEU against 8-bit")
        return seven if loss < MAX_BLEU_LOSS_OF_7_BITS else eight

    def _decode(self, graphs: GraphSet, texts: Texts) -> list[Decoded]:
        if not graphs.results:
            graphs.results = decode_all(self._runner(*graphs.write()), texts.ids, texts.prefixes)
        return graphs.results

    def _bleu(self, graphs: GraphSet, texts: Texts) -> Score:
        assert texts.references is not None
        return self._score(self._decode(graphs, texts), texts.references)

    def _score(self, results: Sequence[Decoded], references: Sequence[str]) -> Score:
        decode = self.checkpoint.tokenizer.decode
        measured = score([decode(result.tokens) for result in results], references)
        return Score(bleu=measured.bleu, chrf=measured.chrf)

    def _compare(self, full: GraphSet, graphs: GraphSet, texts: Texts) -> Agreement | None:
        """Without references, judge by how close the translations are to those of fp32."""
        precision = self.options.precision
        if precision == "fp32":
            return None
        self.report(f"translating {len(texts.ids)} sentences")
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

    def _judge(self, full: GraphSet, graphs: GraphSet, texts: Texts) -> Quality | None:
        precision = self.options.precision
        if texts.references is None:
            return None
        self.report(f"translating {len(texts.ids)} dev sentences")
        judged: dict[Precision, GraphSet] = {"fp32": full, precision: graphs}
        scores = {name: self._bleu(of_one, texts) for name, of_one in judged.items()}
        for name, measured in scores.items():
            self.report(f"{name}: BLEU {measured.bleu:.2f}, chrF {measured.chrf:.2f}")
        by_direction: dict[str, dict[Precision, Score]] = {}
        for name, of_one in judged.items() if len(texts.parts) > 1 else ():
            for part, results in texts.of_parts(self._decode(of_one, texts)):
                measured = self._score(results, part.references or [])
                by_direction.setdefault(part.direction.name, {})[name] = measured
                self.report(
                    f"{name}, {part.direction.name}: BLEU {measured.bleu:.2f}, chrF {measured.chrf:.2f}"
                )
        loss = round(scores["fp32"].bleu - scores[precision].bleu, 2)
        if loss > MAX_BLEU_LOSS and not self.options.allow_quality_loss:
            raise GateError(
                f"{precision} loses {loss:.2f} BLEU on {texts.name}, more than {MAX_BLEU_LOSS}; "
                "--allow-quality-loss overrides"
            )
        signatures = score(texts.references[:1], texts.references[:1])
        return Quality(
            set=texts.name,
            sentences=len(texts.ids),
            signature_bleu=signatures.bleu_signature,
            signature_chrf=signatures.chrf_signature,
            scores=scores,
            by_direction=by_direction,
            bleu_loss=loss,
            loss_accepted_by_flag=loss > MAX_BLEU_LOSS,
        )

    def _check_files(
        self, aside: Path, graphs: GraphSet, texts: Texts, golden_texts: Texts
    ) -> tuple[bool, tuple[Golden, ...]]:
        """Run the gates that look at the written files: batch invariance, beam graphs, golden sentences."""
        encoder = aside / ENCODER_FILE
        single = self._runner(encoder, aside / decoder_file(1))
        results = self._decode(graphs, texts)
        # Spread, so that short and long sentences and all directions meet in one batch.
        ids, chosen = texts.ids, spread(results, self._few(_INVARIANCE_SENTENCES))
        sources, targets = [ids[result.index] for result in chosen], [result.tokens for result in chosen]
        invariant = is_batch_invariant(single, sources, targets)
        self.report(f"batch-invariant bit by bit: {'yes' if invariant else 'no'}")
        some = self._few(_BEAM_SENTENCES)
        few = spread(sources, some), spread(targets, some)
        lengths = [len(target) + 1 for target in few[1]]
        check_multi_step(aside, single, 1, few[0], lengths, self.report)
        for width in self.widths[1:]:
            wide = self._runner(encoder, aside / decoder_file(width), width)
            check_beam_graph(single, wide, width, self.options.precision, *few)
            check_multi_step(aside, wide, width, few[0], lengths, self.report)
        if golden_texts is not texts:
            results = decode_all(single, golden_texts.ids, golden_texts.prefixes)
        return invariant, self._golden(single, golden_texts, results)

    def _golden(self, runner: GraphRunner, texts: Texts, results: Sequence[Decoded]) -> tuple[Golden, ...]:
        golden: list[Golden] = []
        for part, of_part in texts.of_parts(results):
            own = [replace(result, index=index) for index, result in enumerate(of_part)]
            golden += pick_golden(
                runner,
                self.checkpoint.tokenizer,
                part.sources,
                part.ids,
                own,
                part.prefix,
                self._few(GOLDEN_CANDIDATES),
            )
        return tuple(golden)
