"""What the pages of a run and of an evaluation share: one HTML file without scripts, plots as SVG in it."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } svg { max-width: 100%; height: auto }
table { border-collapse: collapse; width: 100% } th { white-space: nowrap; font-weight: 600; width: 8rem }
td, th { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #d8dee4 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem }
"""


def table(rows: Iterable[Sequence[str]]) -> str:
    """Lay out rows whose first cell is a heading."""
    return f"<table>{''.join(_row(first, rest) for first, *rest in rows)}</table>"


def heading(text: str) -> str:
    """Begin a section."""
    return f"<h2>{html.escape(text)}</h2>"


def plots(drawn: Iterable[str]) -> str:
    """Put plots beside each other, as many as there is room for."""
    return f"<div class=plots>{''.join(drawn)}</div>"


def svg(figure: Figure) -> str:
    """Draw a figure; the same figure is always the same text."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def plain(text: str) -> str:
    """Write text for a label: matplotlib reads what is between dollars as a formula."""
    return text.replace("$", r"\$")


def write(file: Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page.

    Args:
        file: where; its directory exists.
        title: of the page; text.
        parts: of its body, one after the other; HTML.

    Returns:
        The page's path.
    """
    shown = html.escape(title)
    head = f"<meta charset=utf-8><title>{shown}</title><style>{_STYLE}</style>"
    body = f"<h1>{shown}</h1>{''.join(parts)}"
    file.write_text(f"<!doctype html><html lang=en>{head}<body>{body}</body></html>\n", encoding="utf-8")
    return file


def _row(first: str, rest: Iterable[str]) -> str:
    return f"<tr><th>{html.escape(first)}" + "".join(f"<td>{html.escape(cell)}" for cell in rest)
