"""BART models of random weights, made by transformers' own classes."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from tests.integration import scripts
from tests.integration.marian import stir

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ENGLISH = [
    "It's what they'd say, isn't it? We've 12 of them; I'm sure you'll see the 3rd one isn't John's.",
    "the government said on Monday that 1,250 people were at the meeting -- more than in 2019.",
    "  Two  spaces,\ta tab\nand a line;  trailing  ",
]
DEFAULTS = {
    "num_beams": 4,
    "length_penalty": 2.0,
    "max_length": 40,
    "min_length": 12,
    "no_repeat_ngram_size": 3,
    "early_stopping": True,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
}
"""Of the kind that models for summaries come with."""


def learn(directory: Path, *, rows: int = 1200) -> Path:
    """Learn pieces of English and a dozen scripts, and write the files that the hub has of a BART."""
    cutter = tokenizers.ByteLevelBPETokenizer()
    lines = [*scripts.lines(2000), *ENGLISH * 40]
    cutter.train_from_iterator(lines, vocab_size=rows, special_tokens=SPECIAL[:4], show_progress=False)
    directory.mkdir(parents=True, exist_ok=True)
    cutter.save_model(str(directory))
    ids = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    # As the published ones have: pieces that no text becomes, and the mask behind all others.
    ids |= {"madeupword0000": len(ids), "<mask>": len(ids) + 1}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    config = {"tokenizer_class": "BartTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def write(directory: Path, *, saved_by_transformers: bool = False, seed: int = 0, **generation: Any) -> Path:
    """Make a model, and save it and its tokenizer as the hub or as transformers has it.

    Args:
        directory: where to.
        saved_by_transformers: whether there is a tokenizer.json, not lists of pieces and merges.
        seed: of the weights.
        generation: fields of generation_config.json besides ``DEFAULTS``.
    """
    learn(directory)
    cutter = transformers.AutoTokenizer.from_pretrained(directory)
    if saved_by_transformers:
        for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
            (directory / name).unlink()
        cutter.save_pretrained(directory)
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    config = transformers.BartConfig(
        vocab_size=len(cutter) + 6,
        d_model=64,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=96,
        decoder_ffn_dim=80,
        max_position_embeddings=160,
        activation_function="gelu",
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    stir(model, 0.7)
    with torch.no_grad():
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.normal_(std=0.3)
        model.final_logits_bias.normal_(std=0.5)
        drawn = torch.randint(5, config.vocab_size, (16, 12))
        scores = model(input_ids=drawn, decoder_input_ids=drawn).logits
        lead = (scores.max(dim=-1).values - scores[..., 2]).flatten().quantile(0.3)
        model.final_logits_bias[0, 2] += lead
    torch.random.set_rng_state(state)
    settings = {"decoder_start_token_id": 2, "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1}
    model.generation_config = transformers.GenerationConfig(**settings | DEFAULTS | generation)
    model.save_pretrained(directory)
    return directory
