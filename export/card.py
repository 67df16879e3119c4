"""Writes a bundle's MODEL_CARD.md and NOTICE from what the checkpoint and the gates say."""

from __future__ import annotations

from dataclasses import dataclass

from export.bundle import (
    TRANSLATION,
    Agreement,
    Calibration,
    Golden,
    Limits,
    Parity,
    Precision,
    Quality,
)
from export.gate_texts import ExportError
from export.manifest import MAX_PURPOSE, refusal
from model.checkpoint import CheckpointConfig

_NAMED_DIRECTIONS = 12


@dataclass(frozen=True)
class About:
    """What a bundle says of itself that nothing was measured for.

    Attributes:
        version: of the bundle.
        purpose: one line, the text that the model is good for.
        notes: further sections of the model card, Markdown.
    """

    version: str = "1"
    purpose: str = ""
    notes: str = ""

    def check(self) -> None:
        """Refuse at once what the manifest could not state.

        Raises:
            ExportError: the version or the purpose is odd.
        """
        if len(self.purpose) > MAX_PURPOSE or "\n" in self.purpose:
            raise ExportError(f"--purpose: one line of at most {MAX_PURPOSE} characters")
        if (reason := refusal({"version": self.version})) is not None:
            raise ExportError(f"--bundle-{reason}")


@dataclass(frozen=True)
class Findings:
    """What the gates measured, for the manifest and the model card.

    Attributes:
        precision: of the graphs.
        parity: fp32 graphs against PyTorch.
        quality: scores on the dev set, if one was given.
        agreement: translations against those of fp32, if there were no references.
        calibration: how int8 ranges were chosen.
        batch_invariant: whether neighbours in a batch change nothing, bit by bit.
        golden: sentences whose translations a server checks when it starts.
    """

    precision: Precision
    parity: Parity
    quality: Quality | None
    agreement: Agreement | None
    calibration: Calibration | None
    batch_invariant: bool
    golden: tuple[Golden, ...]


def model_card(
    config: CheckpointConfig,
    about: About,
    findings: Findings,
    *,
    parameters: int,
    limits: Limits,
    recipe: str | None,
) -> str:
    """Compose the card.

    Args:
        config: of the checkpoint.
        about: the bundle.
        findings: of the gates.
        parameters: number of weights, tied ones once.
        limits: longest sequences.
        recipe: text of the training recipe.

    Returns:
        Markdown.
    """
    model, parity = config.transformer, findings.parity
    lines = [
        f"# {config.name} {about.version}",
        "",
        f"{_task(config)} {about.purpose}".rstrip(),
        "",
        "## Model",
        "",
        f"Encoder-decoder Transformer, {parameters:,} parameters: {model.encoder_layers} encoder "
        f"and {model.decoder_layers} decoder layers, width {model.d_model}, {model.norm}-norm, "
        f"{model.activation}, vocabulary of {model.target_vocab_size:,} SentencePiece entries.",
        f"At most {limits.max_source_tokens} source and {limits.max_target_tokens} target tokens a sentence."
        + (f" Trained for {config.updates:,} updates." if config.updates else ""),
        *(["", config.origin] if config.origin else []),
        "",
        f"Precision: {findings.precision}. A sentence's result "
        + ("does not depend" if findings.batch_invariant else "may depend")
        + " on the other sentences of its batch, bit by bit.",
        "",
        *_scores(findings.quality, findings.agreement, findings.calibration),
        f"fp32 graphs against PyTorch on {parity.sentences} sentences: largest logit difference "
        f"{parity.largest_logit_difference:.1e}, same tokens for {parity.same_tokens}.",
        "",
        "## Data",
        "",
        config.attribution or "Not stated.",
        "",
    ]
    if about.notes:
        lines += [about.notes.strip(), ""]
    if recipe:
        lines += ["## Recipe", "", "```toml", recipe.strip(), "```", ""]
    return "\n".join(lines)


def _task(config: CheckpointConfig) -> str:
    if config.task == TRANSLATION:
        return f"Translates sentences {_directions(config)}."
    return f"Task: {config.task}, {_directions(config)}. Inputs are read whole, as they are."


def _directions(config: CheckpointConfig) -> str:
    pairs = [f"`{d.source}` to `{d.target}`" for d in config.all_directions]
    named = ", ".join(pairs[:_NAMED_DIRECTIONS])
    rest = len(pairs) - _NAMED_DIRECTIONS
    return f"from {named}" + (f" and in {rest} more directions" if rest > 0 else "")


def _scores(
    quality: Quality | None, agreement: Agreement | None, calibration: Calibration | None
) -> list[str]:
    lines = ["## Scores", "", *_measured(quality, agreement)]
    if calibration is not None:
        lines += [
            f"int8: {calibration.weight_bits}-bit weights, one scale a column; static activation ranges "
            f"({calibration.method}) from {calibration.sentences} sentences of `{calibration.sample}`.",
            "",
        ]
    return lines


def _measured(quality: Quality | None, agreement: Agreement | None) -> list[str]:
    if quality is None and agreement is None:
        return ["Not measured: no dev set was given.", ""]
    if quality is None:
        assert agreement is not None
        return [
            "No reference translations were given. Against the translations of fp32, greedy, on "
            f"{agreement.sentences:,} sentences of `{agreement.set}`: {agreement.same_tokens:,} the same, "
            f"BLEU {agreement.bleu:.1f}."
            + (" An explicit flag accepted that." if agreement.loss_accepted_by_flag else ""),
            "",
        ]
    rows = [f"| {name} | {score.bleu:.2f} | {score.chrf:.2f} |" for name, score in quality.scores.items()]
    for pair, scores in quality.by_direction.items():
        rows += [
            f"| {name}, {pair} | {score.bleu:.2f} | {score.chrf:.2f} |" for name, score in scores.items()
        ]
    lines = [
        f"Greedy decoding of `{quality.set}`, {quality.sentences:,} sentences.",
        "",
        "| precision | BLEU | chrF |",
        "|---|---|---|",
        *rows,
        "",
        f"Signatures: `{quality.signature_bleu}` and `{quality.signature_chrf}`.",
        "",
    ]
    if quality.loss_accepted_by_flag:
        lines += [f"The loss of {quality.bleu_loss:.2f} BLEU was accepted by an explicit flag.", ""]
    return lines


def notice(config: CheckpointConfig) -> str:
    """Compose the NOTICE: who must be named when the bundle is passed on."""
    data = config.attribution or "The training data's origin was not stated by the recipe."
    origin = config.origin or "The weights and the vocabulary in this directory were trained with dragoman."
    return f"{config.name}\n\n{origin}\n\n{data}\n"
