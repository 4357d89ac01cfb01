"""Coordinators that many wait for, and that write much at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.broker.coordinators import service as coordinators
from headrace.records.batch import iter_batches
from headrace.records.compression import Codec
from headrace.rpc.reply import Deferred, Reply
from tests.unit.broker.test_group_service import CONTEXT, MemoryLogs, commit, service
from tests.unit.coordinator.group_bench import commit_request


def test_who_waits_for_a_coordinator_that_goes_is_answered_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: thousands of members may wait for it; at the end of the node all hear at once."""
    monkeypatch.setattr(coordinators, "_ANSWERED_A_TURN", 2)
    logs = MemoryLogs()
    groups = service(logs)
    logs.is_stalled = True
    waiting = [commit(groups, number) for number in range(7)]
    groups.resigned(0, 1)

    def answered() -> int:
        return sum(each.is_done for each in waiting if isinstance(each, Deferred))

    assert (answered(), groups.next_deadline_ms()) == (2, logs.now_ms())
    groups.tick(logs.now_ms())
    assert answered() == 4
    groups.shut_down()
    assert (answered(), groups.next_deadline_ms()) == (7, None)


@pytest.mark.parametrize(("of_bytes", "codec"), [(10_000, Codec.GZIP), (30_000, Codec.NONE)])
def test_what_takes_long_to_compress_is_written_as_it_is(of_bytes: int, codec: Codec) -> None:
    """M6: gzip takes 30 ms for a megabyte (`offsets.topic.compression.codec`)."""
    logs = MemoryLogs()
    logs.config = replace(logs.config, offsets_topic_compression_codec=Codec.GZIP, offset_metadata_max_bytes=of_bytes)
    groups = service(logs)
    request = commit_request(1, metadata="x" * of_bytes)
    one = request.topics[0].partitions[0]
    partitions = tuple(replace(one, partition_index=index) for index in range(20))
    request = replace(request, topics=(replace(request.topics[0], partitions=partitions),))
    assert isinstance(groups.ask("g", request, CONTEXT, refused=lambda error: error), Reply)
    assert [header.codec for _, header in iter_batches(logs.batches[0])] == [codec]
