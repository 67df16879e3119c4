"""An invented language for models with random weights: one word, one piece, one id.

Words are three syllables, so that text weighs about what English does. Some are special: a *length word*
opens a source sentence and tells the model how long its translation is to be, *counting words* are what it
then writes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"
LONGEST = 200
"""Words of the longest sentence that a length word can ask for."""

_FIRST_LENGTH_ID = 2
_FIRST_COUNTING_ID = _FIRST_LENGTH_ID + LONGEST
FIRST_ORDINARY_ID = _FIRST_COUNTING_ID + LONGEST
_SPACE = "\u2581"
_SYLLABLES = tuple(a + b for a, b in itertools.product("bcdfghjklmnpqrstvwxz", "aeiou"))


def length_id(words: int) -> int:
    """Id of the source word that asks for a translation of so many words."""
    if not 1 <= words <= LONGEST:
        raise ValueError(f"a sentence of {words} words; a length word asks for 1 to {LONGEST}")
    return _FIRST_LENGTH_ID + words - 1


def counting_id(left: int) -> int:
    """Id of the target word that says how many words are left, itself included."""
    return _FIRST_COUNTING_ID + left - 1


def word(number: int) -> str:
    """Spell the word with this id; every id has another."""
    size = len(_SYLLABLES)
    scrambled = number * 7919 % size**3  # neighbours must not look alike; 7919 has no factor in common
    high, low = divmod(scrambled, size * size)
    return _SYLLABLES[high] + _SYLLABLES[low // size] + _SYLLABLES[low % size]


def pieces(size: int) -> list[str]:
    """Name all entries of a vocabulary in the order of their ids; padding is the last, as in OPUS-MT."""
    return [END, UNKNOWN, *(_SPACE + word(i) for i in range(_FIRST_LENGTH_ID, size - 1)), PADDING]


def write_tokenizer(directory: Path, size: int) -> None:
    """Write what a MarianTokenizer needs: source.spm, target.spm, vocab.json and its configuration."""
    from sentencepiece import sentencepiece_model_pb2

    entries = pieces(size)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = 1  # unigram
    proto.normalizer_spec.name = "identity"
    for piece, kind in ((UNKNOWN, 2), ("<s>", 3), (END, 3)):
        proto.pieces.add(piece=piece, score=0.0, type=kind)
    for piece in entries[_FIRST_LENGTH_ID:-1]:
        proto.pieces.add(piece=piece, score=-10.0, type=1)
    for name in ("source.spm", "target.spm"):
        (directory / name).write_bytes(proto.SerializeToString())
    ids = {piece: i for i, piece in enumerate(entries)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "unk_token": UNKNOWN,
        "eos_token": END,
        "pad_token": PADDING,
        "model_max_length": 512,
        "separate_vocabs": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def random_sentences(size: int, lengths: Sequence[int], seed: int, *, ending: bool) -> list[list[str]]:
    """Draw sentences as pieces, without the end token.

    Args:
        size: of the vocabulary.
        lengths: words of each sentence.
        seed: the same seed gives the same sentences.
        ending: whether each begins with a length word, so that its translation ends after as many words.
    """
    draw = np.random.default_rng(seed)
    sentences = []
    for length in lengths:
        ids = draw.integers(FIRST_ORDINARY_ID, size - 1, length).tolist()
        if ending:
            ids[0] = length_id(length)
        sentences.append([_SPACE + word(i) for i in ids])
    return sentences


def as_text(sentence: Sequence[str]) -> str:
    """Spell pieces as the text that a client would send."""
    return "".join(sentence).replace(_SPACE, " ").strip()
