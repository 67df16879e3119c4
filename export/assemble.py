"""Puts a bundle together in a directory aside and renames it, so that nobody ever sees half of one."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from export.bundle import (
    TRANSLATION,
    Architecture,
    ArchitectureDetails,
    Generation,
    Graphs,
    Limits,
    Manifest,
    SpecialTokens,
    TokenizerFiles,
    describe_files,
    verify_bundle,
    write_manifest,
)
from export.card import About, Findings, model_card, notice
from export.gate_texts import ExportError
from export.graph.shared_weights import save_graphs
from export.manifest import refusal
from model.checkpoint import Checkpoint, CheckpointConfig

ENCODER_FILE = "encoder.onnx"
WEIGHTS_FILE = "model.weights"


def decoder_file(beam_width: int) -> str:
    """Name of the decoder graph for a beam width."""
    return "decoder.onnx" if beam_width == 1 else f"decoder.beam{beam_width}.onnx"


def multi_step_file(beam_width: int) -> str:
    """Name of the multi-step graph of a beam width."""
    return decoder_file(beam_width).replace(".onnx", ".multi_step.onnx")


def save_all_graphs(
    directory: Path,
    encoder: onnx.ModelProto,
    decoders: Mapping[int, onnx.ModelProto],
    multi_step: Mapping[int, onnx.ModelProto],
    folder: Path | None = None,
) -> None:
    """Write the graphs over one file of weights: a joint table of embeddings is in it once for both sides.

    ``folder`` has the files that large weights are kept in so far, if they are.
    """
    named = {decoder_file(width): graph for width, graph in decoders.items()}
    named |= {multi_step_file(width): graph for width, graph in multi_step.items()}
    save_graphs(directory, {ENCODER_FILE: encoder, **named}, WEIGHTS_FILE, folder)


def complete(
    directory: Path,
    checkpoint: Checkpoint,
    beam_widths: tuple[int, ...],
    findings: Findings,
    about: About,
) -> Manifest:
    """Add tokenizer, model card, NOTICE and manifest to the graphs, and verify the whole as the server will.

    Args:
        directory: aside; holds the graphs.
        checkpoint: what was exported.
        beam_widths: of the decoder graphs.
        findings: of the gates.
        about: what the bundle says of itself.
    """
    config = checkpoint.config
    for name in config.tokenizer_files.names:
        shutil.copyfile(checkpoint.directory / name, directory / name)
    parameters = sum(parameter.numel() for parameter in checkpoint.transformer.parameters())
    limits = Limits(
        max_source_tokens=config.transformer.max_positions, max_target_tokens=config.model.max_positions
    )
    file = checkpoint.directory / "recipe.toml"
    recipe = file.read_text(encoding="utf-8") if file.is_file() else None
    card = model_card(config, about, findings, parameters=parameters, limits=limits, recipe=recipe)
    (directory / "MODEL_CARD.md").write_text(card, encoding="utf-8")
    (directory / "NOTICE").write_text(notice(config), encoding="utf-8")
    manifest = Manifest(
        format_version=1,
        version=about.version,
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        purpose=about.purpose,
        segmentation="sentences" if config.task == TRANSLATION else "none",
        **_stated(config),
        special_tokens=SpecialTokens.model_validate(config.special_tokens.model_dump()),
        limits=limits,
        precision=findings.precision,
        batch_invariant=findings.batch_invariant,
        architecture=_architecture(checkpoint, parameters),
        graphs=_graphs(directory, beam_widths),
        tokenizer=TokenizerFiles(kind=config.tokenizer, **config.tokenizer_files._asdict()),
        files=describe_files(directory),
        parity=findings.parity,
        quality=findings.quality,
        agreement=findings.agreement,
        generation=Generation.model_validate(config.generation.model_dump()),
        calibration=findings.calibration,
        golden=findings.golden,
    )
    write_manifest(directory, manifest)
    return verify_bundle(directory)


def check_config(checkpoint: Checkpoint) -> None:
    """Refuse at once a checkpoint that says what no manifest could state.

    Raises:
        ExportError: its name, its task or a language is odd.
    """
    config = checkpoint.config
    if (reason := refusal(_stated(config))) is not None:
        raise ExportError(f"{checkpoint.directory / 'config.json'}: {reason}")
    codes = [language.code for language in config.languages]
    if twice := next((code for code in codes if codes.count(code) > 1), None):
        raise ExportError(f"{config.name}: two languages have the code {twice}")
    if config.task != TRANSLATION and (codes or len(config.directions) > 1):
        raise ExportError(f"{config.name}: task {config.task} needs one direction; only translation has more")


def _stated(config: CheckpointConfig) -> dict[str, Any]:
    """Give the fields of a manifest that a checkpoint decides alone, as JSON has them."""
    directions = [] if config.languages else config.all_directions
    return {
        "name": config.name,
        "task": config.task,
        "directions": [direction.model_dump() for direction in directions],
        "languages": [language.model_dump() for language in config.languages],
    }


def _graphs(directory: Path, beam_widths: tuple[int, ...]) -> Graphs:
    """Name the graphs that are there, and read which version of ONNX's operators they need."""
    names = {width: multi_step_file(width) for width in sorted(beam_widths)}
    multi_step = {width: name for width, name in names.items() if (directory / name).is_file()}
    versions = onnx.load(directory / decoder_file(1), load_external_data=False).opset_import
    return Graphs(
        opset=next(int(entry.version) for entry in versions if entry.domain == ""),
        encoder=ENCODER_FILE,
        decoders={str(width): decoder_file(width) for width in sorted(beam_widths)},
        multi_step=multi_step.pop(1, None),
        beam_multi_step={str(width): file for width, file in multi_step.items()},
    )


def _architecture(checkpoint: Checkpoint, parameters: int) -> Architecture:
    model = checkpoint.config.transformer
    return Architecture(
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        d_model=model.d_model,
        encoder_heads=model.encoder_heads,
        decoder_heads=model.decoder_heads,
        head_dim=model.decoder_head_dim,
        encoder_ffn_dim=model.encoder_ffn_dim,
        decoder_ffn_dim=model.decoder_ffn_dim,
        source_vocab_size=model.source_vocab_size,
        vocab_size=model.target_vocab_size,
        source_features=model.source_features,
        parameters=parameters,
        details=ArchitectureDetails.model_validate(
            model.model_dump(include=set(ArchitectureDetails.model_fields))
        ),
    )
