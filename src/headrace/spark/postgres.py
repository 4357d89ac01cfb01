"""A table in PostgreSQL that takes each micro-batch once, for `foreachBatch`.

Tasks copy their rows into a staging table beside the target, each run of a task under a token of its own; then one transaction, the driver's, takes the rows of those
runs that ended well into the target and notes the batch as written. A batch that Spark runs again finds the note; what a killed task staged has a token that nobody
asks for, and goes with the next batch.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import csv

from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import Column, DataFrame

NOTES: Final = "headrace_batches"
"""The table that says which batch of which query a table has: in the first schema of the user's search path."""
_QUERY_ID: Final = "sql.streaming.queryId"
_STAGED: Final = "token string, rows bigint, query string"
_NESTED: Final = ("array", "map", "struct", "variant")
_MAKE_NOTES: Final = f"""
CREATE TABLE IF NOT EXISTS {NOTES} (
  query text, target text, batch bigint NOT NULL, written_at timestamptz NOT NULL, PRIMARY KEY (query, target))
"""
_NOTE: Final = f"""
INSERT INTO {NOTES} AS known VALUES (%s, %s, %s, now())
ON CONFLICT (query, target) DO UPDATE SET batch = EXCLUDED.batch, written_at = EXCLUDED.written_at WHERE known.batch < EXCLUDED.batch
"""
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_LOCK: Final = 0x68656164  # any number, the same in all processes: who makes tables takes turns


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable:
    """A table that exists, to be appended to, or with `keys` updated: a row replaces the one of the same key (the table needs a unique index on them).

    `conninfo` is libpq's (`host=... dbname=... user=...`, or a URL) and is used by the driver and by tasks. `query` names the query in the notes; without it that is
    the query's id, which its checkpoint keeps. Through Spark Connect it must be given, and a query with a new checkpoint needs a new name::

        orders = PostgresTable(conninfo="host=db dbname=shop", table="orders")
        rows.writeStream.foreachBatch(orders.write).option("checkpointLocation", "/data/checkpoints/orders").start()
    """

    conninfo: str
    table: str
    keys: tuple[str, ...] = ()
    query: str | None = None

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Put the rows of this batch into the table, unless it has them. Raises OperatorError; then the table is as it was."""
        with _one_line(self.table):
            stage = self._prepare(tuple(rows.columns))
        staged = _as_text(rows).mapInArrow(partial(stage_rows, self, stage, batch_id), _STAGED).collect()
        if staged:
            self.take(tuple(rows.columns), batch_id, [row.asDict() for row in staged])

    def take(self, columns: tuple[str, ...], batch_id: int, staged: Sequence[Mapping[str, Any]]) -> None:
        """Take what tasks staged of these columns: their `token`, `rows` and `query`. Raises OperatorError; then the table is as it was."""
        with _one_line(self.table):
            self._take(self._prepare(columns), batch_id, staged)

    def _prepare(self, columns: tuple[str, ...]) -> _Stage:
        """Make the staging table and that of the notes if they are not there."""
        with _connect(self.conninfo) as connection:
            kinds = dict(connection.execute(_COLUMNS, [self.table]).fetchall())
            if not kinds:
                raise OperatorError(f"there is no table {self.table}: create it first, its types are yours to choose")
            missing = [name for name in (*columns, *self.keys) if name not in kinds]
            if missing:
                raise OperatorError(f"table {self.table} has no column {missing[0]}: add it, or select other columns")
            stage = _Stage.of(self.table, {name: kinds[name] for name in columns})
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            connection.execute(_MAKE_NOTES)
            connection.execute(stage.definition)
        return stage

    def _take(self, stage: _Stage, batch_id: int, staged: Sequence[Mapping[str, Any]]) -> None:
        """The one transaction: note the batch, and take its rows."""
        query = self.query or staged[0]["query"]
        if not query:
            raise OperatorError(
                "this Spark does not tell which query a batch is of: give PostgresTable a `query`, another one for each checkpoint"
            )
        tokens, expected = [each["token"] for each in staged], sum(each["rows"] for each in staged)
        with _connect(self.conninfo) as connection:
            if connection.execute(_NOTE, [query, self.table, batch_id]).rowcount:
                there = connection.execute(
                    f"SELECT count(*) FROM {stage.name} WHERE headrace_token = ANY(%s)", [tokens]
                ).fetchone()
                if there != (expected,):
                    raise OperatorError(
                        f"of {expected} rows that were staged for {self.table} some are gone, as after a crash of the server: run the query again"
                    )
                connection.execute(self._insert(stage), [tokens])
            connection.execute(f"DELETE FROM {stage.name} WHERE headrace_token = ANY(%s)", [tokens])
            connection.execute(
                f"DELETE FROM {stage.name} WHERE headrace_query = %s AND headrace_batch <= %s", [query, batch_id]
            )

    def _insert(self, stage: _Stage) -> str:
        names = ", ".join(stage.columns)
        text = f"INSERT INTO {self.table} ({names}) SELECT {names} FROM {stage.name} WHERE headrace_token = ANY(%s)"
        if not self.keys:
            return text
        keys = [_quoted(each) for each in self.keys]
        changes = ", ".join(f"{each} = EXCLUDED.{each}" for each in stage.columns if each not in keys)
        return f"{text} ON CONFLICT ({', '.join(keys)}) DO " + (f"UPDATE SET {changes}" if changes else "NOTHING")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The staging table of a target and some of its columns: name, quoted columns, and the statement that makes it.

    It is unlogged: what a restart of the server takes from it is missed when the batch is taken, and the batch is run again.
    """

    name: str
    columns: tuple[str, ...]
    definition: str

    @classmethod
    def of(cls, table: str, kinds: Mapping[str, str]) -> _Stage:
        columns = [f"{_quoted(name)} {kind}" for name, kind in kinds.items()]
        own = ["headrace_query text", "headrace_batch bigint", "headrace_token text"]
        name = "headrace_stage_" + hashlib.sha256("/".join([table, *columns]).encode()).hexdigest()[:20]
        definition = f"CREATE UNLOGGED TABLE IF NOT EXISTS {name} ({', '.join(columns + own)})"
        return cls(name=name, columns=tuple(_quoted(each) for each in kinds), definition=definition)


