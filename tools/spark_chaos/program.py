"""A Spark program with streaming queries from topics into tables, which takes orders as lines of JSON and answers likewise.

    python -m tools.spark_chaos.program SETTINGS.json

Orders: `start` a query (name, table, options of the source), `drain` all queries, `judge` a query's table against its topic, `stop` a query.
Answers have the order's `id`; a query that failed answers `drain` with its error.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.read import read_table
from headrace.spark.postgres import PostgresTable
from headrace.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

COLUMNS = ("partition", "offset", "number")
Row = tuple[int, int, int]
CAUSED_BY = "\nCaused by: "
_MOST_CAUSES = 20


class Program:
    """The session and its queries."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._directory = Path(settings["directory"])
        self._conninfo = str(settings["conninfo"])
        self._servers = str(settings["servers"])
        self._spark: SparkSession = local_session(
            "spark-chaos",
            master=settings["master"],
            config=settings["config"],
            log_path=self._directory / "spark.log",
        )
        self._queries: dict[str, StreamingQuery] = {}

    def start(self, name: str, table: str, options: dict[str, str], checkpoint: str | None = None) -> None:
        """Start, or go on with, the query `name` into the table of that kind and name."""
        source = self._spark.readStream.format("headrace").option("kafka.bootstrap.servers", self._servers)
        rows = source.option("startingOffsets", "earliest").options(**options).load()
        number = "value.number" if "valueFormat" in options else "CAST(CAST(value AS STRING) AS BIGINT) AS number"
        writer = rows.selectExpr("partition", "offset", number).writeStream.queryName(name)
        place = self._directory / "checkpoints" / (checkpoint or name)
        writer = writer.option("checkpointLocation", str(place)).trigger(processingTime="0 seconds")
        if table == "postgres":
            target = PostgresTable(conninfo=self._conninfo, table=_sql_name(name))
            self._queries[name] = writer.foreachBatch(target.write).start()
        else:
            self._queries[name] = writer.format(table).start(str(self._place(name)))

    def drain(self, names: list[str]) -> dict[str, str]:
        """Wait until the queries have read all there is; the errors of those that failed."""
        failed = {}
        for name in names:
            try:
                self._queries[name].processAllAvailable()
            except Exception as error:  # noqa: BLE001 - whatever ends a query is what is asked for
                failed[name] = _with_causes(error)
        return failed

    def judge(self, name: str, table: str, topic: str) -> dict[str, int]:
        """How many of the topic's records the table lacks, has twice, or has and should not."""
        records = read_table(self._servers, topic)
        numbers = pa.array([_number(each) for each in records.column("value").to_pylist()], pa.int64())
        expected = _counted(records.set_column(0, "number", numbers).select(list(COLUMNS)))
        found = self._rows(name, table)
        return {
            "rows": found.total(),
            "lost": len(expected.keys() - found.keys()),
            "doubled": found.total() - len(found),
            "other": len(found.keys() - expected.keys()),
        }

    def stop(self, name: str) -> None:
        """Stop a query in an orderly way."""
        self._queries.pop(name).stop()

    def _rows(self, name: str, table: str) -> Counter[Row]:
        if table == "postgres":
            import psycopg

            with psycopg.connect(self._conninfo) as connection:
                return Counter(connection.execute(f'SELECT partition, "offset", number FROM {_sql_name(name)}'))
        return _counted(self._spark.read.format(table).load(str(self._place(name))).select(*COLUMNS).toArrow())

    def _place(self, name: str) -> Path:
        return self._directory / "tables" / name


def _with_causes(error: Exception) -> str:
    """What Spark says, and below it what its causes say, which PySpark keeps to itself: with Delta Lake what a task says is a cause only, that of TASK_WRITE_FAILED."""
    parts: list[str] = []
    cause: Any = error
    while cause is not None and len(parts) < _MOST_CAUSES:
        parts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return CAUSED_BY.join(parts)


def _number(value: bytes) -> int | None:
    """What a value says, as a number or as an object with one; None where it is neither."""
    try:
        said = json.loads(value)
    except ValueError:
        return None
    return int(said["number"] if isinstance(said, dict) else said)


def _counted(rows: pa.Table) -> Counter[Row]:
    return Counter(zip(*(rows.column(name).to_pylist() for name in COLUMNS), strict=True))


def _sql_name(name: str) -> str:
    return name.replace("-", "_")


def main() -> int:
    """Answer orders until standard input ends."""
    answers = _answers()
    program = Program(json.loads(Path(sys.argv[1]).read_text()))
    answer(answers, {"ready": True})
    orders: dict[str, Callable[..., Any]] = {
        "start": program.start, "drain": program.drain, "judge": program.judge, "stop": program.stop,
    }  # fmt: skip
    for line in sys.stdin:
        order = json.loads(line)
        answer(answers, {"id": order["id"], "result": orders[order["do"]](**order["with"])})
    return 0


def _answers() -> IO[str]:
    """What was standard output, for answers alone: Java and the Python workers inherit descriptor 1, and what they print there goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def answer(answers: IO[str], what: dict[str, Any]) -> None:
    """One line of JSON."""
    print(json.dumps(what), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
