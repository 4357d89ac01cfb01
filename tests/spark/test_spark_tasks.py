"""What does a task leave in its worker? Without Spark: tasks are called as a worker calls them."""

from __future__ import annotations

from collections.abc import Generator

import psutil
import pytest

from headrace.core.errors import OperatorError
from headrace.spark.offset_ranges import InputRange
from headrace.spark.options import parse_read_options
from headrace.spark.row_reader import read_range
from headrace.testing import Node
from tests.spark.conftest import Topics

pytestmark = pytest.mark.spark


def connections(node: Node) -> set[int]:
    """Ports of this process that are connected to the node."""
    port = int(node.bootstrap_servers.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in found if each.raddr[1:] == (port,) and each.status == "ESTABLISHED"}


def test_tasks_of_a_worker_share_their_connection_and_one_that_is_stopped_leaves_none(
    node: Node, topics: Topics
) -> None:
    """The same range gives the same rows however often; a task that is killed, or limited, or fails, closes what it opened."""
    topic = topics.make()
    for part in range(3):
        topics.fill(topic, [f"{part}-{each}" for each in range(50)])
    others = connections(node)
    where = {"kafka.bootstrap.servers": topics.servers, "kafka.client.id": topic, "subscribe": topic}
    options = parse_read_options(where, is_stream=False)
    piece = InputRange(topic=topic, partition=0, start=10, end=140)
    first = list(read_range(options, piece))
    kept = connections(node) - others
    assert len(kept) == 1
    assert list(read_range(options, piece)) == first
    assert connections(node) - others == kept
    stopped = read_range(options, piece)
    assert isinstance(stopped, Generator)
    next(stopped)
    stopped.close()
    assert connections(node) == others
    with pytest.raises(OperatorError, match="was deleted and made again"):
        list(read_range(options, piece, "AAAAAAAAAAAAAAAAAAAAAA"))
    assert connections(node) == others
    assert [each.num_rows for each in read_range(options, piece)] == [each.num_rows for each in first]