def stage_rows(
    target: PostgresTable, stage: _Stage, batch_id: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task: copy its rows into the staging table; the token under which they are there, how many, and the id of the query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = target.query or (context.getLocalProperty(_QUERY_ID) if context is not None else None)
    token, rows = secrets.token_hex(12), 0
    names = ", ".join([*stage.columns, "headrace_query", "headrace_batch", "headrace_token"])
    into = f"COPY {stage.name} ({names}) FROM STDIN (FORMAT csv)"
    with _one_line(target.table), _connect(target.conninfo) as connection, connection.cursor().copy(into) as copy:
        for batch in batches:
            rows += batch.num_rows
            copy.write(as_csv(batch, (query, batch_id, token)))
    yield pa.RecordBatch.from_pydict({"token": [token], "rows": [rows], "query": [query]})


def as_csv(batch: pa.RecordBatch, more: Sequence[str | int | None]) -> bytes:
    """The rows as PostgreSQL's CSV, with the same few values behind each: null is nothing, an empty text is quoted."""
    columns = [*batch.columns, *(pa.repeat(pa.scalar(each), batch.num_rows) for each in more)]
    rows = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    sink = io.BytesIO()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _as_text(rows: DataFrame) -> DataFrame:
    """Binary and nested columns as PostgreSQL reads them: bytea's hex format, and JSON."""
    from pyspark.sql import functions

    def shown(name: str, kind: str) -> Column:
        column = functions.col(f"`{name}`")
        if kind == "binary":
            return functions.concat(functions.lit("\\x"), functions.hex(column)).alias(name)
        return functions.to_json(column).alias(name) if kind.startswith(_NESTED) else column

    return rows.select(*(shown(each.name, each.dataType.simpleString()) for each in rows.schema.fields))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    """A connection whose block is a transaction. Raises OperatorError without the package."""
    try:
        import psycopg
    except ImportError as error:
        raise OperatorError(f"PostgreSQL needs one package more: pip install 'headrace[postgres]' ({error})") from error
    return psycopg.connect(conninfo, application_name="headrace", options="-c timezone=UTC")


class _one_line:  # noqa: N801 - used as a function
    """What PostgreSQL says becomes an OperatorError of one line that names the table, and what can be done."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        state = getattr(error, "sqlstate", "")
        if error is None or type(error).__module__.partition(".")[0] != "psycopg":
            return
        said = " ".join(str(error).split())
        remedy = _REMEDIES.get(state or "", "")
        raise OperatorError(f"PostgreSQL did not take the rows for {self._table}: {said}{remedy}") from error


_REMEDIES: Final[Mapping[str, str]] = {
    "21000": "; a batch has two rows of one key: aggregate or drop duplicates before writing",
    "42P10": "; `keys` needs a unique index on these columns of the table",
    "42501": "; the user needs INSERT (with keys UPDATE too) on the table, and CREATE in its schema for the staging table",
}
