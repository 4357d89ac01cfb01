"""What goes wrong: each fault is done to a stage while its topic fills, and what the tables must hold afterwards is judged.

Faults of `LIVE` end with all rows in all tables. Those of `SPOILT` make one query of their own read what is not there any more, or was never right; it must stop with one error that names the
remedy, and go on when that is done.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from typing import Final

import psutil

from headrace.client import admin_topics, offsets
from headrace.core.ids import TopicPartition
from tools.spark_chaos.program import CAUSED_BY
from tools.spark_chaos.stage import TABLES, Stage, newest

_WHERE: Final = re.compile(r"OperatorError: ([^\n]*)")


def kill_worker(stage: Stage, rng: random.Random) -> None:
    """One of Spark's Python processes: a reader of a task, a writer, or one that plans a query."""
    workers = stage.spark.python_workers()
    assert workers
    chosen = rng.choice(workers)
    stage.note(f"killed {chosen.pid} {chosen.name()}")
    try:
        chosen.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        stage.note("it had gone")


def kill_workers(stage: Stage, rng: random.Random) -> None:
    """All of Spark's Python processes but the daemon and the program itself, at once."""
    del rng
    for each in stage.spark.python_workers():
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def kill_driver(stage: Stage, rng: random.Random) -> None:
    """The program, its Java and all its workers; a new program goes on from the checkpoints."""
    del rng
    stage.kill_spark()


def kill_broker(stage: Stage, rng: random.Random) -> None:
    """The single node, or the leader of one of the topic's partitions; it is away for up to two seconds and comes back."""
    if stage.node is not None:
        stage.node.kill()
        time.sleep(rng.uniform(0, 2))
        stage.node.start()
        return
    assert stage.cluster is not None
    leader = _leader(stage, rng)
    stage.cluster.kill(leader)
    time.sleep(rng.uniform(0, 2))
    stage.cluster.start(leader)


def restart_broker(stage: Stage, rng: random.Random) -> None:
    """An orderly stop and start of the same."""
    if stage.node is not None:
        stage.node.stop()
        stage.node.start()
        return
    assert stage.cluster is not None
    leader = _leader(stage, rng)
    stage.cluster.stop(leader)
    stage.cluster.start(leader)


def kill_postgres(stage: Stage, rng: random.Random) -> None:
    """The table's server, which then has lost what was only staged."""
    stage.postgres.stop()
    time.sleep(rng.uniform(0, 1))
    stage.postgres.start()


def add_partition(stage: Stage, rng: random.Random) -> None:
    """The topic gets one partition more, which fills like the others."""
    del rng
    more = stage.feed.partitions + 1
    done = stage.client.run(admin_topics.create_partitions, {stage.topic: more})
    assert not any(done.values()), done
    stage.feed.partitions = more


def _leader(stage: Stage, rng: random.Random) -> int:
    (view,) = stage.client.topics([stage.topic]).values()
    return int(rng.choice(sorted({each.leader for each in view.partitions if each.leader >= 0})))


LIVE: Final[Mapping[str, Callable[[Stage, random.Random], None]]] = {
    "worker": kill_worker,
    "workers": kill_workers,
    "driver": kill_driver,
    "broker": kill_broker,
    "restart": restart_broker,
    "postgres": kill_postgres,
    "partition": add_partition,
}


def run_live(stage: Stage, fault: str, rng: random.Random) -> str:
    """Let the topic fill, do the fault while a batch of some query is under way, let all be read, and judge. What came of it, in a line."""
    stage.feed.go_on(stage.per_round)
    target = rng.choice(TABLES)
    stage.wait_in_batch(lambda: stage.is_in_batch(target))
    time.sleep(rng.uniform(0, 0.3))
    inside = [name for name in TABLES if stage.is_in_batch(name)]
    LIVE[fault](stage, rng)
    time.sleep(rng.uniform(0, 0.5))
    restarts = stage.drain()
    found = {name: stage.judge(name) for name in TABLES}
    for name, counts in found.items():
        wrong = {key: value for key, value in counts.items() if key != "rows" and value}
        assert not wrong, f"{fault}: {name} has {wrong} of {counts['rows']} rows"
        assert counts["rows"] == stage.feed.sent, (
            f"{name} has {counts['rows']} rows of {stage.feed.sent} that were sent"
        )
    rows = found[TABLES[0]]["rows"]
    return f"in a batch of {', '.join(inside) or 'none'}; {restarts} queries started again; {rows:,} rows in each table, 0 lost, 0 doubled"


def recreate(stage: Stage, name: str, table: str) -> None:
    """The topic is deleted and made anew with fewer records: an error; with failOnDataLoss=false the new one is read from its beginning."""
    topic = _query_of_ten(stage, name, table)
    stage.client.run(admin_topics.delete_topics, [topic])
    stage.make_topic(topic)
    stage.fill(topic, range(100, 104))
    _fails(stage, name, "the topic was made anew; say failOnDataLoss=false", is_own=True)
    _goes_on(stage, name, 14, failOnDataLoss="false")
    stage.fill(topic, range(104, 120))
    _goes_on(stage, name, 30)


