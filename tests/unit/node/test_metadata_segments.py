"""A metadata log that is asked for a segment for each record."""

from __future__ import annotations

import random
from dataclasses import replace

from headrace.log.ports import Appended, Origin
from headrace.node.disk import NodeDisk
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.faulty_disk import SimDisk
from headrace.storage.roll_allowance import MOST_AT_ONCE
from tests.support.broker_bench import ManualClock
from tests.support.memory_node import CONFIG, format_disk


def test_it_begins_no_more_than_the_node_can_bear() -> None:
    """PR8: each keeps a file open until it is synced, and takes its time on the event loop."""
    disk = SimDisk()
    format_disk(disk)
    node = NodeDisk(replace(CONFIG, metadata_log_segment_ms=1), files=disk, clock=ManualClock())
    node.open()
    log = node.open_metadata(random.Random(1)).log
    for number in range(60):
        placement = Placement(base_offset=number, leader_epoch=1)
        data = build_batch([NewRecord(None, b"value", 1_000 + 10 * number)], placement=placement)
        done = log.append_as_leader(memoryview(data), leader_epoch=1, now_ms=1_000, origin=Origin.RAFT_LEADER)
        assert isinstance(done, Appended)
    assert (len(log.segments), log.log_end_offset) == (1 + MOST_AT_ONCE, 60)
