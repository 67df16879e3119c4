"""Texts to send: of chosen lengths, made of sentences of a file or of our own. The same draw every time."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SENTENCES = (
    "Good morning.",
    "Where is the station?",
    "The train leaves in ten minutes.",
    "She has never seen the sea.",
    "Please close the window before you go.",
    "We bought bread, milk and a small cake.",
    "Nobody knew why the lights had gone out.",
    "He reads the newspaper every morning at the kitchen table.",
    "If it rains tomorrow, we will stay at home and play cards.",
    "The old bridge was built more than three hundred years ago.",
    "My sister works in a hospital near the river.",
    "You should have told me that the shop was closed.",
    "Children under six years of age travel free of charge.",
    "The report describes how the price of energy has changed since last winter.",
    "After the meeting they walked through the park and talked about their plans for the summer.",
    "I would like a cup of tea, please.",
    "Although the road was narrow, the driver did not slow down until he saw the tractor.",
    "It is not far from here.",
    "The museum opens at nine and closes at half past five.",
    "Can you help me carry this box upstairs?",
    "In the evening the village was so quiet that we heard the church clock strike.",
    "Water boils at a lower temperature in the mountains.",
    "They had to wait for two hours because the ferry was late.",
    "Thank you very much for your letter, which arrived yesterday.",
)
_PRESETS = {
    "short": "3-12",
    "mixed": "5-50:31,200:1",
    "documents": "200-1000",
}
DEFAULT_MIX = "mixed"
_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?::(\d{1,6}))?")
_SEED = 1


class TextError(ValueError):
    """There is nothing to send, or the lengths make no sense."""


@dataclass(frozen=True)
class Share:
    """Texts of some lengths.

    Attributes:
        least: words.
        most: words.
        weight: of this share against the others.
    """

    least: int
    most: int
    weight: int


def parse_mix(text: str) -> tuple[Share, ...]:
    """Read a mix of lengths.

    Args:
        text: `short`, `mixed`, `documents`, or parts in words as `5-50:31,200:1`, of which 31 texts in 32
            have 5 to 50 words.

    Raises:
        TextError: it is none.
    """
    shares = []
    for part in _PRESETS.get(text, text).split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            names = ", ".join(_PRESETS)
            raise TextError(f"{text!r} is no mix of lengths: give {names}, or words as 5-50:31,200:1")
        least, most = int(found[1]), int(found[2] or found[1])
        if not 1 <= least <= most:
            raise TextError(f"{part.strip()!r}: lengths go from at least 1 word upwards")
        shares.append(Share(least, most, int(found[3] or 1)))
    if not any(share.weight for share in shares):
        raise TextError(f"{text!r}: every weight is 0")
    return tuple(shares)


def read_lines(file: Path) -> list[str]:
    """Read sentences, one a line, plain or .gz.

    Raises:
        TextError: the file cannot be read or holds none.
    """
    try:
        content = file.read_bytes()
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TextError(f"{file}: cannot be read: {error}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise TextError(f"{file}: holds no text")
    return lines


def compose(mix: Sequence[Share], count: int, sentences: Sequence[str] = _SENTENCES) -> list[str]:
    """Make texts of sentences that go on until they are long enough, and are cut where they are.

    Args:
        mix: lengths.
        count: how many texts.
        sentences: what they are made of.

    Returns:
        Always the same texts.
    """
    draw, endless = random.Random(_SEED), itertools.cycle(sentences)
    chosen = draw.choices(mix, weights=[share.weight for share in mix], k=count)
    texts = []
    for share in chosen:
        wanted, words = draw.randint(share.least, share.most), list[str]()
        while len(words) < wanted:
            words += next(endless).split()
        texts.append(" ".join(words[:wanted]))
    return texts


def make_bodies(texts: Sequence[str], fields: Mapping[str, Any], array: int = 1) -> Iterator[bytes]:
    """Write requests, one after the other and then again from the first.

    Args:
        texts: to translate.
        fields: of every request beside `q`.
        array: texts in each; one is sent as a string.
    """
    groups = [
        list(itertools.islice(itertools.cycle(texts), at, at + array)) for at in range(0, len(texts), array)
    ]
    questions: list[str | list[str]] = list(groups) if array > 1 else list(texts)
    return itertools.cycle([json.dumps({"q": q, **fields}).encode() for q in questions])
