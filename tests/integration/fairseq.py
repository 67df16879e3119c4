"""M2M100, NLLB and mBART models of random weights, made by transformers' own classes."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import sentencepiece
import torch
import transformers

from tests.integration import scripts
from tests.integration.marian import stir

Family = Literal["nllb", "m2m100", "mbart50", "mbart25"]
CODES = {
    "nllb": ["ace_Arab", "ace_Latn", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"],
    "m2m100": ["en", "de", "zh"],
    "mbart50": ["en_XX", "de_DE", "zh_CN"],
    "mbart25": ["en_XX", "de_DE", "zh_CN"],
}
_CLASSES = {
    "nllb": "NllbTokenizer",
    "m2m100": "M2M100Tokenizer",
    "mbart50": "MBart50Tokenizer",
    "mbart25": "MBartTokenizer",
}
_M2M_CODES = 100
ENDS = 0.3
"""Share of the places in which the end token is made the most probable."""


def learn(file: Path, kind: str) -> Path:
    """Learn pieces of a dozen scripts, with SentencePiece's usual normalization."""
    with file.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(scripts.lines(3000)),
            model_writer=stream,
            vocab_size=900,
            model_type=kind,
            character_coverage=1.0,
            num_threads=1,
            minloglevel=2,
        )
    return file


def write_tokenizer(directory: Path, family: Family, **settings: Any) -> transformers.PreTrainedTokenizerBase:
    """Write the tokenizer's files as the hub has them, and load them as transformers does."""
    directory.mkdir(parents=True, exist_ok=True)
    file = learn(directory / "sentencepiece.bpe.model", "unigram" if "mbart" in family else "bpe")
    values = {"tokenizer_class": _CLASSES[family], **settings}
    if family == "m2m100":
        processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
        pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
        listed = ["<s>", "<pad>", "</s>", "<unk>", *pieces[:-20]]  # some are unknown to the model
        vocabulary = {piece: number for number, piece in enumerate(listed)}
        (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    elif family == "nllb":
        values["additional_special_tokens"] = CODES["nllb"]
    (directory / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")
    return transformers.AutoTokenizer.from_pretrained(directory)


def write_model(
    directory: Path,
    family: Family,
    *,
    seed: int = 0,
    saved_by_transformers: bool = False,
    tokenizer: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Make a model, and save it and its tokenizer.

    Args:
        directory: where to; made if need be.
        family: which.
        seed: of the weights.
        saved_by_transformers: whether the tokenizer is what transformers 5 saves, not what the hub has.
        tokenizer: fields of tokenizer_config.json.
        generation: fields of generation_config.json.
        config: fields of the model's configuration.
    """
    cutter = write_tokenizer(directory, family, **(tokenizer or {}))
    if saved_by_transformers:
        for file in ("sentencepiece.bpe.model", "tokenizer_config.json"):
            (directory / file).unlink()
        cutter.save_pretrained(directory)
    mbart = family.startswith("mbart")
    rows = len(json.loads((directory / "vocab.json").read_bytes())) + _M2M_CODES if family == "m2m100" else 0
    kind = transformers.MBartConfig if mbart else transformers.M2M100Config
    start = cutter.convert_tokens_to_ids("de_DE") if family == "mbart25" else 2
    values = {
        "vocab_size": (rows or len(cutter)) + 7,
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 80,
        "max_position_embeddings": 128,
        "activation_function": "gelu" if mbart else "relu",
        "scale_embedding": True,
        "decoder_start_token_id": start,
        **config,
    }
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    build = (
        transformers.MBartForConditionalGeneration if mbart else transformers.M2M100ForConditionalGeneration
    )
    model = build(kind(**values)).eval()
    stir(model, 0.7)
    with torch.no_grad():
        # With norms before the layers a token's own embedding goes through all of them: less of it, and signs
        # drawn in the last norm, or every token would be followed by itself.
        embeddings, last = model.get_input_embeddings().weight, model.model.decoder.layer_norm
        embeddings *= 0.25
        last.weight.normal_(std=4)
        for side in (model.model.encoder, model.model.decoder) if mbart else ():
            side.layernorm_embedding.weight.normal_(mean=1, std=0.3)
        rows = torch.randint(5, values["vocab_size"], (16, 12))
        scores = model(input_ids=rows, decoder_input_ids=rows).logits
        lead = (scores.max(dim=-1).values - scores[..., 2]).flatten().quantile(ENDS)
        if mbart:
            model.final_logits_bias[0, 2] += lead
        else:
            last.bias += lead * embeddings[2] / embeddings[2].square().sum()
    torch.random.set_rng_state(state)
    model.generation_config = transformers.GenerationConfig(
        **{
            "decoder_start_token_id": start,
            "eos_token_id": 2,
            "pad_token_id": 1,
            "max_length": 40,
            "num_beams": 4,
            **(generation or {}),
        }
    )
    model.save_pretrained(directory)
    return directory


def own_code(family: Family, code: str) -> str:
    """Give what a family calls one of the languages `en`, `de` and `zh-Hans` or `zh`."""
    names = {"en": 0, "de": 1, "zh": 2, "zh-Hans": 2}
    return (
        ["eng_Latn", "deu_Latn", "zho_Hans"][names[code]] if family == "nllb" else CODES[family][names[code]]
    )


def copy(directory: Path, out: Path) -> Path:
    """Copy a model."""
    return Path(shutil.copytree(directory, out))


def texts(count: int = 60, seed: int = 5) -> Sequence[str]:
    """Make sentences that the models translate."""
    return scripts.lines(count, seed, odd=True)
