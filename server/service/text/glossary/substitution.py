"""Terms in the place of the words that a model chose, found by word alignment."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from server.service.text.glossary.entries import Match, fold, occurrences, words_of
from server.service.text.glossary.joints import joint
from server.service.text.output.shape import CAPITAL_NOUNS
from server.service.text.protection.alignment import WordAligner
from server.service.text.protection.linking import Links, link_words
from server.service.text.protection.words import Word, find_words
from server.service.text.segment import Segment, Span, Target

OTHER_EVIDENCE = 0.1
"""Probability from which a word of the translation stands for the source word that it is linked to."""

_BEGINS = re.compile(r"(?:^|[.!?:]\s)[\s\"'“”„«»‘’¿¡(\[–—-]*$")


@dataclass(frozen=True, slots=True)
class Substituted:
    """A translation with as many terms as could be had without another try.

    Attributes:
        target: text and spans.
        missing: terms that are not in it.
        written: terms that took the place of other words.
    """

    target: Target
    missing: tuple[Match, ...] = ()
    written: tuple[Match, ...] = ()


def term_links(links: Links, segment: Segment, matches: Sequence[Match]) -> Links:
    """Link the words of terms with those of their translations, before all others.

    Args:
        links: finds those of the other words.
        segment: a sentence.
        matches: its terms.
    """
    sources: dict[str, str] = {}
    targets: dict[str, str] = {}
    for number, match in enumerate(matches):
        sign = f"TERM{number}"  # equal words that are not in small letters are linked first
        sources |= dict.fromkeys(words_of(segment.text[match.start : match.end]), sign)
        for accepted in match.entry.accepted:
            targets |= dict.fromkeys(words_of(accepted), sign)
    return lambda source_words, target_words: links(
        [sources.get(fold(word), word) for word in source_words],
        [targets.get(fold(word), word) for word in target_words],
    )


class TermSubstitution:
    """Puts terms into the translations of one sentence. Used by one thread at a time."""

    def __init__(
        self, segment: Segment, aligner: WordAligner, target_language: str, prefix: str = ""
    ) -> None:
        """Cut the sentence into words.

        Args:
            segment: the sentence.
            aligner: of the model.
            target_language: of the translations.
            prefix: what the client wants them to begin with, which is not changed.
        """
        self._segment = segment
        self._aligner = aligner
        self._language = target_language
        self._prefix = prefix
        self._source = find_words(segment.text, segment.spans)

    def substitute(self, target: Target, matches: Sequence[Match]) -> Substituted:
        """Look for terms in a translation, and write those that are missing if that is safe.

        A term is there if it, or one of its forms, stands on the borders of words and for no other word. One
        that is missing takes the place of the words that stand for it if they are one piece, have the same
        capitals, and what is before them fits.

        Args:
            target: a translation.
            matches: of the sentence.
        """
        if not matches:
            return Substituted(target)
        words = find_words(target.text, target.spans)
        links = link_words(self._segment, target, self._source, words, self._aligner.links)
        sources_of: dict[int, list[int]] = {}
        for one, other in links:
            sources_of.setdefault(other, []).append(one)
        taken: set[int] = set()
        left = [match for match in matches if not self._stands(match, target, words, sources_of, taken)]
        edits: dict[Match, tuple[int, int, str]] = {}
        for match in left:
            piece = self._piece(match, words, sources_of, taken)
            edit = None if piece is None else self._edit(match, target, words, piece, taken)
            if edit is not None:
                taken.update(_range(words, *edit[:2]))
                edits[match] = edit
        missing = tuple(match for match in left if match not in edits)
        return Substituted(target.edited(sorted(edits.values())), missing, tuple(edits))

    def unmasked(self, target: Target, terms: Mapping[str, Match]) -> Target:
        """Write terms in the place of the spans that stand for them.

        Args:
            target: a translation.
            terms: by the output of their spans.
        """
        text: list[str] = []
        spans: list[Span] = []
        position = length = 0
        for span in target.spans:
            match = terms.get(span.output or "")
            before, new = target.text[position : span.start], target.text[span.start : span.end]
            if match is not None:
                is_first = _BEGINS.search(target.text[: span.start]) is not None
                new = self._cased(match, new, is_first=is_first) or match.entry.target
                taken, instead = joint(before, new, self._language) or (0, "")
                before = before[: len(before) - taken] + instead
            text += before, new
            length += len(before)
            if match is None:
                spans.append(replace(span, start=length, end=length + len(new)))
            length += len(new)
            position = span.end
        return Target("".join([*text, target.text[position:]]), tuple(spans))

    def _stands(
        self,
        match: Match,
        target: Target,
        words: Sequence[Word],
        sources_of: dict[int, list[int]],
        taken: set[int],
    ) -> bool:
        """Look for a term that is there already; its words are taken from then on."""
        found: list[tuple[bool, int, range]] = []
        for term in match.entry.accepted:
            for start, end in occurrences(term, target):
                place = _range(words, start, end)
                if not taken.isdisjoint(place):
                    continue
                others = [
                    self._aligner.evidence(self._text(source), target.text[words[at].start : words[at].end])
                    for at in place
                    for source in sources_of.get(at, ())
                    if not self._is_of(match, source)
                ]
                is_linked = any(self._is_of(match, one) for at in place for one in sources_of.get(at, ()))
                if is_linked or max(others, default=0.0) < OTHER_EVIDENCE:
                    found.append((not is_linked, len(found), place))
        if found:
            taken.update(min(found)[2])
        return bool(found)

    def _piece(
        self, match: Match, words: Sequence[Word], sources_of: dict[int, list[int]], taken: set[int]
    ) -> range | None:
        """Find the words that stand for a term and nothing else; None unless they are one piece."""
        if self._segment.text.isupper():
            return None  # the tables know words in capitals badly
        mine = [at for at, sources in sources_of.items() if any(self._is_of(match, one) for one in sources)]
        mine = [at for at in mine if not words[at].is_mark]
        if not mine:
            return None
        piece = range(min(mine), max(mine) + 1)
        for at in piece:
            foreign = [one for one in sources_of.get(at, ()) if not self._is_of(match, one)]
            if foreign or at in taken or words[at].span >= 0 or words[at].is_mark:
                return None
        return piece

    def _edit(
        self, match: Match, target: Target, words: Sequence[Word], piece: range, taken: set[int]
    ) -> tuple[int, int, str] | None:
        """Give the edit that writes a term in the place of some words; None if it would not fit."""
        text, start, end = target.text, words[piece.start].start, words[piece.stop - 1].end
        if start < len(self._prefix) and text.startswith(self._prefix):
            return None
        new = self._cased(match, text[start:end], is_first=_BEGINS.search(text[:start]) is not None)
        fitted = None if new is None else joint(text[:start], new, self._language)
        if new is None or fitted is None:
            return None
        length, instead = fitted
        before = _range(words, start - max(length, 2), start) if length else ()  # `a `: two with the article
        if any(at in taken or words[at].span >= 0 for at in before):
            length, instead = 0, ""  # another term wrote it, or nobody may
        return start - length, end, instead + new

    def _cased(self, match: Match, old: str, *, is_first: bool) -> str | None:
        """Give a term the capitals of what it replaces; None if they say that it is another kind of word.

        Args:
            match: with the term.
            old: what stands there.
            is_first: whether that begins a sentence, and so has a capital whatever it is.
        """
        new = match.entry.target
        written = self._segment.text[match.start : match.end]
        if len(old) > 1 and old.isupper() and written.isupper():
            return new.upper()
        if is_first:
            return new[:1].upper() + new[1:] if old[:1].isupper() else new
        if self._language in CAPITAL_NOUNS and old[:1].isupper() != new[:1].isupper():
            return None
        return new

    def _is_of(self, match: Match, source: int) -> bool:
        word = self._source[source]
        return word.start < match.end and match.start < word.end

    def _text(self, source: int) -> str:
        word = self._source[source]
        return self._segment.text[word.start : word.end]


def _range(words: Sequence[Word], start: int, end: int) -> range:
    """Give the indices of the words between two offsets."""
    inside = [at for at, word in enumerate(words) if word.start < end and start < word.end]
    return range(inside[0], inside[-1] + 1)