def expire(stage: Stage, name: str, table: str) -> None:
    """Records go before they are read: an error that says which; with failOnDataLoss=false those that are left are read."""
    topic = _query_of_ten(stage, name, table)
    stage.spark.do("stop", name=name)
    stage.fill(topic, range(10, 30))
    stage.client.run(offsets.delete_records, {TopicPartition(topic, 0): 25})
    stage.spark.do("start", **stage.queries[name])
    _fails(stage, name, "the log holds 25 to 30. Records were aged out or deleted", is_own=True)
    _goes_on(stage, name, 15, failOnDataLoss="false")


def break_schema(stage: Stage, name: str, table: str) -> None:
    """A value that is no JSON: an error with its offset that names the option; with `rescuedColumn` its columns are null, and the others are there."""
    topic = stage.make_topic(name)
    stage.fill(topic, [json.dumps({"number": each}) for each in range(10)])
    stage.start_query(name, table, topic, {"valueFormat": "json", "valueSchema": "number BIGINT"})
    assert not stage.spark.do("drain", names=[name])
    stage.fill(topic, ['{"number": 10}', "no json", '{"number": 12}'])
    _fails(stage, name, f"{topic}-0 offset 11: the value is no json")
    _goes_on(stage, name, 13, rescuedColumn="bad")


def damage_checkpoint(stage: Stage, name: str, table: str) -> None:
    """The offsets of the last batch say something else: an error that names checkpoint and remedy; restored, the query goes on."""
    topic = _query_of_ten(stage, name, table)
    stage.spark.do("stop", name=name)
    places = stage.directory / "checkpoints" / name / "offsets"
    stored = max((each for each in places.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
    before = stored.read_text()
    (places / f".{stored.name}.crc").unlink()
    *head, _ = before.splitlines()
    stored.write_text("\n".join([*head, '{"no offsets": 1}']))
    stage.fill(topic, range(10, 20))
    stage.spark.do("start", **stage.queries[name])
    _fails(stage, name, "restore it, or begin anew with another checkpointLocation", is_own=True)
    stored.write_text(before)
    _goes_on(stage, name, 20)


def lose_commit(stage: Stage, name: str, table: str) -> None:
    """The driver dies when the table has a batch and Spark has not noted it as done: the batch is run again, and no row is doubled.

    A directory in the place of the note holds the query there; then the driver is killed.
    """
    topic = _query_of_ten(stage, name, table)
    checkpoint = stage.directory / "checkpoints" / name
    note = checkpoint / "commits" / str(newest(checkpoint / "commits") + 1)
    (note / "in the way").mkdir(parents=True)
    stage.fill(topic, range(10, 20))
    error = stage.spark.do("drain", names=[name]).get(name, "no error")
    counts = stage.spark.do("judge", name=name, table=table, topic=topic)
    assert (counts["rows"], newest(checkpoint / "offsets")) == (20, int(note.name)), (counts, error)
    stage.kill_spark()
    shutil.rmtree(note)
    stage.fill(topic, range(20, 30))
    _goes_on(stage, name, 30)


SPOILT: Final[Mapping[str, Callable[[Stage, str, str], None]]] = {
    "recreated": recreate,
    "expired": expire,
    "schema": break_schema,
    "checkpoint": damage_checkpoint,
    "commit": lose_commit,
}


def _query_of_ten(stage: Stage, name: str, table: str) -> str:
    """A topic of its own with ten records, all of which are in the table; its name."""
    topic = stage.make_topic(name)
    stage.fill(topic, range(10))
    stage.start_query(name, table, topic)
    assert not stage.spark.do("drain", names=[name])
    return topic


def _fails(stage: Stage, name: str, said: str, *, is_own: bool = False) -> None:
    """The query ends with an error of ours that says this; the error that PySpark shows (`is_own`), or one of its causes."""
    error = stage.spark.do("drain", names=[name]).get(name, "no error")
    if is_own:
        error, *_ = error.split(CAUSED_BY)
    ours = _WHERE.findall(error)
    assert ours, error
    assert said in ours[-1], ours[-1]


def _goes_on(stage: Stage, name: str, rows: int, **options: str) -> None:
    """With these options more, the query brings the table to so many rows, each once."""
    known = stage.queries[name]
    stage.spark.do("start", **{**known, "options": {**known["options"], **options}})
    failed = stage.spark.do("drain", names=[name])
    assert not failed, failed
    counts = stage.spark.do("judge", name=name, table=known["table"], topic=known["options"]["subscribe"])
    assert (counts["rows"], counts["lost"], counts["doubled"]) == (rows, 0, 0), counts
    stage.spark.do("stop", name=name)


def run_spoilt(stage: Stage, fault: str, table: str, number: int) -> str:
    """Do it to a query of its own into a table of that kind; what came of it, in a line."""
    SPOILT[fault](stage, f"{fault}-{table}-{number}", table)
    return (
        f"{table}: one error that names the remedy, and right rows after it"
        if fault != "commit"
        else f"{table}: 0 lost, 0 doubled"
    )
