"""Does a PostgreSQL table take each batch once, whatever became of tasks, drivers and server in between? Tasks run here without Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.core.errors import OperatorError
from headrace.spark.postgres import PostgresTable, as_csv, stage_rows
from tests.peers.postgres import Postgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One server for all tests."""
    with Postgres() as running:
        yield running


class Writer:
    """Does what Spark does with a batch, step by step."""

    def __init__(self, server: Postgres, definition: str, **how: Any) -> None:
        self.server = server
        name = definition.split()[0]
        self.run(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {definition}")
        self.table = PostgresTable(conninfo=server.conninfo, table=name, query=how.pop("query", name), **how)

    def run(self, text: str) -> list[Any]:
        """Rows of a statement."""
        with psycopg.connect(self.server.conninfo) as connection:
            done = connection.execute(text)
            return done.fetchall() if done.description else []

    def rows(self, order: str = "1") -> list[Any]:
        """All rows of the table."""
        return self.run(f"SELECT * FROM {self.table.table} ORDER BY {order}")

    def stage(self, batch_id: int, rows: pa.RecordBatch) -> dict[str, Any]:
        """One task."""
        stage = self.table._prepare(tuple(rows.schema.names))
        (told,) = stage_rows(self.table, stage, batch_id, iter([rows]))
        return dict(told.to_pylist()[0])

    def take(self, batch_id: int, columns: tuple[str, ...], staged: list[dict[str, Any]]) -> None:
        """The driver's part."""
        self.table.take(columns, batch_id, staged)


def numbers(*given: int) -> pa.RecordBatch:
    """Rows of one column `n`."""
    return pa.RecordBatch.from_pydict({"n": pa.array(given, pa.int64())})


def test_a_batch_is_taken_once_and_only_from_tasks_that_ended_well(server: Postgres) -> None:
    """The rows of a task that was killed and run again are there once; a batch that Spark runs again changes nothing; what was left over goes."""
    writer = Writer(server, "plain (n bigint)")
    writer.stage(0, numbers(1, 2))  # killed: nobody heard of its token
    first = [writer.stage(0, numbers(1, 2)), writer.stage(0, numbers(3))]
    writer.take(0, ("n",), first)
    assert writer.rows() == [(1,), (2,), (3,)]
    again = [writer.stage(0, numbers(1, 2)), writer.stage(0, numbers(3))]
    writer.take(0, ("n",), again)
    writer.take(1, ("n",), [writer.stage(1, numbers(4))])
    assert writer.rows() == [(1,), (2,), (3,), (4,)]
    assert writer.run(f"SELECT count(*) FROM {writer.table._prepare(('n',)).name}") == [(0,)]
    other = PostgresTable(conninfo=server.conninfo, table="plain", query="another query")
    (told,) = stage_rows(other, other._prepare(("n",)), 0, iter([numbers(5)]))
    other._take(other._prepare(("n",)), 0, told.to_pylist())
    assert writer.rows()[-1] == (5,)


def test_what_a_crash_of_the_server_takes_from_the_staged_rows_is_missed(server: Postgres) -> None:
    """The staging table is emptied by a crash: the batch is refused, and comes whole when it is run again."""
    writer = Writer(server, "crashed (n bigint)")
    staged = [writer.stage(0, numbers(1))]
    server.stop("immediate")
    server.start()
    staged.append(writer.stage(0, numbers(2)))
    with pytest.raises(OperatorError, match="of 2 rows that were staged for crashed some are gone"):
        writer.take(0, ("n",), staged)
    assert writer.rows() == []
    writer.take(0, ("n",), [writer.stage(0, numbers(1)), writer.stage(0, numbers(2))])
    assert writer.rows() == [(1,), (2,)]


def test_rows_of_a_key_replace_one_another(server: Postgres) -> None:
    """With `keys` a row updates the one of its key; two of one key in a batch are refused with the remedy."""
    writer = Writer(server, "latest (k text primary key, n bigint)", keys=("k",))
    rows = pa.RecordBatch.from_pydict({"k": ["a", "b"], "n": [1, 2]})
    writer.take(0, ("k", "n"), [writer.stage(0, rows)])
    writer.take(1, ("k", "n"), [writer.stage(1, pa.RecordBatch.from_pydict({"k": ["b", "c"], "n": [3, 4]}))])
    assert writer.rows() == [("a", 1), ("b", 3), ("c", 4)]


def test_values_arrive_as_they_are(server: Postgres) -> None:
    """Nulls and empty texts apart, quotes, line ends, a lone `\\.`, numbers, times and truths."""
    columns = "t text, d double precision, m numeric(10,2), b boolean, at timestamptz, day date, raw bytea"
    writer = Writer(server, f"typed (i int, {columns})")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    texts = [None, "", 'a "b", c', "line\nend\r\n", "\\.", "é\t\\N"]
    count = len(texts)
    rows = pa.RecordBatch.from_pydict(
        {
            "i": pa.array(range(count), pa.int32()),
            "t": texts,
            "d": [None, 1e300, -0.5, float("inf"), 0.0, 2.0],
            "m": pa.array([Decimal("1.50"), None, *[Decimal("-2.25")] * 4], pa.decimal128(10, 2)),
            "b": [True, False, None, True, True, True],
            "at": pa.array([at] * count, pa.timestamp("us", tz="UTC")),
            "day": [datetime.date(1969, 12, 31)] * count,
            "raw": ["\\x00ff", None, "\\x", "\\x41", "\\x41", "\\x41"],
        }
    )
    writer.take(0, tuple(rows.schema.names), [writer.stage(0, rows)])
    found = writer.rows("i")
    assert [row[1] for row in found] == texts
    assert [row[2] for row in found] == rows.column("d").to_pylist()
    assert [row[3] for row in found] == rows.column("m").to_pylist()
    assert [row[4] for row in found] == rows.column("b").to_pylist()
    assert {(row[5], row[6]) for row in found} == {(at, datetime.date(1969, 12, 31))}
    assert [row[7] for row in found] == [b"\x00\xff", None, b"", b"A", b"A", b"A"]
    assert as_csv(numbers(1).slice(0, 0), (None, 1, "x")) == b""


def test_mistakes_are_told_with_their_remedy(server: Postgres) -> None:
    """No table, no such column, rows of one key, keys without an index, no name of the query, and no server."""
    writer = Writer(server, "strict (k text, n bigint)", keys=("k",))
    rows = pa.RecordBatch.from_pydict({"k": ["a", "a"], "n": [1, 2]})
    with pytest.raises(OperatorError, match="there is no table missing: create it first"):
        PostgresTable(conninfo=server.conninfo, table="missing")._prepare(("n",))
    with pytest.raises(OperatorError, match="table strict has no column m: add it, or select other columns"):
        writer.table._prepare(("m",))
    staged = [writer.stage(0, rows)]
    nameless = PostgresTable(conninfo=server.conninfo, table="strict")
    with pytest.raises(OperatorError, match="give PostgresTable a `query`"):
        nameless._take(nameless._prepare(("k", "n")), 0, [{**staged[0], "query": None}])
    with pytest.raises(OperatorError, match=r"did not take the rows for strict: .*`keys` needs a unique index"):
        writer.table.take(("k", "n"), 0, staged)
    writer.run("CREATE UNIQUE INDEX ON strict (k)")
    with pytest.raises(OperatorError, match="a batch has two rows of one key: aggregate"):
        writer.table.take(("k", "n"), 0, staged)
    gone = PostgresTable(conninfo="host=/nowhere dbname=x", table="strict", query="q")
    with pytest.raises(OperatorError, match=r"PostgreSQL did not take the rows for strict: .*No such file"):
        gone.take(("n",), 0, staged)
