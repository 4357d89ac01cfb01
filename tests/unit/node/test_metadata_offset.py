"""Does a broker say from which metadata its answers are, and how old those are?"""

from __future__ import annotations

import pytest

from headrace.node.metadata_progress import NOTHING
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_quorum import NodeView
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.broker_bench import Client
from tests.support.memory_node import MemoryNode

METADATA = MetadataRequest(topics=())
VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


@pytest.fixture
def node() -> MemoryNode:
    """A node whose controller writes a NoOpRecord every 500 ms."""
    made = MemoryNode(metadata_max_idle_interval_ms=500)
    made.start()
    return made


def offset_of(node: MemoryNode) -> int:
    """The last offset that the broker's image contains."""
    return node.broker.image.provenance.last_contained_offset


def test_answers_tell_the_offset_of_their_metadata(node: MemoryNode) -> None:
    """S4-55: Metadata from version 9 on, ApiVersions from version 3 on; both name the image that they were made from."""
    client = Client(node)
    for version in range(14):
        assert client.ask(METADATA, version).metadata_offset == (offset_of(node) if version >= 9 else -1)
    for version in range(5):
        told = client.ask(VERSIONS, version).finalized_features_epoch
        assert told == (offset_of(node) if version >= 3 else -1)


def test_the_offset_grows_with_the_log(node: MemoryNode) -> None:
    """S4-55: with each change and, on an idle cluster, with each NoOpRecord; it never goes back."""
    client = Client(node)
    seen = [client.ask(METADATA, 12).metadata_offset]
    for number in range(3):
        topics = (CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1),)
        node.forward(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
        node.settle()
        seen += [client.ask(METADATA, 12).metadata_offset, client.ask(VERSIONS, 3).finalized_features_epoch]
        node.settle()
        seen.append(client.ask(METADATA, 13).metadata_offset)
    assert seen == sorted(seen)
    assert len(set(seen)) == 7


def test_an_idle_node_that_is_served_has_applied_something_young(node: MemoryNode) -> None:
    """S4-56: last-applied-record-offset, -timestamp and -lag-ms; NoOpRecord keeps the clock honest."""
    progress = node.machine.metadata_progress
    for _ in range(3):
        before = progress.last_applied_record_offset
        node.settle()
        assert progress.last_applied_record_offset == offset_of(node) > before
        assert 0 <= progress.last_applied_record_lag_ms < 1_000
        assert progress.last_applied_record_timestamp + progress.last_applied_record_lag_ms == node.clock.now_ms()


def test_a_node_that_is_not_served_falls_behind_by_the_time_that_passes(node: MemoryNode) -> None:
    """S4-56: here its own controller stands still, while its clock goes on."""
    progress = node.machine.metadata_progress
    offset, lag = progress.last_applied_record_offset, progress.last_applied_record_lag_ms
    node.clock.now += 60_000
    assert (progress.last_applied_record_offset, progress.last_applied_record_lag_ms) == (offset, lag + 60_000)
    view: NodeView = node.node.controller_server.view()
    assert (view.last_applied_offset, view.last_applied_lag_ms) == (offset, lag + 60_000)
    assert view.last_applied_timestamp == progress.last_applied_record_timestamp


def test_a_clock_that_is_behind_makes_no_negative_lag(node: MemoryNode) -> None:
    """S4-56, fault:S41: the controller that wrote the record may be ahead."""
    node.clock.now -= 60_000
    assert node.machine.metadata_progress.last_applied_record_lag_ms == 0


def test_a_node_that_applied_nothing_has_no_lag() -> None:
    """S4-56: the image is empty before the first committed record."""
    progress = MemoryNode().machine.metadata_progress
    assert progress.last_applied_record_offset == NOTHING
    assert (progress.last_applied_record_timestamp, progress.last_applied_record_lag_ms) == (NOTHING, NOTHING)
