"""Rewrites aligned words on both sides: a mask in their place or beside them, a literal, tags or quotes.

A model that saw `PH1`, `{name}` or `<b>` only as noise drops them. Swapped in for words that translate each
other they stand where they belong on either side (compare OpusTrainer's Placeholders and Tags; Post et al.,
2019, "An Exploration of Placeholding in Neural Machine Translation").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.augmentation.lexicon import Word, WordLexicon, words_of
from model.augmentation.literals import literal, masks

Pair = tuple[str, str]

_COMMON = 150
"""Ranks of words that are never replaced: articles, pronouns, prepositions."""

_LONGEST = 60
"""Words of a sentence; longer ones are not aligned, whose cost grows with the square."""

_AT_ENDS = 0.25
"""Share of inserted texts that come first or last in their sentence."""

_WRAPPERS = (
    *[
        (f"<{name}>", f"</{name}>")
        for name in ("b", "i", "em", "strong", "code", "u", "span", "a", "g1", "x1")
    ],
    *[(mark, mark) for mark in ("**", "*", "`", '"', "'", "__")],
    *[("(", ")"), ("[", "]"), ("“", "”"), ("«", "»"), ("„", "“"), ("‘", "’")],
)


class SpanAugmenter:
    """Rewrites pairs of one direction. Read by any number of threads and processes.

    Args:
        lexicon: of the direction.
    """

    def __init__(self, lexicon: WordLexicon) -> None:
        self._lexicon = lexicon

    def masked(self, pair: Pair, rng: np.random.Generator) -> Pair | None:
        """Put one to four masks in the place of words or between them; None if no words can be linked."""
        texts = masks(int(rng.choice([1, 1, 1, 2, 2, 3, 4])), rng)
        replaced = int(rng.integers(len(texts) + 1))
        changed = self._replaced(pair, texts[:replaced], rng) if replaced else pair
        if changed is None or replaced == len(texts):
            return changed
        return self._inserted(changed, texts[replaced:], rng)

    def with_literals(self, pair: Pair, rng: np.random.Generator) -> Pair | None:
        """Put one or two literals in the place of words, or one at an end; None if there is no place."""
        if rng.random() < 0.15:
            text = literal(rng)
            if rng.random() < 0.5:
                return f"{text}: {pair[0]}", f"{text}: {pair[1]}"
            return f"{pair[0]} ({text})", f"{pair[1]} ({text})"
        return self._replaced(pair, [literal(rng) for _ in range(int(rng.choice([1, 1, 2])))], rng)

    def wrapped(self, pair: Pair, rng: np.random.Generator) -> Pair | None:
        """Put tags, quotes or brackets around a phrase and its translation; None if none is found."""
        source, target, links = self._aligned(pair)
        if not links:
            return None
        for start in rng.permutation(len(links))[:4].tolist():
            first = links[start][0]
            last = first + int(rng.choice([0, 0, 1, 2, 3]))
            place = phrase(links, first, min(last, len(source) - 1))
            if place is not None and _whole(source, *place[0]) and _whole(target, *place[1]):
                opening, closing = _WRAPPERS[int(rng.integers(len(_WRAPPERS)))]
                (a, b), (c, d) = place
                return (
                    _around(pair[0], source[a].start, source[b].end, opening, closing),
                    _around(pair[1], target[c].start, target[d].end, opening, closing),
                )
        return None

    def _aligned(self, pair: Pair) -> tuple[list[Word], list[Word], list[tuple[int, int]]]:
        source, target = words_of(pair[0]), words_of(pair[1])
        if max(len(source), len(target)) > _LONGEST:
            return source, target, []
        links = self._lexicon.links([word.text for word in source], [word.text for word in target])
        return source, target, links

    def _replaced(self, pair: Pair, texts: Sequence[str], rng: np.random.Generator) -> Pair | None:
        source, target, links = self._aligned(pair)
        fit = [(i, j) for i, j in links if self._replaceable(source[i].text, target[j].text)]
        if not fit:
            return None
        chosen = [fit[place] for place in sorted(rng.permutation(len(fit))[: len(texts)].tolist())]
        sides = [
            [(source[i].start, source[i].end, text) for (i, _), text in zip(chosen, texts, strict=False)],
            [(target[j].start, target[j].end, text) for (_, j), text in zip(chosen, texts, strict=False)],
        ]
        return _edited(pair[0], sides[0]), _edited(pair[1], sides[1])

    def _inserted(self, pair: Pair, texts: Sequence[str], rng: np.random.Generator) -> Pair | None:
        """Put texts beside linked words, or at an end: a span in the midst of a sentence replaces no word."""
        source, target, links = self._aligned(pair)
        if not links:
            return None
        edits: tuple[list[tuple[int, int, str]], ...] = ([], [])
        for text in texts:
            at_end, before = rng.random() < _AT_ENDS, rng.random() < 0.5
            i, j = links[int(rng.integers(len(links)))]
            if at_end:
                places = (0, 0) if before else (len(pair[0]), len(pair[1]))
            else:
                before = before and source[i].text[0].isalnum()
                places = (source[i].start, target[j].start) if before else (source[i].end, target[j].end)
            for side, place in zip(edits, places, strict=True):
                side.append((place, place, f"{text} " if before else f" {text}"))
        return _edited(pair[0], edits[0]), _edited(pair[1], edits[1])

    def _replaceable(self, source: str, target: str) -> bool:
        """Tell whether a word carries meaning of its own: a number, or no common word of its language."""
        if not (source[0].isalnum() and target[0].isalnum()):
            return False
        if source[0].isdigit() or source == target:
            return True
        ranks = (
            self._lexicon.sources.get(source.lower(), _COMMON),
            self._lexicon.targets.get(target.lower(), _COMMON),
        )
        return min(ranks) >= _COMMON and min(len(source), len(target)) > 2


def phrase(
    links: Sequence[tuple[int, int]], first: int, last: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Find the target words that translate a stretch of source words and nothing else (Och and Ney, 2004).

    Args:
        links: by place.
        first: of the source words.
        last: of the source words, inclusive.

    Returns:
        First and last word of both sides; None if the stretch has no such counterpart.
    """
    targets = [j for i, j in links if first <= i <= last]
    if not targets:
        return None
    low, high = min(targets), max(targets)
    if any(low <= j <= high and not first <= i <= last for i, j in links):
        return None
    if high - low > last - first + 2:  # words between that nothing links
        return None
    return (first, last), (low, high)


def _whole(words: Sequence[Word], first: int, last: int) -> bool:
    """Tell whether a phrase begins and ends with a word, not with a mark."""
    return words[first].text[0].isalnum() and words[last].text[0].isalnum()


def _around(text: str, start: int, end: int, opening: str, closing: str) -> str:
    return f"{text[:start]}{opening}{text[start:end]}{closing}{text[end:]}"


def _edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
