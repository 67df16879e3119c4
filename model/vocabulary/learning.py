"""Learns SentencePiece vocabularies from a corpus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from model.recipe import VocabularyKind
from model.tokenizer import UNKNOWN
from model.vocabulary.symbols import REQUIRED, write_rules

SPECIAL_IDS = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
_THREADS = 16
"""On any machine: each sums up a share of the corpus, and the rounding of the sums decides which of the
rarest pieces stay (88 of 16,000 differed between one thread and two)."""

_BYTE = re.compile("<0x[0-9A-F]{2}>")


def share_spelled(pieces: Sequence[str], rows: Iterable[Sequence[int]]) -> float:
    """Measure how ill a vocabulary fits a text: the share of its pieces that are single bytes or unknown.

    Args:
        pieces: of the vocabulary, by id.
        rows: the text as ids.
    """
    poor = {id for id, piece in enumerate(pieces) if piece == UNKNOWN or _BYTE.fullmatch(piece)}
    ids = [id for row in rows for id in row]
    return sum(id in poor for id in ids) / max(1, len(ids))


def train_sentencepiece(
    sentences: Iterable[str],
    model_file: Path,
    *,
    vocab_size: int,
    kind: VocabularyKind,
    character_coverage: float = 0.9995,
    split_digits: bool = False,
    symbols: bool = False,
    tags: Sequence[str] = (),
    seed: int = 1,
) -> None:
    """Train a model with ids pad 0, unk 1, bos 2, eos 3, and write it aside, then rename.

    Args:
        sentences: text of one side, or of both for a joint vocabulary.
        model_file: where the ``.spm`` goes.
        vocab_size: entries, special pieces and 256 bytes included; the most there may be if ``kind`` is word.
        kind: unigram (Kudo, 2018) or byte-pair encoding (Sennrich et al., 2016), with byte fallback; or word,
            for text that another program has cut and normalised: what stands between spaces is one piece,
            and unknown neighbours are one unknown piece; or character: each is a piece, upper case as lower.
        character_coverage: share of characters that get a piece of their own; the rest are spelled in bytes.
            Of kinds word and character all are kept.
        split_digits: every digit is a piece of its own, so that numbers are copied by digits; not of words.
        symbols: pieces and normalization as in model/vocabulary/symbols.py; not of words.
        tags: more pieces that no text produces.
        seed: fixes SentencePiece's own random choices.

    Raises:
        ValueError: the corpus is too small for this vocabulary.
    """
    sentencepiece.set_random_generator_seed(seed)
    aside = model_file.with_name(model_file.name + ".partial")
    rules = model_file.with_name(model_file.name + ".rules")
    if kind in ("word", "character"):
        settings = _of_whole_units(kind)
    else:
        settings = {"character_coverage": character_coverage, "split_digits": split_digits}
        if symbols:
            write_rules(rules)
            settings |= {"required_chars": REQUIRED, "normalization_rule_tsv": str(rules)}
    try:
        with aside.open("wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=stream,
                vocab_size=vocab_size,
                model_type="char" if kind == "character" else kind,
                **{"byte_fallback": True, **settings, **SPECIAL_IDS},
                control_symbols=list(tags),
                num_threads=_THREADS,
                minloglevel=2,
            )
    except RuntimeError as error:
        aside.unlink(missing_ok=True)
        reason = str(error).splitlines()[-1]
        raise ValueError(f"cannot learn a vocabulary of {vocab_size}: {reason}") from None
    finally:
        rules.unlink(missing_ok=True)
    aside.replace(model_file)


def _of_whole_units(kind: VocabularyKind) -> dict[str, Any]:
    """Give SentencePiece's settings for pieces that are words or characters: all of them, none in bytes."""
    settings: dict[str, Any] = {
        "character_coverage": 1.0,
        "byte_fallback": False,
        "normalization_rule_name": "identity",
        "hard_vocab_limit": False,
    }
    if kind == "character":
        settings |= {"normalization_rule_name": "nfkc_cf", "add_dummy_prefix": False}
    return settings
