"""Translations of a segment on their way to text, and how those of its parts become one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from server.engine.sequence import FinishReason
from server.service.text.segment import Segment, Span, Target

CUT_RUNG = 3
"""The last rung of the ladder for spans: a cut at each."""

_WORD = re.compile(r"\w+")
_NO_TEXT = re.compile("[\ufffd\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Run:
    """What the model read and wrote once.

    Attributes:
        read: ids, special tokens included.
        wrote: ids, without the end token.
    """

    read: tuple[int, ...]
    wrote: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation of a segment.

    Attributes:
        target: text and spans.
        score: of the search; the mean if it was put together of several.
        alarms: what the checks found.
        coverage: how well it accounts for its source; 0 at best.
        written: pieces that the model wrote with their log-probabilities, the end token as an empty one;
            empty if nobody asked.
        runs: of the model that it was made of, in order of its text; kept only if asked for.
    """

    target: Target
    score: float
    alarms: tuple[str, ...] = ()
    coverage: float = 0.0
    written: tuple[tuple[str, float], ...] = ()
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """What became of a segment before its tags are put in.

    Attributes:
        hypotheses: best first, at least one.
        finish_reason: why the best one ended.
        rung: of the ladder for spans, 0 for the first.
        mended: alarms of clauses that another try took away.
        withdrawn: alarms that another try has shown to be none.
    """

    hypotheses: tuple[Hypothesis, ...]
    finish_reason: FinishReason
    rung: int = 0
    mended: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()


def join_drafts(parts: Sequence[Segment], drafts: Sequence[Draft]) -> Draft:
    """Put the translations of parts together; hypothesis n of the whole is made of hypothesis n of each.

    Args:
        parts: of a segment, in order.
        drafts: of each.
    """
    count = max(len(draft.hypotheses) for draft in drafts)
    joined = []
    for rank in range(count):
        text = ""
        spans: list[Span] = []
        alarms: list[str] = []
        scores: list[float] = []
        coverage = 0.0
        written: list[tuple[str, float]] = []
        runs: list[Run] = []
        for part, draft in zip(parts, drafts, strict=True):
            one = draft.hypotheses[min(rank, len(draft.hypotheses) - 1)]
            start, end = inner_part(part)
            # A blank at the end of a span is none of the text: perhaps something else is written for it.
            if not text.endswith(" ") or (spans and spans[-1].end == len(text)):
                text += part.text[:start]
            if start < end:
                spans += [
                    replace(s, start=s.start + len(text), end=s.end + len(text)) for s in one.target.spans
                ]
                text += one.target.text + part.text[end:]
            alarms += one.alarms
            scores.append(one.score)
            coverage += one.coverage
            written += one.written
            runs += one.runs
        joined.append(
            Hypothesis(
                Target(text, tuple(spans)),
                sum(scores) / len(scores),
                tuple(dict.fromkeys(alarms)),
                coverage / len(parts),
                tuple(written),
                tuple(runs),
            )
        )
    reason: FinishReason = "length" if any(draft.finish_reason == "length" for draft in drafts) else "eos"
    mended = tuple(dict.fromkeys(alarm for draft in drafts for alarm in draft.mended))
    return Draft(tuple(joined), reason, max(draft.rung for draft in drafts), mended)


def inner_part(part: Segment) -> tuple[int, int]:
    """Find what is between the white space at both ends of a part; white space of a span is none of that."""
    start, end = len(part.text) - len(part.text.lstrip()), len(part.text.rstrip())
    if part.spans:
        start, end = min(start, part.spans[0].start), max(end, part.spans[-1].end)
    return start, end


def is_better(new: Hypothesis, old: Hypothesis) -> bool:
    """Fewer alarms are better; with as many, the one that accounts better for its source."""
    return (-len(new.alarms), new.coverage) > (-len(old.alarms), old.coverage)


def without_spans(draft: Draft, segment: Segment) -> Draft:
    """Make spans that were protected for one try, and are none of the segment's, text again."""
    own = {segment.text[span.start : span.end] for span in segment.spans}
    return replace(
        draft,
        hypotheses=tuple(
            replace(
                one,
                target=Target(
                    one.target.text,
                    tuple(s for s in one.target.spans if one.target.text[s.start : s.end] in own),
                ),
            )
            for one in draft.hypotheses
        ),
    )


def says_nothing(draft: Draft | None, text: str) -> bool:
    """Tell whether a translation is empty, or its source, capitals aside."""
    return draft is not None and draft.hypotheses[0].target.text.strip().lower() in ("", text.lower())


def cleaned(target: Target) -> Target:
    """Take away what no text holds: half-written characters and controls, outside of the spans."""
    if "\ufffd" not in target.text and target.text.isprintable():
        return target
    return map_text(target, lambda text: _NO_TEXT.sub("", text))


def map_text(target: Target, change: Callable[[str], str]) -> Target:
    """Change what stands between the spans."""
    edits, position = [], 0
    for span in (*target.spans, Span(len(target.text), len(target.text))):
        if (new := change(target.text[position : span.start])) != target.text[position : span.start]:
            edits.append((position, span.start, new))
        position = span.end
    return target.edited(edits)


def distinct(texts: Sequence[str], scores: Sequence[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Leave out alternatives that differ from a better one in marks and capitals only."""
    if len(texts) == 1:
        return tuple(texts), tuple(scores)
    seen: dict[tuple[str, ...], int] = {}
    for number, text in enumerate(texts):
        seen.setdefault(tuple(_WORD.findall(text.lower())), number)
    return tuple(texts[n] for n in seen.values()), tuple(scores[n] for n in seen.values())
