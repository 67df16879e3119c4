"""A MarianMT model with random weights that still knows when to end.

Random weights never write the end token, and CTranslate2 takes one length for a whole batch. So that servers
can be compared on mixed lengths, a counter is planted: when a source begins with a length word (see
`vocabulary`), the translation is that many counting words and the end token, with large margins that survive
int8. A source without one is translated into as random a sequence as before. Nothing else is special: every
product has its full size, and all systems compute the same.

How it is planted, in the last decoder layer alone: self-attention takes away what was written before;
cross-attention looks at the length word (marked by a direction of its own) and copies it; units of the
feed-forward layer each detect one word and write the word that follows: a length word is followed by its
first counting word, a counting word, three times stronger, by the next lower one, the last by the end token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.inputs import vocabulary

# Every process that is measured knows `Size`; torch would be half of its memory.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

_END_ID = 0
# What all layers add to a word is as loud in any size as in six layers of 512, or the counter would drown.
_WEIGHT_STD, _LOUDEST = 0.02, 6 * 512
# A word's direction has length 10 or more in a state of length sqrt(d), another's is below 4 by chance.
_THRESHOLD, _STEEPNESS = 4.0, 2.0
_COUNTING_STRENGTH, _LENGTH_STRENGTH = 12.0, 4.0
# Length words stand out from their positions and from what six layers add to them.
_LENGTH_LOUDNESS, _COUNTING_LOUDNESS = 3.0, 2.0
_MARK, _FOCUS, _COPY = 1.0, 4.0, 0.9
# How strongly the average of what was written is taken away again: with 1.0, four beams change places as
# often as in a trained model (a third of the rows a step); without it a random model repeats one word.
_AVERSION = 1.0
# Logits have a deviation of 1. Counting words must not win by chance, only by their margin of more than 10;
# length words never.
_COUNTING_BIAS, _LENGTH_BIAS = -8.0, -100.0


@dataclass(frozen=True)
class Size:
    """What a model with random weights is made of."""

    encoder_layers: int
    decoder_layers: int
    d_model: int
    ffn_dim: int
    heads: int = 8
    vocabulary: int = 32_000


def write_random_model(directory: Path, size: Size, seed: int = 0) -> None:
    """Make the model and write it as a MarianMT directory with its tokenizer.

    Args:
        directory: to fill; it exists.
        size: of the model.
        seed: the same seed gives the same weights.
    """
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(seed)
    padding = size.vocabulary - 1
    config = MarianConfig(
        vocab_size=size.vocabulary,
        d_model=size.d_model,
        encoder_layers=size.encoder_layers,
        decoder_layers=size.decoder_layers,
        encoder_ffn_dim=size.ffn_dim,
        decoder_ffn_dim=size.ffn_dim,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        activation_function="swish",
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=padding,
        decoder_start_token_id=padding,
        eos_token_id=_END_ID,
        bos_token_id=_END_ID,
        forced_eos_token_id=None,
        init_std=_WEIGHT_STD * min(1.0, _LOUDEST / (size.encoder_layers * size.d_model)) ** 0.5,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        _plant_counter(model, size)
    model.save_pretrained(directory)
    # As the conversions of OPUS-MT have it: the padding token is never written.
    generation = {
        "bad_words_ids": [[padding]],
        "renormalize_logits": True,
        "decoder_start_token_id": padding,
        "eos_token_id": _END_ID,
        "pad_token_id": padding,
        "max_length": 512,
        "num_beams": 1,
    }
    (directory / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    vocabulary.write_tokenizer(directory, size.vocabulary)


def _plant_counter(model: torch.nn.Module, size: Size) -> None:
    """Change embeddings and the last decoder layer of a MarianMTModel in place."""
    import torch

    lengths = range(1, vocabulary.LONGEST + 1)
    length_ids = torch.tensor([vocabulary.length_id(n) for n in lengths])
    counting_ids = torch.tensor([vocabulary.counting_id(n) for n in lengths])
    words = model.model.shared.weight
    words.normal_(std=size.d_model**-0.5)
    words[size.vocabulary - 1] = 0.0
    detectors = torch.nn.functional.normalize(words[torch.cat((length_ids, counting_ids))], dim=1)
    mark = torch.nn.functional.normalize(torch.randn(size.d_model), dim=0)
    words[torch.cat((counting_ids, torch.tensor([_END_ID])))] *= _COUNTING_LOUDNESS
    words[length_ids] = _LENGTH_LOUDNESS * words[length_ids] + _MARK * mark
    layer = model.model.decoder.layers[-1]
    _plant_copying(layer.encoder_attn, mark, size)
    layer.self_attn.v_proj.weight += torch.eye(size.d_model)
    layer.self_attn.out_proj.weight -= _AVERSION * torch.eye(size.d_model)
    written = torch.cat((counting_ids, torch.tensor([_END_ID]), counting_ids[:-1]))
    strengths = torch.tensor([_LENGTH_STRENGTH] * len(lengths) + [_COUNTING_STRENGTH] * len(lengths))
    units = len(detectors)
    layer.fc1.weight[:units] = _STEEPNESS * detectors
    layer.fc1.bias[:units] = -_STEEPNESS * _THRESHOLD
    layer.fc2.weight[:, :units] = (
        torch.nn.functional.normalize(words[written], dim=1) * strengths[:, None]
    ).T
    model.final_logits_bias[0, written] = _COUNTING_BIAS
    model.final_logits_bias[0, length_ids] = _LENGTH_BIAS


def _plant_copying(attention: torch.nn.Module, mark: Tensor, size: Size) -> None:
    """Let every head look where the mark is and hand over what stands there."""
    import torch

    attend = torch.randn(size.d_model)
    attention.k_proj.weight += torch.outer(attend, mark)
    attention.q_proj.bias += _FOCUS * attend / (size.d_model // size.heads) ** 0.5
    attention.v_proj.weight += torch.eye(size.d_model)
    attention.out_proj.weight += _COPY * torch.eye(size.d_model)
