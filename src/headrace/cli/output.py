"""The form of a result: a table for a person, Kafka's plain lines for a script, or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console


_WIDTH: Final = 1_000
"""Of what is no terminal: a row is a line, and no word is broken."""


def is_terminal() -> bool:
    """True if a person looks at standard output."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def visible(text: str) -> str:
    """A text for a person: what a terminal would take for an order of its own is escaped, for groups, members and nodes are called as others like."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def show_json(value: Any) -> None:
    """Print a value as one JSON document."""
    print(json.dumps(value, indent=2 if is_terminal() else None, default=str))


def console() -> Console:
    """Where `rich` writes. What nobody reads any more is an error as with `print`; `rich` would end the process with exit code 1."""
    from rich import console as rich_console

    class OurConsole(rich_console.Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return OurConsole(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[int] = ()) -> None:
    """Print a table with `rich`; the columns in `right` hold numbers."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    numbers = set(right)
    table = Table(
        title=escape(visible(title)) or None, title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if cell is None else visible(str(cell))) for cell in row))
    console().print(table)
