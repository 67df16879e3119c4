"""Measures what the text layer must know of a bundle; writes `lexicon.npz` and the manifest's `text`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from export.bundle import Manifest, TextMeasures, copy_bundle, renewed, verify_bundle
from export.lexicon import DEFAULT_ENTRIES, MAX_ENTRIES
from export.text_measures.attention import CARD_TITLE as ATTENTION_TITLE
from export.text_measures.attention import add_attention
from export.text_measures.attention import card_section as attention_section
from export.text_measures.characters import lost_characters
from export.text_measures.comfortable_length import comfortable_source_tokens, measure_bands
from export.text_measures.confidence import CARD_TITLE as CONFIDENCE_TITLE
from export.text_measures.confidence import card_section, fit_confidence, observe
from export.text_measures.dev_translator import DevTranslator
from export.text_measures.learn_lexicon import Learnt, LexiconTexts, MeasureError
from export.text_measures.masks import measure_masks
from export.text_measures.output_checks import measure_checks
from model.checkpoint import replacing
from model.data.corpus import read_lines, read_parallel

LEXICON_FILE = "lexicon.npz"
CARD_TITLE = "## Text layer"

Report = Callable[[str], None]
DevText = tuple[Sequence[str], list[str] | None]
"""Sentences, and their references if there are any."""
Only = Literal["confidence", "attention"]


@dataclass(frozen=True)
class MeasureOptions:
    """What a bundle is measured on.

    Attributes:
        dev_source: text that is translated, one sentence a line, plain or gzip, in the order of documents if
            there are any.
        dev_target: its reference translation; without it the comfortable length is not measured.
        lexicon: what the lexicon is learnt from.
        entries: of a piece in the lexicon.
        threads: intra-op threads.
        attention: whether the bundle gets a graph that tells where the model looks; a bundle that has one
            gets it anew anyway.
        only: the one thing that is measured; everything else stays as it was measured before.
    """

    dev_source: Path
    dev_target: Path | None
    lexicon: LexiconTexts
    entries: int = DEFAULT_ENTRIES
    threads: int = 1
    attention: bool = False
    only: Only | None = None


def measure_bundle(bundle: Path, options: MeasureOptions, report: Report = lambda line: None) -> Manifest:
    """Add or renew what is measured in a bundle; the old bundle stays until the new one is complete.

    Raises:
        MeasureError: as `add_text_measures`, which see for the others.
    """
    with replacing(bundle) as aside:
        copy_bundle(bundle, aside)
        return add_text_measures(aside, options, report)


def add_text_measures(
    directory: Path, options: MeasureOptions, report: Report = lambda line: None
) -> Manifest:
    """Measure a bundle that nobody serves: a copy, or one under construction.

    Args:
        directory: a complete bundle; changed in place.
        options: see there.
        report: gets a line at every stage.

    Raises:
        MeasureError: the bundle has several directions, the options do not fit together, or a text says
            nothing about the model.
        BundleError: the bundle is damaged.
        CorpusError: a text file is unusable.
    """
    manifest = verify_bundle(directory)
    if manifest.architecture.source_features:
        raise MeasureError(f"{manifest.name} reads features; only models that read text are measured")
    _check(manifest, options)
    translator = DevTranslator.of_bundle(directory, manifest, threads=options.threads)
    dev = _dev_text(translator, options)
    if options.only is None:
        learnt = options.lexicon.learn(translator, options.entries, report)
        learnt.lexicon.save(directory / LEXICON_FILE)
        measured = _measure(translator, learnt, dev, options, report)
        _write_card(directory / "MODEL_CARD.md", CARD_TITLE, _card_section(measured))
        manifest = renewed(directory, manifest, text=measured)
    if options.only != "attention" and options.dev_target is not None:
        manifest = _add_confidence(directory, manifest, translator, dev, options, report)
    wants_attention = options.attention or manifest.attention is not None
    if options.only == "attention" or (options.only is None and wants_attention):
        manifest = _add_attention(directory, manifest, dev[0], options, report)
    return manifest


def _check(manifest: Manifest, options: MeasureOptions) -> None:
    """Refuse options that do not fit together or do not fit the bundle."""
    if options.only is None:
        options.lexicon.check(len(list(manifest.pairs)))
        if not 1 <= options.entries <= MAX_ENTRIES:
            raise MeasureError(f"a piece has 1 to {MAX_ENTRIES} entries, not {options.entries}")
    if options.only == "confidence" and options.dev_target is None:
        raise MeasureError("confidence needs the reference translation of the dev set")
    if len(list(manifest.pairs)) != 1:
        raise MeasureError("the bundle has several directions; only bundles of one can be measured")


def _add_attention(
    directory: Path, manifest: Manifest, texts: Sequence[str], options: MeasureOptions, report: Report
) -> Manifest:
    """Add the graph that tells where the model looks, in place of the one that was there."""
    attention = add_attention(directory, manifest, texts, options.dev_source.name, options.threads)
    heads = ", ".join(map(str, attention.heads))
    report(
        f"attention: layer {attention.layer}, heads {heads}, shift {attention.shift} have "
        f"{attention.agreement:.1%} of the lexicon's {attention.links} sure links"
    )
    _write_card(directory / "MODEL_CARD.md", ATTENTION_TITLE, attention_section(attention))
    return renewed(directory, manifest, attention=attention)


def _add_confidence(
    directory: Path,
    manifest: Manifest,
    translator: DevTranslator,
    dev: DevText,
    options: MeasureOptions,
    report: Report,
) -> Manifest:
    """Fit what the bundle may say of its own translations, in place of what was fitted before."""
    texts, references = dev
    seen = observe(translator, texts, references or [], f"confidence on {options.dev_source.name}")
    confidence = fit_confidence(seen, options.dev_source.name)
    if confidence is None:
        report("too few sentences to fit a confidence on")
        return manifest
    report(
        f"confidence: calibration error {confidence.words.error:.3f} of words, "
        f"{confidence.sentences.error:.3f} of sentences; Pearson with chrF {confidence.correlation:.2f}"
    )
    _write_card(directory / "MODEL_CARD.md", CONFIDENCE_TITLE, card_section(confidence))
    return renewed(directory, manifest, confidence=confidence)


def _measure(
    translator: DevTranslator, learnt: Learnt, dev: DevText, options: MeasureOptions, report: Report
) -> TextMeasures:
    """Translate the dev set in every way that is asked about."""
    texts, references = dev
    report(f"translating {len(texts)} sentences of {options.dev_source.name}, then some with masks")
    ids = translator.target_ids(texts, options.dev_source.name)
    outputs = [translator.tokenizer.decode(target) for target in ids]
    checks = measure_checks(learnt.lexicon, translator.source_ids(texts), ids)
    report(
        f"usual translations have {checks.min_length_ratio:.2f} to {checks.max_length_ratio:.2f} tokens for "
        f"one of the source, coverage from {checks.min_coverage:.2f}; {checks.false_alarms:.2%} do not"
    )
    masks = measure_masks(translator, texts, outputs)
    for mask in masks:
        report(f"mask {mask.template}: copied {mask.copied:.1%}, two of them {mask.both_copied:.1%}")
    lost = lost_characters(translator, texts, outputs)
    report(f"{len(lost)} rare characters seldom come out")
    comfortable = None
    if references is not None:
        bands = measure_bands(translator, texts, outputs, references)
        for band in bands:
            report(
                f"{band.from_tokens} to {band.below_tokens - 1} tokens: chrF {band.whole:.1f} whole, "
                f"{band.parts:.1f} sentence by sentence"
            )
        comfortable = comfortable_source_tokens(bands)
    return TextMeasures(
        lexicon=LEXICON_FILE,
        lexicon_origin=learnt.origin,
        set=options.dev_source.name,
        sentences=len(texts),
        masks=masks,
        comfortable_source_tokens=comfortable,
        checks=checks,
        translated_names=learnt.names,
        lost_characters=lost,
    )


def _dev_text(translator: DevTranslator, options: MeasureOptions) -> DevText:
    """Read the dev sentences that the model can take, and their references if there are any."""
    if options.dev_target is None:
        texts = [line for line in read_lines(options.dev_source) if line]
        pairs = dict.fromkeys(texts, "")
    else:
        text = read_parallel([options.dev_source], [options.dev_target])
        texts, pairs = text.sources, dict(zip(text.sources, text.targets, strict=True))
    texts = translator.fitting(texts)
    if not texts:
        raise MeasureError(f"{options.dev_source}: has no sentence that the model can take")
    return texts, None if options.dev_target is None else [pairs[text] for text in texts]


def _card_section(measured: TextMeasures) -> str:
    masks = ", ".join(f"`{mask.template}` {mask.copied:.1%}" for mask in measured.masks[:3])
    length = measured.comfortable_source_tokens
    return (
        f"{CARD_TITLE}\n\nMeasured on {measured.set}, {measured.sentences} sentences, greedy. "
        f"Masks that stand for what is not translated come through in: {masks or 'none tried'}. "
        + ("Length does no harm. " if length is None else f"Above {length} tokens texts are better cut. ")
        + f"{len(measured.lost_characters)} rare characters do not, and are put back by the server. "
        + f"`{measured.lexicon}`: which pieces become which, learnt from {measured.lexicon_origin}.\n"
    )


def _write_card(path: Path, title: str, section: str) -> None:
    """Say in the model card what was measured, in place of what was said before."""
    card = path.read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(?=## )", card)
    kept = "".join(part for part in parts if not part.startswith(f"{title}\n"))
    path.write_text(f"{kept.rstrip()}\n\n{section}", encoding="utf-8")
