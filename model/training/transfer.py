"""What a model takes over from another: its weights in fewer layers, its vocabulary, or its judgement.

Layers are taken at even distances, the first one always (Shleifer and Rush, 2020, "Pre-trained Summarization
Distillation": shrink and fine-tune). A piece that both vocabularies have keeps its row; another begins as the
mean of the old pieces that spell it (Gee et al., 2022, "Fast Vocabulary Transfer for Language Model
Compression"). What comes out translates badly until it is trained on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.checkpoint import Checkpoint, CheckpointError, load_checkpoint, model_tensors
from model.config import AnyConfig
from model.encoder_decoder import EncoderDecoder
from model.tokenizer import UNKNOWN, Tokenizer

_RESHAPED = {"encoder_layers", "decoder_layers", "source_vocab_size", "target_vocab_size"}
_LAYER = re.compile(r"((encoder|decoder)(?:_biases)?)\.(\d+)\.(.+)")
_TABLES = {
    "source_embedding.tokens.weight": "source",
    "target_embedding.tokens.weight": "target",
    "projection.weight": "target",
    "projection.bias": "target",
}


def check_architecture(config: AnyConfig, start: Checkpoint, *, shrinks: bool) -> None:
    """See that a model can start from another one's weights.

    Args:
        config: of the model.
        start: what it starts from.
        shrinks: it may have fewer layers and another vocabulary.

    Raises:
        CheckpointError: they differ in more; dropouts are free.
    """
    free = _RESHAPED if shrinks else set()
    wrong = [
        f"{name} is {ours} in the recipe's [model] and {theirs} in the checkpoint"
        for name, (ours, theirs) in config.differences(start.config.model).items()
        if name not in free or (name.endswith("_layers") and ours > theirs)
    ]
    if wrong:
        what = "cannot be shrunk to this" if shrinks else "is another architecture"
        raise CheckpointError(f"training.initialise_from: {start.directory} {what}: {'; '.join(wrong)}")


def load_teacher(directory: Path, tokenizer: Tokenizer, device: torch.device) -> EncoderDecoder:
    """Read the checkpoint that a student learns from word by word; the model is in eval mode.

    Raises:
        CheckpointError: it is damaged or has another vocabulary: its words would not be the student's.
    """
    read = load_checkpoint(directory)
    for side in ("source", "target"):
        theirs, ours = (getattr(one, f"{side}_pieces")() for one in (read.tokenizer, tokenizer))
        if theirs != ours:
            raise CheckpointError(
                f"distillation.teacher: {directory} has another {side} vocabulary; take it over with "
                "vocabulary.path"
            )
    return read.model.to(device)


def kept_layers(before: int, after: int) -> list[int]:
    """Choose ``after`` of ``before`` layers at even distances: the first, and of several the last."""
    return [int(layer) for layer in np.linspace(0, before - 1, after).round()]


def shrunk_tensors(start: Checkpoint, config: AnyConfig, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Make the weights of a smaller model from those of a larger one.

    Args:
        start: the larger model.
        config: of the smaller one; ``check_architecture`` has seen both.
        tokenizer: the new vocabulary, as large as ``config`` says.

    Returns:
        The tensors of ``model_tensors`` by name.
    """
    old = start.config.transformer
    kept = {
        "encoder": kept_layers(old.encoder_layers, config.encoder_layers),
        "decoder": kept_layers(old.decoder_layers, config.decoder_layers),
    }
    pieces = {
        "source": (start.tokenizer.source_pieces(), tokenizer.source_pieces()),
        "target": (start.tokenizer.target_pieces(), tokenizer.target_pieces()),
    }
    tensors = {}
    for name, tensor in model_tensors(start.model).items():
        if layer := _LAYER.fullmatch(name):
            stack, side, number, rest = layer.groups()
            if int(number) in kept[side]:
                tensors[f"{stack}.{kept[side].index(int(number))}.{rest}"] = tensor
        elif name in _TABLES:
            tensors[name] = _rows(tensor, *pieces[_TABLES[name]])
        else:
            tensors[name] = tensor
    return tensors


def _rows(table: Tensor, old: Sequence[str], new: Sequence[str]) -> Tensor:
    """Make the table of the new pieces; of a table that was padded the surplus rows are dropped."""
    ids = {piece: id for id, piece in enumerate(old)}
    return torch.stack([table[spelling(piece, ids)].mean(0) for piece in new])


def spelling(piece: str, ids: Mapping[str, int]) -> list[int]:
    """Spell a piece in another vocabulary, the longest match first; what it lacks in bytes, or as unknown."""
    found = []
    while piece:
        match = next((piece[:end] for end in range(len(piece), 0, -1) if piece[:end] in ids), "")
        if match:
            found.append(ids[match])
        else:
            bytes_of = (f"<0x{byte:02X}>" for byte in piece[0].encode())
            found += [ids.get(byte, ids[UNKNOWN]) for byte in bytes_of]
        piece = piece[max(1, len(match)) :]
    return found
