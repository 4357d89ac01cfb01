"""Did a quorum keep what it acknowledged, and do all of its nodes hold the same bytes?"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from headrace.testing.cluster import Cluster
from tests.support.metadata_disk import MetadataDisk, assert_equal_bytes, image_of, read_disk
from tests.support.metadata_load import Changer, numbers_in, wait_until


def settle(cluster: Cluster) -> Any:
    """Wait until a leader commits a change and every running controller has it; the quorum as that leader sees it then."""
    with closing(Changer(cluster, next_number=900_000_000)) as changer:
        changer.change()
    found: list[Any] = []

    def is_settled() -> bool:
        leader = cluster.find_leader()
        view = cluster.describe(leader.node_id) if leader is not None else None
        if view is None:
            return False
        found[:] = [view]
        ends = {each.replica_id: each.log_end_offset for each in (*view.current_voters, *view.observers)}
        running = [each.node_id for each in cluster.controllers if each.is_running]
        return view.high_watermark > 0 and all(ends.get(node_id, -1) >= view.high_watermark for node_id in running)

    wait_until(is_settled)
    return found[0]


def compare_running(cluster: Cluster) -> int:
    """Settle, and compare the logs below the high watermark while all run; how many offsets two nodes or more have in the same bytes."""
    view = settle(cluster)
    disks = {each.node_id: read_disk(each.metadata_log) for each in cluster.controllers if each.is_running}
    return assert_equal_bytes(disks, view.high_watermark)


def judge(cluster: Cluster, acknowledged: Iterable[int]) -> dict[int, MetadataDisk]:
    """Settle, stop everything, and compare: every acknowledged change is on every controller that ran, in the same bytes."""
    view = settle(cluster)
    running = [each for each in cluster.controllers if each.is_running]
    cluster.stop()
    disks = {each.node_id: read_disk(each.metadata_log) for each in running}
    wanted = set(acknowledged)
    for node_id, disk in disks.items():
        lost = wanted - numbers_in(image_of(disk, view.high_watermark))
        assert not lost, f"node {node_id} lost {len(lost)} acknowledged changes: {sorted(lost)[:10]}"
    assert_equal_bytes(disks, view.high_watermark)
    return disks
