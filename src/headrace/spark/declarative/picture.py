"""The picture of a pipeline: its graph as SVG, with the rows of each table, and state, rows and lag of each flow."""

from __future__ import annotations

from html import escape
from typing import Final

from headrace.spark.declarative.graph import SINK, TABLE, TEMPORARY, TOPIC, VIEW, Dataset
from headrace.spark.declarative.notes import RunNotes

_WIDTH: Final = 210
_HEIGHT: Final = 62
_GAP_X: Final = 170
_GAP_Y: Final = 34
_MARGIN: Final = 24
_TITLE: Final = 40
_COLOURS: Final = {TOPIC: "#fde9c8", TABLE: "#d5e8fb", VIEW: "#dcf2dc", TEMPORARY: "#eeeeee", SINK: "#fde9c8"}


def draw_svg(notes: RunNotes) -> str:
    """The picture as a text: topics on the left, what is made of them further right."""
    layers = notes.graph.layers()
    rows = max((len(each) for each in layers), default=0)
    width = 2 * _MARGIN + len(layers) * _WIDTH + max(0, len(layers) - 1) * _GAP_X
    height = _TITLE + 2 * _MARGIN + rows * _HEIGHT + max(0, rows - 1) * _GAP_Y
    places = {
        dataset.name: (_MARGIN + column * (_WIDTH + _GAP_X), _TITLE + _MARGIN + row * (_HEIGHT + _GAP_Y))
        for column, layer in enumerate(layers)
        for row, dataset in enumerate(layer)
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto"><path d="M0,0 L9,4 L0,8 z" fill="#666"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="30" font-size="17" font-weight="bold">{escape(notes.pipeline)}</text>',
    ]
    for flow in notes.graph.flows.values():
        for read in flow.reads:
            if read in places and flow.target in places:
                parts += _arrow(places[read], places[flow.target], flow_text(notes, flow.name), notes, flow.name)
    parts += [line for each in notes.graph.datasets.values() for line in _box(places[each.name], each, notes)]
    return "\n".join([*parts, "</svg>", ""])


def flow_text(notes: RunNotes, name: str) -> str:
    """State, rows and lag of a flow in a few words."""
    flow = notes.flow(name)
    parts = [flow.state.lower() or "not run"]
    if flow.rows is not None:
        parts.append(f"{flow.rows:,} in")
    if flow.late:
        parts.append(f"{flow.late:,} late")
    if flow.lag is not None:
        parts.append(f"lag {flow.lag:,}")
    return ", ".join(parts)


def _arrow(start: tuple[int, int], end: tuple[int, int], text: str, notes: RunNotes, name: str) -> list[str]:
    x1, y1, x2, y2 = start[0] + _WIDTH, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    colour = "#c0392b" if notes.flow(name).state == "FAILED" else "#666"
    return [
        f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="{colour}" stroke-width="1.4" marker-end="url(#tip)"/>',
        f'<text x="{x2 - 12}" y="{y2 - 7}" text-anchor="end" font-size="10.5" fill="{colour}" stroke="white" stroke-width="4" paint-order="stroke">{escape(text)}</text>',
    ]


def _box(place: tuple[int, int], dataset: Dataset, notes: RunNotes) -> list[str]:
    x, y = place
    name = dataset.name.removeprefix("topic:")
    shown = name if len(name) <= 30 else f"{name[:29]}…"
    rows = notes.rows.get(dataset.name)
    count = "" if rows is None else f" · {rows:,} rows"
    return [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="7" fill="{_COLOURS[dataset.kind]}" stroke="#555"/>',
        f'<text x="{x + 12}" y="{y + 26}" font-weight="bold">{escape(shown)}<title>{escape(name)}</title></text>',
        f'<text x="{x + 12}" y="{y + 46}" fill="#333">{escape(dataset.kind)}{count}</text>',
    ]
