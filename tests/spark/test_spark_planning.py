"""Where does each batch of a stream end? Without Spark: the reader is asked as Spark's driver asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.client import offsets
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.options import parse_read_options
from headrace.spark.stream_reader import HeadraceStreamReader
from tests.spark.conftest import Topics

pytestmark = pytest.mark.spark
Reader = Callable[..., Any]


@contextmanager
def reader(topics: Topics, **options: str) -> Iterator[HeadraceStreamReader]:
    """A reader of a stream from the earliest offset on."""
    wanted = {"kafka.bootstrap.servers": topics.servers, "startingOffsets": "earliest", **options}
    found = HeadraceStreamReader(parse_read_options(wanted, is_stream=True))
    try:
        yield found
    finally:
        found.stop()


def plan(found: HeadraceStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch."""
    return found.latestOffset(start, found.getDefaultReadLimit())


def ranges(found: HeadraceStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Partition, start and end of each task."""
    pieces = [each.piece for each in found.partitions(start, end)]
    return [(each.partition, each.start, each.end) for each in pieces]


def test_a_batch_is_limited_in_bytes(topics: Topics) -> None:
    """maxBytesPerTrigger: partitions of large and of small records; each batch has about as many bytes, and all of them everything once."""
    topic = topics.make(3)
    for _ in range(20):
        topics.fill(topic, ["v" * 2_000] * 10)
        topics.fill(topic, ["v" * 90] * 50, partition=1)
    total = 200 * 2_000 + 1_000 * 90
    with reader(topics, subscribe=topic, maxBytesPerTrigger="100000") as found:
        start = found.initialOffset()
        batches = []
        while (end := plan(found, start)) != start:
            batches.append(ranges(found, start, end))
            start = end
    sizes = [sum((end - start) * (2_000 if number == 0 else 90) for number, start, end in each) for each in batches]
    assert sum(sizes) == total
    assert all(85_000 <= each <= 102_000 for each in sizes[:-1]), sizes
    assert {len(each) for each in batches[:-1]} == {2}


def test_limits_in_bytes_where_records_are_gone(topics: Topics) -> None:
    """What the next records weigh is looked up where the log begins now."""
    topic = topics.make()
    for _ in range(4):
        topics.fill(topic, ["v" * 1_000] * 10)
    with reader(topics, subscribe=topic, maxBytesPerTrigger="10000", failOnDataLoss="false") as found:
        start = found.initialOffset()
        topics.client.run(offsets.delete_records, {TopicPartition(topic, 0): 20})
        ((_, first, end),) = ranges(found, start, plan(found, start))
    assert (first, 8 <= end <= 11) == (0, True)


def test_topics_and_partitions_that_are_added_while_a_query_runs(topics: Topics) -> None:
    """Each from its first offset on, with the next batch."""
    from headrace.client import admin_topics

    first, second = topics.make(), topics.make()
    with reader(topics, subscribePattern=f"{first}|{second}") as found:
        topics.fill(first, ["a"])
        start = found.initialOffset()
        end = plan(found, start)
        assert ranges(found, start, end) == [(0, 0, 1)]
        topics.client.run(admin_topics.create_partitions, {first: 2})
        topics.fill(first, ["b", "c"], partition=1)
        topics.fill(second, ["d"])
        again = plan(found, end)
        assert sorted(ranges(found, end, again)) == [(0, 0, 1), (1, 0, 2)]
        assert plan(found, again) == again


def test_a_topic_that_was_made_again_has_another_id(topics: Topics) -> None:
    """The loss is named with both ids; without failOnDataLoss all of the new topic is read, and a batch that is run again does the same again."""
    topic = topics.make()
    topics.fill(topic, ["a", "b", "c"])
    with reader(topics, subscribe=topic) as found:
        start = found.initialOffset()
        end = plan(found, start)
        (planned,) = found.partitions(start, end)
    topics.remake(topic)
    topics.fill(topic, ["d", "e", "f"])
    with reader(topics, subscribe=topic) as found, pytest.raises(OperatorError, match="was deleted and made again"):
        plan(found, end)
    with reader(topics, subscribe=topic, failOnDataLoss="false") as found:
        after = plan(found, end)
        assert after != end
        assert ranges(found, end, after) == [(0, 0, 3)]
        assert plan(found, after) == after
        (partition,) = found.partitions(start, end)
        assert list(found.read(partition)) == []
    with reader(topics, subscribe=topic) as found:
        assert ranges(found, end, after) == [(0, 0, 3)]
        with pytest.raises(OperatorError, match="was deleted and made again"):
            found.partitions(start, end)
        with pytest.raises(OperatorError, match="was deleted and made again"):
            list(found.read(planned))


def test_a_loss_is_found_before_a_task_reads(topics: Topics) -> None:
    """failOnDataLoss: the driver's error is the query's own, that of a task may be the cause of Spark's only; with false the tasks leave out what is gone."""
    topic = topics.make()
    topics.fill(topic, ["a", "b"])
    topics.fill(topic, ["c"])
    with reader(topics, subscribe=topic) as found:
        start = found.initialOffset()
        end = plan(found, start)
        assert ranges(found, start, end) == [(0, 0, 3)]
        topics.client.run(offsets.delete_records, {TopicPartition(topic, 0): 2})
        said = f"of the offsets 0 to 3 of {topic}-0 the log holds 2 to 3. .*; say failOnDataLoss=false"
        with pytest.raises(OperatorError, match=said):
            found.partitions(start, end)
        topics.client.run(offsets.delete_records, {TopicPartition(topic, 0): 3})
        with pytest.raises(OperatorError, match=r"the log holds none\. "):
            found.partitions(start, end)
        topics.delete(topic)
        with pytest.raises(OperatorError, match=f"{topic}-0 is gone, and with it offsets 0 to 3. "):
            found.partitions(start, end)
    with reader(topics, subscribe=topic, failOnDataLoss="false") as found:
        (partition,) = found.partitions(start, end)
        assert list(found.read(partition)) == []


def test_records_that_go_while_a_task_reads_them_are_a_loss(topics: Topics) -> None:
    """What aged out, or went with its topic, behind the rows that were read is named; with failOnDataLoss=false the rows that are left come, each once."""
    topic = topics.make()
    for number in range(40):
        topics.fill(topic, [f"{number}" + "v" * 2_000])
    where = {"subscribe": topic, "kafka.max.partition.fetch.bytes": "5000"}
    with reader(topics, **where) as found, reader(topics, failOnDataLoss="false", **where) as lenient:
        start = found.initialOffset()
        (partition,) = found.partitions(start, plan(found, start))
        strict_rows, lenient_rows = found.read(partition), lenient.read(partition)
        seen = next(lenient_rows)["offset"].to_pylist()
        next(strict_rows)
        topics.client.run(offsets.delete_records, {TopicPartition(topic, 0): 30})
        with pytest.raises(OperatorError, match=r"to 40 of .* the log holds 30 to 40. Records were aged out"):
            list(strict_rows)
        seen += [offset for rows in lenient_rows for offset in rows["offset"].to_pylist()]
        assert seen == [*range(len(seen) - 10), *range(30, 40)]
        assert len(seen) < 40

        (partition,) = found.partitions({topic: {"0": 30}}, {topic: {"0": 40}})
        strict_rows, lenient_rows = found.read(partition), lenient.read(partition)
        seen = next(lenient_rows)["offset"].to_pylist()
        next(strict_rows)
        topics.delete(topic)
        with pytest.raises(OperatorError, match=f"{topic}-0 is gone, and with it offsets 3. to 40. "):
            list(strict_rows)
        seen += [offset for rows in lenient_rows for offset in rows["offset"].to_pylist()]
        assert seen == [*range(30, 30 + len(seen))]
        assert len(seen) < 10


def test_offsets_of_sparks_own_source_are_taken_as_they_are(topics: Topics) -> None:
    """Without ids and start: what waits behind them is read, and what is there already is no batch."""
    topic = topics.make()
    topics.fill(topic, ["a", "b", "c"])
    with reader(topics, subscribe=topic) as found:
        assert plan(found, {topic: {"0": 3}}) == {topic: {"0": 3}}
        end = plan(found, {topic: {"0": 1}})
        assert ranges(found, {topic: {"0": 1}}, end) == [(0, 1, 3)]
        assert set(end) == {topic, "headrace:topics"}
