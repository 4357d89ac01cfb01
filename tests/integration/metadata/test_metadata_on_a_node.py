"""Metadata of a whole node: where it lies, that it moves on, and that damage stops the start with one clear line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.core.errors import OperatorError
from headrace.testing import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.raw import RawConnection
from tests.support.roles import until

LOG = "__cluster_metadata-0/00000000000000000000.log"


def create(port: int, *names: str) -> None:
    """Topics of one partition."""
    topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
    with RawConnection(port) as connection:
        answer = connection.ask(CreateTopicsRequest(topics=topics), 7)
    assert {each.error_code for each in answer.topics} == {0}


def topics(port: int) -> set[str]:
    """What a client sees."""
    with RawConnection(port) as connection:
        return {topic.name for topic in connection.ask(MetadataRequest(topics=None), 12).topics}


def test_the_metadata_log_lies_in_the_first_log_directory(tmp_path: Path) -> None:
    """S1-16: without metadata.log.dir."""
    dirs = f"{tmp_path}/a,{tmp_path}/b"
    with Node(directory=tmp_path / "node", properties={"log.dirs": dirs}):
        assert (tmp_path / "a" / LOG).exists()
        assert not (tmp_path / "b/__cluster_metadata-0").exists()


def test_the_metadata_log_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    """S1-16: with metadata.log.dir; topics do not go there."""
    settings = {"metadata.log.dir": f"{tmp_path}/meta"}
    with Node(directory=tmp_path / "node", properties=settings) as node:
        create(node.port, "t")
        assert (tmp_path / "meta" / LOG).exists()
        assert (node.data / "t-0").exists()
        assert not (node.data / "__cluster_metadata-0").exists()
    with Node(directory=tmp_path / "node", properties=settings) as node:
        assert topics(node.port) == {"t"}


def test_the_high_watermark_moves_in_an_idle_cluster(tmp_path: Path) -> None:
    """B-C16: NoOp records are written and committed."""
    asked = (RequestTopicData(topic_name="__cluster_metadata", partitions=(RequestPartitionData(),)),)

    def high_watermark(connection: RawConnection) -> int:
        answer = connection.ask(DescribeQuorumRequest(topics=asked), 2)
        found: int = answer.topics[0].partitions[0].high_watermark
        return found

    with (
        Node(directory=tmp_path, properties={"metadata.max.idle.interval.ms": "20"}) as node,
        RawConnection(node.controller_port) as connection,
    ):
        first = high_watermark(connection)
        deadline = time.monotonic() + 20
        while high_watermark(connection) < first + 3:
            assert time.monotonic() < deadline, "nothing is written while idle"
            time.sleep(0.01)


@pytest.mark.parametrize("what", ["log", "snapshot", "quorum-state"])
def test_damage_stops_the_start_with_a_clear_line(tmp_path: Path, what: str) -> None:
    """B-S11, B76: a flipped byte in synced metadata is never skipped; the message names the file's place or the offset."""
    small = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    with Node(directory=tmp_path, properties=small) as node:
        create(node.port, *[f"t{number}" for number in range(20)])
        directory = node.data / "__cluster_metadata-0"
        until(lambda: list(directory.glob("*.checkpoint")))
    if what == "log":
        damaged = directory / "00000000000000000000.log"
    elif what == "snapshot":
        damaged = sorted(directory.glob("*.checkpoint"))[-1]
    else:
        damaged = directory / "quorum-state"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0x55
    damaged.write_bytes(content if what != "quorum-state" else content[:40])
    with pytest.raises(OperatorError) as refusal, Node(directory=tmp_path, properties=small):
        pass
    text = str(refusal.value)
    assert "Traceback" not in text
    assert {"log": "damaged", "snapshot": "snapshot", "quorum-state": "quorum-state"}[what] in text
