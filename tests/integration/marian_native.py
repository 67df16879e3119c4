"""Models in Marian's own files, written from MarianMT models of transformers.

The names are Marian's. What Marian computes otherwise than transformers' class is set in the class: the
frequencies of its positions, and what it adds to variances.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.integration.hugging_face import Reference

OPTIONS = {
    "type": "transformer",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-depth": "2",
    "transformer-no-projection": "false",
    "transformer-tied-layers": [],
    "transformer-preprocess": '""',
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": '""',
    "transformer-train-position-embeddings": "false",
    "lemma-dim-emb": "0",
    "version": "v1.12.0",
}


def positions(length: int, width: int) -> torch.Tensor:
    """Positions as tensor2tensor and Marian compute them, in float32, [length, width]."""
    step = -math.log(10000.0) / (width // 2 - 1)
    angles = torch.arange(length).float().outer((torch.arange(width // 2).float() * step).exp())
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def reference(directory: Path) -> Reference:
    """Load a MarianMT model, and let it compute what Marian does."""
    found = Reference(directory)
    for side in (found.model.model.encoder, found.model.model.decoder):
        table = side.embed_positions.weight
        with torch.no_grad():
            table.copy_(positions(*table.shape))
    for module in found.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-9
    return found


def write(original: Path, out: Path, *, tied: str = "all", **options: Any) -> Path:
    """Write a MarianMT directory, whose last id is that of padding, as Marian's own files.

    Args:
        original: saved by transformers.
        out: where to.
        tied: `all` for one table, `none` for three.
        options: of the model's YAML, besides those of its architecture.
    """
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(original)
    config = model.config
    state = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    words = state["model.shared.weight"][:-1]
    arrays = {"Wemb": words} if tied == "all" else {"encoder_Wemb": words, "decoder_Wemb": words}
    if tied == "none":
        arrays["decoder_ff_logit_out_W"] = np.ascontiguousarray(words.T)
    arrays["decoder_ff_logit_out_b"] = state["final_logits_bias"][:, :-1]
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(count):
            arrays |= _layer(state, f"model.{side}.layers.{i}", f"{side}_l{i + 1}")
    stated = OPTIONS | {
        "dim-emb": config.d_model,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "transformer-heads": config.encoder_attention_heads,
        "transformer-dim-ffn": config.encoder_ffn_dim,
        "transformer-ffn-activation": config.activation_function,
        **options,
    }
    text = "".join(f"{name}: {value}\n" for name, value in stated.items())
    arrays["special:model.yml"] = np.frombuffer(text.encode() + b"\0", np.int8)
    out.mkdir(parents=True)
    np.savez(out / "model.npz", **arrays)
    ids = json.loads((original / "vocab.json").read_text(encoding="utf-8"))
    del ids["<pad>"]
    lines = (f"{json.dumps(piece, ensure_ascii=False)}: {number}\n" for piece, number in ids.items())
    (out / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(original / name, out / name)
    (out / "decoder.yml").write_text("beam-size: 4\nnormalize: 1\nrelative-paths: true\n", encoding="ascii")
    return out


def _layer(state: dict[str, np.ndarray], theirs: str, marian: str) -> dict[str, np.ndarray]:
    made = {}
    attentions = {"self": ("self_attn", "self_attn_layer_norm")}
    if f"{theirs}.encoder_attn.q_proj.weight" in state:
        attentions["context"] = ("encoder_attn", "encoder_attn_layer_norm")
    for name, (attention, norm) in attentions.items():
        for part in ("q", "k", "v", "o"):
            linear = f"{theirs}.{attention}.{'out' if part == 'o' else part}_proj"
            made[f"{marian}_{name}_W{part}"] = np.ascontiguousarray(state[f"{linear}.weight"].T)
            made[f"{marian}_{name}_b{part}"] = state[f"{linear}.bias"][None]
        made[f"{marian}_{name}_Wo_ln_scale"] = state[f"{theirs}.{norm}.weight"][None]
        made[f"{marian}_{name}_Wo_ln_bias"] = state[f"{theirs}.{norm}.bias"][None]
    for number in (1, 2):
        made[f"{marian}_ffn_W{number}"] = np.ascontiguousarray(state[f"{theirs}.fc{number}.weight"].T)
        made[f"{marian}_ffn_b{number}"] = state[f"{theirs}.fc{number}.bias"][None]
    made[f"{marian}_ffn_ffn_ln_scale"] = state[f"{theirs}.final_layer_norm.weight"][None]
    made[f"{marian}_ffn_ffn_ln_bias"] = state[f"{theirs}.final_layer_norm.bias"][None]
    return made
