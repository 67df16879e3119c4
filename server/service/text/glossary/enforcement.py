"""Terms in the translations of a sentence: checked first, then written, forced last.

Forced means that the model reads masks in the place of the terms, as for protected spans, down to decoding
that must write each once (Post and Vilar, 2018, force the words of the term itself; without their place in
the source, greedy decoding writes them behind the end).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from server.service.text.drafts import CUT_RUNG, Draft, Hypothesis
from server.service.text.glossary.entries import Entry, Match
from server.service.text.glossary.substitution import Substituted, TermSubstitution
from server.service.text.jobs import Job
from server.service.text.protection.words import find_words
from server.service.text.segment import Segment, Span, Target

_MARK = "\0term "


How = Literal["found", "written", "forced", "missing"]
"""Whether a term stood in the translation, took the place of other words, or needed another translation."""

_HOWS: tuple[How, ...] = ("found", "written", "forced", "missing")


@dataclass(frozen=True, slots=True)
class TermUse:
    """What became of an entry in a sentence, or in a text.

    Attributes:
        entry: of the glossary.
        how: of the best translation; the last resort of all places.
    """

    entry: Entry
    how: How

    @property
    def satisfied(self) -> bool:
        """Whether the translation has it wherever the source has."""
        return self.how != "missing"


def merged(uses: Iterable[TermUse]) -> tuple[TermUse, ...]:
    """Say once of each entry what became of it, in the order of their first places."""
    worst: dict[Entry, How] = {}
    for use in uses:
        worst[use.entry] = max(worst.get(use.entry, use.how), use.how, key=_HOWS.index)
    return tuple(TermUse(entry, how) for entry, how in worst.items())


def whole_sentence(segment: Segment, matches: Sequence[Match]) -> Draft | None:
    """Translate a sentence that is a term and nothing else, such as a button's; None if it is not.

    Args:
        segment: a sentence.
        matches: of the glossary.
    """
    if len(matches) != 1 or segment.spans:
        return None
    (match,) = matches
    if any(
        word.end <= match.start or match.end <= word.start
        for word in find_words(segment.text)
        if not word.is_mark
    ):
        return None
    written, new = segment.text[match.start : match.end], match.entry.target
    if len(written) > 1 and written.isupper():
        new = new.upper()
    elif written[:1].isupper():
        new = new[:1].upper() + new[1:]
    text = segment.text[: match.start] + new + segment.text[match.end :]
    return Draft((Hypothesis(Target(text), 0.0),), "eos")


def with_terms(
    segment: Segment,
    draft: Draft,
    matches: Sequence[Match],
    substitution: TermSubstitution,
    redraft: Callable[[Segment], Job[Draft]],
) -> Job[tuple[Draft, tuple[TermUse, ...]]]:
    """Put terms into the translations of a sentence.

    Args:
        segment: the sentence.
        draft: its translations.
        matches: terms in it.
        substitution: of the sentence.
        redraft: translates the sentence again, with more spans.

    Returns:
        The translations, without those that lack more terms than the best one, and what became of the terms.
    """
    substituted = [substitution.substitute(one.target, matches) for one in draft.hypotheses]
    forced = substituted[0].missing
    if forced:
        tried = yield from _forced(segment, forced, matches, substitution, redraft)
        # A sentence that would have to be cut at its terms is worse than one without them.
        if tried[0].rung < CUT_RUNG or draft.rung == CUT_RUNG:
            draft, substituted = tried
        else:
            forced = ()
    best = substituted[0]
    kept = [
        replace(one, target=found.target)
        for one, found in zip(draft.hypotheses, substituted, strict=True)
        if len(found.missing) <= len(best.missing)
    ]
    return replace(draft, hypotheses=tuple(kept)), merged(_uses(matches, best, forced))


def _forced(
    segment: Segment,
    missing: Sequence[Match],
    matches: Sequence[Match],
    substitution: TermSubstitution,
    redraft: Callable[[Segment], Job[Draft]],
) -> Job[tuple[Draft, list[Substituted]]]:
    """Translate once more with masks for some terms; every translation then has these."""
    marks = {f"{_MARK}{number}": match for number, match in enumerate(missing)}
    spans = [Span(match.start, match.end, mark) for mark, match in marks.items()]
    masked = sorted([*segment.spans, *spans], key=lambda span: span.start)
    draft = yield from redraft(replace(segment, spans=tuple(masked), tags=()))
    others = [match for match in matches if match not in missing]
    substituted = [substitution.substitute(one.target, others) for one in draft.hypotheses]
    return draft, [replace(one, target=substitution.unmasked(one.target, marks)) for one in substituted]


def _uses(matches: Sequence[Match], best: Substituted, forced: Sequence[Match]) -> Iterator[TermUse]:
    for match in matches:
        how: How = "found"
        if match in best.missing:
            how = "missing"
        elif match in forced:
            how = "forced"
        elif match in best.written:
            how = "written"
        yield TermUse(match.entry, how)
