"""The page at the end of a run: the training page with its figures gathered from the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from model.checkpoint import SpecialTokens, load_model_tensors, read_tensors
from model.data.batching import pad_rows
from model.data.directions import Translated
from model.encoder_decoder import EncoderDecoder
from model.evaluation.attention_maps import cross_attention
from model.evaluation.evaluation import read_by_encoder, translate
from model.evaluation.training_page import AttentionMap, write_page
from model.recipe import Recipe
from model.tokenizer import Tokenizer

_MAPS = 4
_MOST_PIECES = 30


def write_run_page(
    run: Path,
    chosen: Path,
    recipe: Recipe,
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    special: SpecialTokens,
    samples: Sequence[Translated],
) -> Path:
    """Write the page of a finished run.

    Args:
        run: its directory.
        chosen: the checkpoint in it that is its result.
        recipe: what was to be done.
        model: gets the weights of ``chosen``, and is in eval mode afterwards.
        tokenizer: of the model.
        special: ids of the model.
        samples: sentences, the shorter of which are shown with what the model looks at.

    Returns:
        The page's path.
    """
    weights = chosen / "model.safetensors"
    load_model_tensors(model, read_tensors(weights), weights)
    model.eval()
    config, directions = model.config, recipe.corpus.directions
    facts = {
        "languages": ", ".join(f"{text.source_language} to {text.target_language}" for text in directions),
        "result": str(chosen),
        "parameters": f"{sum(parameter.numel() for parameter in model.parameters()):,}",
        "layers": f"{config.encoder_layers} + {config.decoder_layers} of {config.d_model}",
        "vocabulary": f"{config.source_vocab_size:,} and {config.target_vocab_size:,} pieces",
        "training": json.dumps(recipe.training.model_dump(mode="json", exclude_unset=True)),
    }
    maps = _maps(model, tokenizer, special, samples)
    return write_page(run, recipe.name, facts, maps)


def _maps(
    model: EncoderDecoder, tokenizer: Tokenizer, special: SpecialTokens, samples: Sequence[Translated]
) -> Iterator[AttentionMap]:
    device, shown = next(model.parameters()).device, 0
    source_pieces, target_pieces = tokenizer.source_pieces(), tokenizer.target_pieces()
    for direction, source, _, _ in samples:
        sources: Any = [source]
        (row,) = read_by_encoder(tokenizer, sources, special, direction)
        (translation,) = translate(model, tokenizer, sources, special, direction)
        (target,) = tokenizer.encode_target_batch([translation])
        if shown == _MAPS or max(len(row), len(target)) > _MOST_PIECES:
            continue
        shown += 1
        read = torch.tensor([[special.decoder_start_id, *target]], device=device)
        weights = cross_attention(model, pad_rows([row], special.pad_id).to(device), read)
        yield AttentionMap(
            [source_pieces[id] for id in row] if isinstance(source, str) else list(map(str, range(len(row)))),
            [target_pieces[id] for id in (*target, special.eos_id)],
            weights[-1].mean(0).cpu().numpy(),
        )
