"""Coordinators that many wait for, and that write much at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.broker.coordinators import service as coordinators
from headrace.coordinator.groups.requests import FetchStableOffsets
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


def test_who_waits_for_the_same_commit_is_answered_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6, KIP-447: every member of a group may ask for positions while one record is on its way into the log; each is answered once."""
    monkeypatch.setattr(coordinators, "_ANSWERED_A_TURN", 2)
    logs = MemoryLogs()
    groups = service(logs)
    logs.is_stalled = True
    waiting: list[object] = [commit(groups, 1)]
    for _ in range(6):
        waiting.append(groups.ask("g", FetchStableOffsets(group_id="g"), CONTEXT, refused=lambda error: error))
    answered = []
    logs.let_go()
    while groups.next_deadline_ms() == logs.now_ms():
        answered.append(sum(each.is_done for each in waiting if isinstance(each, Deferred)))
        groups.tick(logs.now_ms())
    assert (answered, [isinstance(each, Deferred) and each.is_done for each in waiting]) == ([2, 4, 6], [True] * 7)


@pytest.mark.parametrize(
    ("of_bytes", "chosen", "codec"),
    [
        (10_000, Codec.GZIP, Codec.GZIP),
        (30_000, Codec.GZIP, Codec.LZ4),
        (30_000, Codec.ZSTD, Codec.LZ4),
        (30_000, Codec.SNAPPY, Codec.SNAPPY),
        (30_000, Codec.NONE, Codec.NONE),
    ],
)
def test_what_takes_long_to_compress_is_packed_quickly(of_bytes: int, chosen: Codec, codec: Codec) -> None:
    """M6: gzip takes 30 ms for a megabyte (`offsets.topic.compression.codec`). Unpacked it might be more than the topic takes (`max.message.bytes`)."""
    logs = MemoryLogs()
    logs.config = replace(logs.config, offsets_topic_compression_codec=chosen, offset_metadata_max_bytes=of_bytes)
    groups = service(logs)
    request = commit_request(1, metadata="x" * of_bytes)
    one = request.topics[0].partitions[0]
    partitions = tuple(replace(one, partition_index=index) for index in range(20))
    request = replace(request, topics=(replace(request.topics[0], partitions=partitions),))
    assert isinstance(groups.ask("g", request, CONTEXT, refused=lambda error: error), Reply)
    assert [header.codec for _, header in iter_batches(logs.batches[0])] == [codec]
