"""What happens to the logs of a broker that stops, while its metadata go on?"""

from __future__ import annotations

import pytest

from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.broker_bench import Client
from tests.support.memory_node import DATA, MemoryNode
from tests.support.peer import batch, produce_request


def make(node: MemoryNode, name: str, partitions: int = 1) -> None:
    """A topic, as an operator makes it."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)


def made(node: MemoryNode, name: str) -> int:
    """How many of the topic's logs are on the disk."""
    return sum(each.startswith(f"{name}-") and not each.endswith("-delete") for each in node.files.listdir(DATA))


def replaced(node: MemoryNode, name: str) -> None:
    """Another topic gets the name."""
    node.forward(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=5_000), 6)
    node.settle()
    make(node, name)
    node.settle()


@pytest.mark.parametrize("is_closed", [False, True])
def test_topics_that_come_and_go_while_a_broker_stops_wait_for_the_next_process(is_closed: bool) -> None:
    """inv:D4: a log that is made then is flushed by nobody, and one that takes another's name has the checkpoints of all logs written anew, without those that are closed."""
    node = MemoryNode()
    node.start()
    for name in ("kept", "replaced"):
        make(node, name)
        node.settle()
        for _ in range(3):
            Client(node).ask(produce_request(name, batch(b"one"), acks=1), 9)
    log = node.broker.partitions.by_name["kept", 0].log
    assert log is not None
    log.advance_log_start(2)
    node.machine.end_upkeep()
    if is_closed:
        node.logs.close(clean=True, broker_epoch=7)
    replaced(node, "replaced")
    make(node, "late")
    node.settle()
    assert "late" in node.machine.image.topics.by_name
    assert (made(node, "replaced"), made(node, "late")) == (1, 0)
    if not is_closed:
        node.logs.close(clean=True, broker_epoch=7)
    node.disk.close_metadata(is_clean=True)
    node.disk.unlock()
    again = MemoryNode(after=node)
    again.start()
    found = {each.topic: each.log for each in again.broker.partitions}
    assert {name: (log.log_start_offset, log.high_watermark) for name, log in found.items() if log is not None} == {
        "kept": (2, 3),
        "replaced": (0, 0),
        "late": (0, 0),
    }


def test_what_is_left_of_a_long_delta_waits_for_the_next_process() -> None:
    """S3-07: the logs of a large topic are made in many turns, and the stop comes between two of them."""
    node = MemoryNode()
    node.start()
    make(node, "many", 40)
    while not made(node, "many"):
        node.work()
        node.machine.tick()
    count = made(node, "many")
    assert 0 < count < 40
    node.machine.end_upkeep()
    node.settle()
    assert made(node, "many") == count
    node.stop()
    again = MemoryNode(after=node)
    again.start()
    assert made(again, "many") == 40
