"""A smaller checkpoint out of a larger one: fewer heads (Voita et al., 2019), narrower feed-forward layers.

What comes out computes exactly what the larger model does with the other heads and columns closed. It is
trained on for a while by a recipe that starts from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint import (
    Checkpoint,
    CheckpointError,
    build_model,
    load_checkpoint,
    model_tensors,
    write_directory,
)
from model.config import TransformerConfig
from model.data.batching import Batch
from model.data.corpus import read_parallel
from model.data.dataset import TrainingSet, table_of
from model.data.token_table import fits
from model.pruning.importance import SIDES, measure_importance
from model.pruning.shape import Kept, choose, pruned_config
from model.transformer import Transformer

SENTENCES = 512
_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Pruned:
    """What became of a model.

    Attributes:
        before: its parameters.
        after: those of the pruned one.
        config: of the pruned one.
    """

    before: int
    after: int
    config: TransformerConfig

    def as_text(self) -> str:
        """Say it in one line."""
        shape = ", ".join(
            f"{side}: {getattr(self.config, f'{side}_heads')} heads, "
            f"{getattr(self.config, f'{side}_ffn_dim')} columns"
            for side in SIDES
        )
        return f"{self.before:,} -> {self.after:,} parameters ({self.after / self.before:.3f}); {shape}"


def prune_checkpoint(
    directory: Path, out: Path, keep: float, sources: Sequence[Path], targets: Sequence[Path]
) -> Pruned:
    """Write the checkpoint of a pruned model.

    Args:
        directory: the checkpoint to prune; of a Transformer without biases of distances.
        out: the new one, which must not exist.
        keep: share of all parameters that may stay, in (0, 1).
        sources: text of the model's first direction; the first ``SENTENCES`` sentences are used.
        targets: its translation, line by line.

    Returns:
        What was taken away.

    Raises:
        CheckpointError: the checkpoint is damaged or of another kind.
        CorpusError: the text cannot be read.
        ValueError: ``keep`` cannot be reached, or ``out`` is there already.
    """
    if out.exists():
        raise ValueError(f"{out} exists; remove it or choose another --out")
    if not 0 < keep < 1:
        raise ValueError(f"--keep {keep}: must be between 0 and 1")
    read = load_checkpoint(directory)
    model = read.transformer
    if model.config.relative_distances:
        raise CheckpointError(f"{directory}: heads that share biases of distances are not pruned")
    if model.config.decoder_mixer != "attention":
        raise CheckpointError(f"{directory}: only decoders with self-attention are pruned, its has an ssru")
    before = sum(parameter.numel() for parameter in model.parameters())
    special = read.config.special_tokens
    importance = measure_importance(model, _batches(read, sources, targets), special.pad_id)
    kept = choose(model.config, importance, before, keep)
    config = pruned_config(model.config, kept)
    smaller = build_model(config, pruned_tensors(model, kept), directory)
    written = read.config.model_copy(update={"model": config, "metrics": {}})
    recipe = directory / "recipe.toml"
    write_directory(
        out,
        {"model.safetensors": model_tensors(smaller)},
        {"config.json": written.model_dump_json(indent=1) + "\n"},
        {name: directory / name for name in read.config.tokenizer_files.names}
        | ({"recipe.toml": recipe} if recipe.exists() else {}),
    )
    return Pruned(before, sum(parameter.numel() for parameter in smaller.parameters()), config)


def pruned_tensors(model: Transformer, kept: Kept) -> dict[str, Tensor]:
    """Take the rows and columns of what is kept out of a model's weights.

    Returns:
        The tensors of ``model_tensors`` by name, for a model of ``pruned_config``.
    """
    tensors = dict(model_tensors(model))
    for side in SIDES:
        width = model.config.encoder_head_dim if side == "encoder" else model.config.decoder_head_dim
        for layer, heads in enumerate(kept.heads[side]):
            at = f"{side}.{layer}.self_attention"
            _take_heads(tensors, at, ("qkv",), heads, width)
        for layer, columns in enumerate(kept.columns[side]):
            _take_columns(tensors, f"{side}.{layer}.feed_forward", columns, gated=model.config.gated_ffn)
    for layer, heads in enumerate(kept.cross_heads):
        at = f"decoder.{layer}.cross_attention"
        _take_heads(tensors, at, ("query", "key_value"), heads, model.config.decoder_head_dim)
    return tensors


def _take_heads(
    tensors: dict[str, Tensor], at: str, packed: Sequence[str], heads: Sequence[int], width: int
) -> None:
    places = torch.tensor([head * width + place for head in heads for place in range(width)])
    joined = tensors[f"{at}.output.weight"].shape[1]
    for name in packed:
        for kind in ("weight", "bias"):
            if (key := f"{at}.{name}.{kind}") in tensors:
                parts = tensors[key].split(joined)  # queries, keys and values lie one below the other
                tensors[key] = torch.cat([part[places] for part in parts])
    tensors[f"{at}.output.weight"] = tensors[f"{at}.output.weight"][:, places]


def _take_columns(tensors: dict[str, Tensor], at: str, columns: Sequence[int], *, gated: bool) -> None:
    places = torch.tensor(columns)
    for kind in ("weight", "bias"):
        if (key := f"{at}.expand.{kind}") in tensors:
            parts = tensors[key].chunk(1 + gated)  # a gate's half lies above the other
            tensors[key] = torch.cat([part[places] for part in parts])
    tensors[f"{at}.contract.weight"] = tensors[f"{at}.contract.weight"][:, places]


def _batches(read: Checkpoint, sources: Sequence[Path], targets: Sequence[Path]) -> Iterator[Batch]:
    """Make batches of the first sentences that the model can take, as training does."""
    text = read_parallel(sources, targets)
    tag, tokenizer = read.config.all_directions[0].source_prefix_ids, read.tokenizer
    source_rows = [[*tag, *ids] for ids in tokenizer.encode_batch(text.sources[:SENTENCES])]
    target_rows = tokenizer.encode_target_batch(text.targets[:SENTENCES])
    limit = read.model.config.max_positions
    pairs = [
        pair for pair in zip(source_rows, target_rows, strict=True) if fits(len(pair[0]), len(pair[1]), limit)
    ]
    if pairs:
        rows = [list(side) for side in zip(*pairs, strict=True)]
        yield from TrainingSet(table_of(*rows), read.config.special_tokens).in_order(_BATCH_TOKENS)
