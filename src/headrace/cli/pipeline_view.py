"""A pipeline in the terminal: its flows while they run, and the same of a run that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.output import show_table

if TYPE_CHECKING:
    from headrace.spark.declarative.notes import EventTail, RunNotes

_COLUMNS: Final = ("flow", "reads", "into", "state", "rows in", "rows out", "late", "quarantined", "lag", "rows there")
_TEXTS: Final = 4
"""So many columns are texts, the others numbers."""
_COLOURS: Final = {"COMPLETED": "green", "RUNNING": "cyan", "STARTING": "cyan", "FAILED": "red", "EXCLUDED": "dim"}


class LiveView:
    """On a terminal a table that moves, else a line for each change of a flow's state. Used as a context manager around the run."""

    def __init__(self, notes: RunNotes, tail: EventTail) -> None:
        from rich.console import Console
        from rich.live import Live

        self._notes = notes
        self._tail = tail
        self._is_terminal = Console().is_terminal
        self._live = Live(get_renderable=self._table, refresh_per_second=2, transient=True)

    def __enter__(self) -> LiveView:
        if self._is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, flow: str, state: str, error: str) -> None:
        """A flow has come to another state."""
        notes = self._notes.flow(flow)
        notes.state, notes.error = state, error
        if not self._is_terminal:
            print(f"{state:<10} {flow}", flush=True)

    def catch_up(self) -> None:
        """Take what Spark has written of its flows' progress."""
        for each in self._tail.take():
            self._notes.take_progress(each)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        self.catch_up()
        table = Table(title=f"pipeline {self._notes.pipeline}", title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(_COLUMNS):
            table.add_column(column, justify="right" if index >= _TEXTS else "left")
        for row in _rows(self._notes):
            cells = [Text(each) for each in row]
            cells[3].stylize(_COLOURS.get(row[3], ""))
            table.add_row(*cells)
        return table


def show_notes(notes: RunNotes) -> None:
    """The flows of a run as a table."""
    show_table(f"pipeline {notes.pipeline}", _COLUMNS, _rows(notes), right=range(_TEXTS, len(_COLUMNS)))


def _rows(notes: RunNotes) -> list[tuple[str, ...]]:
    """A row for each flow, in the order in which rows go through them."""
    order = [each.name for layer in notes.graph.layers() for each in layer]
    flows = sorted(notes.graph.flows.values(), key=lambda each: order.index(each.target) if each.target in order else 0)
    return [
        (
            each.name,
            ", ".join(each.reads),
            each.target,
            notes.flow(each.name).state or "-",
            _number(notes.flow(each.name).rows),
            _number(notes.flow(each.name).out),
            _number(notes.flow(each.name).late),
            _number(notes.quarantined(each.name)),
            _number(notes.flow(each.name).lag),
            _number(notes.rows.get(each.target)),
        )
        for each in flows
    ]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
