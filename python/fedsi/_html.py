"""Small pieces of HTML for notebooks. Everything that is not written here is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

_CELL = "padding:2px 10px;text-align:{align};border-bottom:1px solid #8884"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", text_columns: int = 1) -> str:
    """A table whose first ``text_columns`` columns are words and whose others are figures."""

    def cells(values: Sequence[str], tag: str) -> str:
        aligned = ("left" if place < text_columns else "right" for place in range(len(values)))
        return "".join(
            f'<{tag} style="{_CELL.format(align=align)}">{escape(value)}</{tag}>' for value, align in zip(values, aligned)
        )

    head = f"<thead><tr>{cells(heading, 'th')}</tr></thead>"
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    title = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f'<table style="border-collapse:collapse">{title}{head}<tbody>{body}</tbody></table>'


def link(path: Path, text: str) -> str:
    """A link to a file of this machine."""
    return f'<a href="{escape(path.absolute().as_uri())}" target="_blank">{escape(text)}</a>'


class Page:
    """A page of its own within a notebook: :meth:`fedsi.Result.show` returns one."""

    def __init__(self, path: Path, height: int) -> None:
        self.path = path
        self.height = height

    def __repr__(self) -> str:
        return f"<page {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        text = self.path.read_text(encoding="utf-8")
        # Scripts of the page run, and see nothing of the notebook.
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(text)}" '
            f'style="width:100%;height:{int(self.height)}px;border:1px solid #8884"></iframe>'
        )
