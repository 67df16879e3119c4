"""Greedy decoding with the PyTorch model: the slow reference beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint import CheckpointError, Direction, SpecialTokens, load_checkpoint
from model.data.batching import pad_rows
from model.encoder_decoder import EncoderDecoder
from model.features.files import Features
from model.features.rows import Row
from model.tokenizer import Tokenizer

_NAMED = 20
"""Directions that an error lists; a model of 200 languages has 40,000."""


def checkpoint_translator(
    directory: Path, direction: str | None = None
) -> Callable[[Sequence[str]], list[str]]:
    """Load a checkpoint and return what translates sentences with it, greedily.

    Args:
        directory: the checkpoint.
        direction: ``en-fr``, of a model that has several; its first unless given.

    Raises:
        CheckpointError: it is damaged, or has no such direction.
    """
    read = load_checkpoint(directory)
    known = {found.name: found for found in read.config.all_directions}
    if direction is not None and direction not in known:
        some = ", ".join(list(known)[:_NAMED]) + (" and so on" if len(known) > _NAMED else "")
        raise CheckpointError(f"{directory}: {direction} is not one of its directions: {some}")
    chosen, special = known[direction or next(iter(known))], read.config.special_tokens
    return lambda lines: translate(read.model, read.tokenizer, lines, special, chosen)


@torch.inference_mode()
def greedy_decode(
    model: EncoderDecoder,
    source_ids: Tensor,
    source_lengths: Tensor,
    *,
    bos: int,
    eos: int,
    max_length: int,
    suppressed_ids: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """Take the most probable token at every step; ties go to the lowest id.

    Args:
        model: in eval mode.
        source_ids: int64 [N, S], right-padded; or features, float32 [N, S, F].
        source_lengths: int64 [N].
        bos: id that decoding starts with.
        eos: id that ends a sentence.
        max_length: most tokens a sentence may get, eos not counted.
        suppressed_ids: tokens that are never taken.
        prefixes: what each sentence's target begins with, whatever is probable; empty for nothing.

    Returns:
        One list of ids a sentence, without bos and eos.
    """
    memory = model.encode(source_ids, source_lengths)
    rows = source_ids.shape[0]
    cache = model.start_cache(memory, source_lengths, max_length + 1)
    tokens = torch.full((rows, 1), bos, dtype=torch.long, device=source_ids.device)
    done = torch.zeros(rows, dtype=torch.bool, device=source_ids.device)
    steps = []
    for position in range(max_length):
        positions = torch.full_like(tokens, position)
        scores = model.decode_step(tokens, positions, cache)
        scores[:, list(suppressed_ids)] = -torch.inf
        tokens = scores.argmax(dim=-1, keepdim=True)
        for row, prefix in enumerate(prefixes):
            if position < len(prefix):
                tokens[row] = prefix[position]
        done |= tokens[:, 0] == eos
        steps.append(tokens)
        if bool(done.all()):
            break
    table = torch.cat(steps, dim=1).tolist()
    return [row[: row.index(eos)] if eos in row else row for row in table]


def read_by_encoder(
    tokenizer: Tokenizer,
    texts: Sequence[str] | Sequence[Features],
    special: SpecialTokens,
    direction: Direction,
) -> Sequence[Row]:
    """Tokenise sources, with what goes around them; features are read as they are."""
    before = [*special.source_prefix_ids, *direction.source_prefix_ids]
    after = [*special.source_suffix_ids, *direction.source_suffix_ids]
    lines = [text for text in texts if isinstance(text, str)]
    features = [text for text in texts if not isinstance(text, str)]
    return features or [[*before, *ids, *after] for ids in tokenizer.encode_batch(lines)]


def translate(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    texts: Sequence[str] | Sequence[Features],
    special: SpecialTokens,
    direction: Direction | None = None,
    *,
    batch_size: int = 128,
    max_length: int = 200,
) -> list[str]:
    """Translate sentences greedily, sorted by length in batches, and return them in the caller's order.

    Args:
        model: in eval mode.
        tokenizer: of the model.
        texts: sentences, or features of each.
        special: ids of the model.
        direction: whose ids go around a source and before a target, of a multilingual model.
        batch_size: sentences at a time.
        max_length: most tokens of a translation.

    Raises:
        ValueError: a sentence is longer than the model takes; nothing is cut.
    """
    device = next(model.parameters()).device
    limit = model.config.max_positions
    own = Direction(source="", target="") if direction is None else direction
    begin = [*special.target_prefix_ids, *own.target_prefix_ids]
    rows = read_by_encoder(tokenizer, texts, special, own)
    for number, row in enumerate(rows, start=1):
        if len(row) > limit:
            raise ValueError(f"sentence {number} has {len(row)} tokens, the model takes {limit}")
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    results = [""] * len(rows)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        longest = max(len(rows[i]) for i in chosen)
        ids = greedy_decode(
            model,
            pad_rows([rows[i] for i in chosen], special.pad_id).to(device),
            torch.tensor([len(rows[i]) for i in chosen], device=device),
            bos=special.decoder_start_id,
            eos=special.eos_id,
            max_length=min(max_length, limit - 1, 2 * longest + 10),
            suppressed_ids=special.suppressed_ids,
            prefixes=[begin] * len(chosen),
        )
        for i, tokens in zip(chosen, ids, strict=True):
            results[i] = tokenizer.decode(tokens)
    return results
