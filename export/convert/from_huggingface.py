"""A Hugging Face directory of the BART family to a checkpoint of our Transformer: nothing is defined twice.

MarianMT, BART, M2M100, NLLB and mBART are read, and what ``export.convert.to_huggingface`` writes for
pre-norm models: MarianMT's files with Pegasus's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from export.convert.huggingface_config import ModelSettings, read_settings
from export.convert.huggingface_files import HuggingFaceError, read_front_matter, read_weights, sha256
from export.convert.huggingface_names import OUTPUT_BIAS, OUTPUT_WEIGHT, SHARED_EMBEDDING, tensor_names
from export.convert.t5 import T5_TYPES, t5_weights
from export.convert.vocabularies.byte_level import read_bart
from export.convert.vocabularies.fairseq import read_fairseq
from export.convert.vocabularies.marian import read_marian
from export.convert.vocabularies.plain import read_pegasus, read_t5
from export.convert.vocabularies.vocabulary import ImportNames, Vocabulary, refuse_prompt, usable_name
from export.convert.write_checkpoint import write_model
from model.checkpoint import (
    CheckpointConfig,
    CheckpointError,
    Direction,
    SpecialTokens,
    build_model,
)
from model.config import TransformerConfig
from model.positions import sinusoidal_table
from model.transformer import Transformer

_EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
# As good as minus infinity for a softmax in fp32, and still a number.
_NEVER = -1e9


def _read_pegasus(directory: Path, settings: ModelSettings, names: ImportNames) -> Vocabulary:
    """Tell a Pegasus from a pre-norm model of ours, which comes with MarianMT's tokenizer."""
    read = read_marian if (directory / "source.spm").exists() else read_pegasus
    return read(directory, settings, names)


_VOCABULARIES: dict[str, Callable[[Path, ModelSettings, ImportNames], Vocabulary]] = {
    "marian": read_marian,
    "pegasus": _read_pegasus,
    "bart": read_bart,
    "m2m_100": read_fairseq,
    "mbart": read_fairseq,
    **dict.fromkeys(T5_TYPES, read_t5),
}


def import_checkpoint(
    directory: Path, out: Path, names: ImportNames, report: Callable[[str], None] = lambda line: None
) -> CheckpointConfig:
    """Turn a directory into a checkpoint.

    Args:
        directory: config.json, weights, and the tokenizer's files of the family.
        out: the checkpoint; replaced if it exists.
        names: what the directory does not say.
        report: gets a line at every stage.

    Raises:
        HuggingFaceError: a file is missing, damaged or does not fit the others; the message names it.
        TokenizerError: the same for the tokenizer's files.
    """
    settings = read_settings(directory)
    if settings.t5 is None:
        refuse_prompt(directory, names)
    vocabulary = _VOCABULARIES[settings.model_type](directory, settings, names)
    report(f"reading the weights of {directory}")
    file, tensors = read_weights(directory)
    model = _build(file, settings, tensors)
    directions = vocabulary.directions
    plain = len(directions) == 1 and directions == [
        Direction(source=directions[0].source, target=directions[0].target)
    ]
    config = CheckpointConfig(
        name=names.name or usable_name(directory),
        task=names.task or vocabulary.task,
        model=model.config,
        special_tokens=_special_tokens(settings, vocabulary, directory),
        tokenizer=vocabulary.kind,
        joint_vocabulary=vocabulary.joint,
        generation=settings.generation,
        source_language=directions[0].source if directions else vocabulary.languages[0].code,
        target_language=directions[0].target if directions else vocabulary.languages[1].code,
        directions=[] if plain else directions,
        languages=vocabulary.languages,
        attribution=_attribution(directory),
        origin=f"Imported from {usable_name(directory)}/{file.name}, SHA-256 {sha256(file)}.",
    )
    for setting in settings.unapplied:
        report(f"not honoured: the generation setting {setting}")
    write_model(out, config, model, vocabulary, directory)
    size = sum(tensor.numel() for tensor in model.parameters())
    served = f"{len(directions)} direction(s)" if directions else f"{len(config.languages)} languages"
    report(f"{config.name}: {size:,} parameters, {served}")
    return config


