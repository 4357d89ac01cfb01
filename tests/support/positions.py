"""Positions of groups, stored by a test."""

from __future__ import annotations

from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.attacks import Target, wait_until
from tests.support.raw import RawConnection


def commit(target: Target, group: str, topic: str, *, partitions: int, metadata: str = "") -> None:
    """Positions of one group in the first partitions of a topic."""
    with RawConnection(target.node.port) as peer:
        peer.socket.settimeout(60)
        wait_until(lambda: not peer.ask(FindCoordinatorRequest(key=group), 2).error_code, "the coordinator is known")
        parts = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
            for index in range(partitions)
        )
        request = OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=parts),))
        wait_until(
            lambda: not any(part.error_code for part in peer.ask(request, 7).topics[0].partitions),
            "positions are stored",
        )
