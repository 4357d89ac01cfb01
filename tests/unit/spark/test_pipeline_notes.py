"""What do the notes of a run say of its flows: rows in and out, late, quarantined?"""

from __future__ import annotations

from headrace.cli.pipeline_view import _COLUMNS, _rows
from headrace.spark.declarative.graph import SINK, TABLE, VIEW, Graph
from headrace.spark.declarative.notes import RunNotes


def notes_of_flights() -> RunNotes:
    """Reports into flights or quarantine, then delays, then a topic."""
    graph = Graph()
    for name, kind in (
        ("flights", TABLE),
        ("quarantine", TABLE),
        ("delays", TABLE),
        ("cancelled", VIEW),
        ("out", SINK),
    ):
        graph.add(name, kind)
    graph.add_flow("flights", "flights", iter(("reports",)))
    graph.add_flow("quarantine", "quarantine", iter(("reports",)))
    graph.add_flow("delays", "delays", iter(("flights",)))
    graph.add_flow("cancelled", "cancelled", iter(("flights",)))
    graph.add_flow("to_topic", "out", iter(("delays",)))
    notes = RunNotes(
        pipeline="flights", graph=graph, rows={"flights": 90, "quarantine": 1, "delays": 10, "cancelled": 4}
    )
    for name in graph.flows:
        notes.flow(name).state = "COMPLETED"
    return notes


def progress(name: str, rows: int, *, written: int = -1, late: int | None = None) -> dict[str, object]:
    """A report of Spark's."""
    state = [] if late is None else [{"numRowsDroppedByWatermark": late}]
    return {
        "name": name,
        "sources": [{"numInputRows": rows}],
        "sink": {"numOutputRows": written},
        "stateOperators": state,
    }


def test_rows_out_are_those_that_a_sink_tells_or_that_a_table_has_more() -> None:
    """A table that was emptied, and a view, count anew; what came behind a watermark is late; what is beside it in quarantine is told with a flow."""
    notes = notes_of_flights()
    for each in (
        progress("flights", 60), progress("flights", 50), progress("quarantine", 110), progress("to_topic", 5, written=5),
        progress("delays", 108, late=3), progress("delays", 0, late=4),
    ):  # fmt: skip
        notes.take_progress(each)
    notes.take_rows({"flights": 198, "quarantine": 3, "delays": 15, "cancelled": 6}, ("delays",))
    shown = {row[0]: dict(zip(_COLUMNS[4:], row[4:], strict=True)) for row in _rows(notes)}
    empty = dict.fromkeys(_COLUMNS[4:], "")
    assert shown == {
        "flights": empty | {"rows in": "110", "rows out": "108", "quarantined": "2", "rows there": "198"},
        "quarantine": empty | {"rows in": "110", "rows out": "2", "rows there": "3"},
        "delays": empty | {"rows in": "108", "rows out": "15", "late": "7", "rows there": "15"},
        "cancelled": empty | {"rows out": "6", "rows there": "6"},
        "to_topic": empty | {"rows in": "5", "rows out": "5"},
    }
    assert notes.rows == {"flights": 198, "quarantine": 3, "delays": 15, "cancelled": 6}


def test_a_table_of_a_flow_that_failed_is_not_counted() -> None:
    """What it wrote is unknown then."""
    notes = notes_of_flights()
    notes.flow("flights").state = "FAILED"
    notes.take_rows({"quarantine": 1}, ())
    assert (notes.flow("flights").out, notes.flow("quarantine").out) == (None, 0)