def _build(file: Path, settings: ModelSettings, tensors: dict[str, Tensor]) -> Transformer:
    """Check every tensor against the configuration, then make the model of them."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            raise HuggingFaceError(f"{file}: {name} holds something else than finite numbers")
    tensors = {name: tensor.to(torch.float32) for name, tensor in tensors.items()}
    config = settings.architecture
    if settings.t5 is not None:
        config, weights = t5_weights(file, settings.t5, config, tensors)
        try:
            return build_model(config, weights, file).eval()
        except CheckpointError as error:
            raise HuggingFaceError(str(error)) from None
    bias = tensors.pop(OUTPUT_BIAS, torch.zeros(1, config.target_vocab_size)).flatten()
    if settings.renormalise and settings.suppressed_ids:
        # Renormalising after a ban is banning before the softmax: free in the bias, and never forgotten.
        bias = _banned(file, bias, settings.suppressed_ids)
    if bool(bias.any()):
        config = config.model_copy(update={"output_bias": True})
        tensors[OUTPUT_BIAS] = bias
    _drop_copies(file, config, tensors)
    with torch.device("meta"):
        expected = Transformer(config).state_dict()
    parts = tensor_names(config)
    known = {name for names in parts.values() for name in names}
    for name in sorted(set(tensors) ^ known):
        reason = "is missing" if name in known else "is not of this architecture"
        raise HuggingFaceError(f"{file}: {name} {reason}")
    weights = {}
    for ours, names in parts.items():
        pieces = [tensors[name] for name in names]
        shape = list(expected[ours].shape)
        wanted = [shape[0] // len(names), *shape[1:]]
        for name, piece in zip(names, pieces, strict=True):
            if list(piece.shape) != wanted:
                raise HuggingFaceError(
                    f"{file}: {name} has shape {list(piece.shape)}, config.json says {wanted}"
                )
        weights[ours] = torch.cat(pieces)
    return build_model(config, weights, file).eval()


def _banned(file: Path, bias: Tensor, ids: Sequence[int]) -> Tensor:
    if max(ids) >= len(bias):
        raise HuggingFaceError(
            f"{file}: a suppressed token {max(ids)} is outside the vocabulary of {len(bias)}"
        )
    bias = bias.clone()
    bias[list(ids)] = _NEVER
    return bias


def _drop_copies(file: Path, config: TransformerConfig, tensors: dict[str, Tensor]) -> None:
    """Leave out what is stored twice, after a look whether it really is the same."""
    copies = []
    if config.share_source_target_embeddings:
        if SHARED_EMBEDDING not in tensors and _EMBEDDINGS[0] in tensors:
            tensors[SHARED_EMBEDDING] = tensors[_EMBEDDINGS[0]]
        copies += [(name, SHARED_EMBEDDING) for name in _EMBEDDINGS]
    else:
        tensors.pop(SHARED_EMBEDDING, None)
    if config.tie_output:
        original = SHARED_EMBEDDING if config.share_source_target_embeddings else _EMBEDDINGS[1]
        copies.append((OUTPUT_WEIGHT, original))
    for name, original in copies:
        copy = tensors.pop(name, None)
        if copy is not None and original in tensors and not torch.equal(copy, tensors[original]):
            raise HuggingFaceError(
                f"{file}: {name} differs from {original}, with which config.json shares it"
            )
    for name in _POSITIONS if config.positions != "learned" else ():
        table = tensors.pop(name, None)
        tensors.pop(f"{name}s", None)  # as M2M100 once saved the table that it computes
        if table is None:
            continue
        computed = sinusoidal_table(config.max_positions, config.d_model, config.positions)
        if table.shape != computed.shape or not torch.allclose(table, computed, atol=1e-4):
            raise HuggingFaceError(f"{file}: {name} does not hold the sinusoids that its class computes")


def _special_tokens(settings: ModelSettings, vocabulary: Vocabulary, directory: Path) -> SpecialTokens:
    sizes = settings.architecture.source_vocab_size, settings.architecture.target_vocab_size
    written = [
        settings.eos_id,
        settings.decoder_start_id,
        *settings.target_prefix_ids,
        *settings.suppressed_ids,
    ]
    for number, size in ((settings.pad_id, sizes[0]), *((number, sizes[1]) for number in written)):
        if number >= size:
            raise HuggingFaceError(
                f"{directory}: a special token {number} is outside the vocabulary of {size}"
            )
    return SpecialTokens(
        pad_id=settings.pad_id,
        unk_id=vocabulary.unk_id,
        bos_id=settings.decoder_start_id,
        eos_id=settings.eos_id,
        decoder_start_id=settings.decoder_start_id,
        source_prefix_ids=vocabulary.source_prefix_ids,
        source_suffix_ids=vocabulary.source_suffix_ids,
        target_prefix_ids=settings.target_prefix_ids,
        # With renormalisation the output bias bans them already.
        suppressed_ids=[] if settings.renormalise else settings.suppressed_ids,
        forced_end=settings.forced_end,
    )


def _attribution(directory: Path) -> str:
    head = read_front_matter(directory)
    about = [f"Converted from the Hugging Face model {usable_name(directory)}."]
    if license_name := head.get("license_name") or head.get("license"):
        about.append(f"License, as its README states it: {license_name}.")
    else:
        about.append("Its README states no license; ask its publisher before you pass it on.")
    if "license_link" in head:
        about.append(head["license_link"])
    return " ".join(about)
