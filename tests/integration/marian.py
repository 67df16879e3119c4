"""MarianMT models of random weights, made by transformers' own classes: what `dragoman import` must read."""

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 128,
}


def learn_pieces(lines: Sequence[str], file: Path) -> Path:
    """Learn a SentencePiece model as Marian's are: without spelling in bytes; some text is unknown."""
    with file.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=stream,
            vocab_size=120,
            model_type="bpe",
            num_threads=1,
            minloglevel=2,
        )
    return file


def list_ids(model: Path, codes: Sequence[str] = (), seed: int = 0, missing: int = 3) -> dict[str, int]:
    """Number the pieces as Marian does: the end first, padding last, and in another order than SentencePiece.

    Args:
        model: SentencePiece model.
        codes: language codes, which get entries like `>>fr<<`.
        seed: of the order.
        missing: pieces that are left out, and so become unknown.
    """
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = [
        processor.id_to_piece(i) for i in range(processor.get_piece_size()) if not processor.is_control(i)
    ]
    pieces.remove("<unk>")
    random.Random(seed).shuffle(pieces)
    listed = ["</s>", "<unk>", *pieces[missing:], *(f">>{code}<<" for code in codes), "<pad>"]
    return {piece: number for number, piece in enumerate(listed)}


def write_marian(
    directory: Path,
    source: Path,
    target: Path,
    *,
    separate: bool = False,
    codes: Sequence[str] = (),
    end_bias: float = 3.5,
    pad_bias: float = 7.0,
    gain: float = 0.7,
    seed: int = 0,
    generation: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Make a model, and save it and its tokenizer as transformers does.

    Args:
        directory: where to; made if need be.
        source: SentencePiece model of the source side.
        target: SentencePiece model of the target side.
        separate: whether each side has its own ids and embeddings.
        codes: target languages of a multilingual model.
        end_bias: raises the score of the end token, so that translations end.
        pad_bias: raises the score of padding, which must not be written all the same.
        gain: size of the layers' weights; less for deeper models.
        seed: of the weights.
        generation: fields of generation_config.json.
        config: fields of MarianConfig.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, directory / "source.spm")
    shutil.copyfile(target, directory / "target.spm")
    ids = list_ids(source, codes)
    target_ids = list_ids(target, seed=1) if separate else ids
    pad = ids["<pad>"]
    if separate:
        # One number stands for padding on both sides.
        pad = min(ids["<pad>"], target_ids["<pad>"])
        ids, target_ids = _pad_at(ids, pad), _pad_at(target_ids, pad)
        (directory / "target_vocab.json").write_text(json.dumps(target_ids), encoding="utf-8")
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(ids),
            decoder_vocab_size=len(target_ids),
            share_encoder_decoder_embeddings=not separate,
            pad_token_id=pad,
            decoder_start_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
            **{**SMALL, "activation_function": "swish", "scale_embedding": True, **config},
        )
    )
    stir(model, gain)
    torch.random.set_rng_state(state)
    model.final_logits_bias.normal_(std=0.5, generator=torch.Generator().manual_seed(seed))
    model.final_logits_bias[0, 0] += end_bias
    model.final_logits_bias[0, pad] += pad_bias
    model.generation_config = transformers.GenerationConfig(
        **{
            "bad_words_ids": [[pad]],
            "decoder_start_token_id": pad,
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
            "max_length": 64,
            "num_beams": 4,
            "pad_token_id": pad,
            **(generation or {}),
        }
    )
    model.save_pretrained(directory)
    return directory


@torch.no_grad()
def stir(model: transformers.PreTrainedModel, gain: float) -> None:
    """Draw weights that make a token depend on its place, its past and the source.

    With usual ones every token is followed by itself: its embedding is what the layers pass on, and what the
    output is compared with. Signs drawn in the last norm end that. Attention to the source is made sharp, or
    all sources would look alike.
    """
    last = f"model.decoder.layers.{model.config.decoder_layers - 1}.final_layer_norm.weight"
    for name, parameter in model.named_parameters():
        if "embed_positions" in name:
            continue
        if "embed_tokens" in name or "shared" in name:
            parameter.normal_(std=2 * parameter.shape[1] ** -0.5)
            parameter[model.config.pad_token_id] = 0
        elif parameter.ndim == 2:
            louder = 4 if "encoder_attn" in name else 1
            parameter.normal_(std=louder * gain * parameter.shape[1] ** -0.5)
        elif name == last:
            parameter.normal_()
        else:
            parameter.normal_(mean=float(name.endswith("norm.weight")), std=0.1)


def _pad_at(ids: dict[str, int], number: int) -> dict[str, int]:
    """Swap padding with the piece that has the number."""
    swapped = {"<pad>": number, **{piece: ids["<pad>"] for piece, other in ids.items() if other == number}}
    return ids | swapped
