"""Text with its spans and tags as a client gets it."""

import html
import re
from collections.abc import Iterable, Sequence

from server.service.text.segment import Escape, Segment, Span, Tag

# Not within arguments, nor those that quote braces.
_SYNTAX = r"('[{}#]'|(?<![^\W\d_])'[{}#][^']*'|\{[^{}]*\})"
_APOSTROPHES = {
    "icu": re.compile(rf"{_SYNTAX}|(?<=[^\W\d_])'(?=[{{}}#]|\Z)"),
    "message": re.compile(rf"{_SYNTAX}|'"),
}


def write_segment(segment: Segment) -> str:
    """Write a segment as it stood in the source, if it is unchanged."""
    return write(segment.text, segment.spans, [(tag.at, tag) for tag in segment.tags], segment.escape)


def write(
    text: str,
    spans: Sequence[Span],
    placed: Iterable[tuple[int, Tag]],
    escape: Escape,
    start: int = 0,
    end: int | None = None,
) -> str:
    """Write text with its spans and tags.

    Args:
        text: plain text.
        spans: disjoint, ascending; those that are not between `start` and `end` are written as text.
        placed: offsets and tags, ascending; tags outside of `start` and `end` are written at the nearer of
            the two, tags within a span behind it.
        escape: how text is written.
        start: offset of the first character that is written.
        end: offset behind the last one; None is the end of the text.

    Returns:
        What a client gets. At one place tags come before the span that begins there.
    """
    end = len(text) if end is None else end
    parts: list[str] = []
    outputs = iter(
        [span for span in spans if span.output is not None and start <= span.start and span.end <= end]
    )
    span = next(outputs, None)
    at = start

    def text_until(offset: int) -> None:
        nonlocal at, span
        while span is not None and span.start < offset:
            parts.append(escaped(text[at : span.start], escape))
            parts.append(span.output or "")
            at, span = span.end, next(outputs, None)
        if at < offset:
            parts.append(escaped(text[at:offset], escape))
            at = offset

    for offset, tag in placed:
        text_until(min(max(offset, start), end))
        if tag.breaks_line and parts and parts[-1][-1:] == " ":
            parts[-1] = parts[-1][:-1]
        parts.append(tag.output)
    text_until(end)
    parts += [one.output or "" for one in (span, *outputs) if one is not None]  # empty ones at the very end
    return "".join(parts)


def escaped(text: str, escape: Escape) -> str:
    """Make plain text safe where it is to stand; no-break spaces become `&nbsp;`.

    Args:
        text: plain text.
        escape: `html` for text between tags, `attribute` for a value between quotes of any kind; `message`
            for one of Java, which doubles apostrophes, `icu` for one that needs it before braces alone.
    """
    if pattern := _APOSTROPHES.get(escape):
        return pattern.sub(lambda match: match[1] or "''", text)
    if escape == "none" or not text:
        return text
    return html.escape(text, quote=escape == "attribute").replace("\u00a0", "&nbsp;")
