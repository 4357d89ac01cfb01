"""How much may a leader have written that its disk does not hold yet?"""

from __future__ import annotations

import pytest

from headrace.raft.events import RecordsOffered, TimeAdvanced
from tests.support.raft import RaftBench

MOST = 1_000
RECORD = b"r" * 300


class Writing(RaftBench):
    """A leader that is offered records; the test does the syncs."""

    def __init__(self) -> None:
        super().__init__(max_batch_bytes=MOST)
        self.start()

    def offer(self, *records: bytes) -> None:
        """The controller's next batch."""
        self.step(RecordsOffered(records=records, base_offset=self.node.next_offset, epoch=1, now_ms=self.now_ms))

    @property
    def unsynced_bytes(self) -> int:
        """What a power cut can tear."""
        return sum(len(data) for _, end, _, data in self.log.batches if end > self.log.durable_end_offset)

    def sync(self) -> int:
        """The sync that is under way ends; how many bytes it was for."""
        before = self.unsynced_bytes
        self.flush()
        return before


@pytest.mark.parametrize("waits_ms", [0, 100])
def test_what_a_power_cut_can_tear_is_bounded(waits_ms: int) -> None:
    """B-R17, B-S11, inv:D6: with a slow disk too. More that is torn is taken for rot, and the node refuses to start."""
    bench = Writing()
    for _ in range(20):
        bench.offer(RECORD)
        bench.now_ms += waits_ms
        bench.step(TimeAdvanced(now_ms=bench.now_ms))
    assert 0 < bench.unsynced_bytes < 2 * MOST
    end = bench.node.next_offset
    while bench.node.high_watermark < end:
        assert 0 < bench.sync() < 2 * MOST


def test_a_batch_that_is_larger_than_that_is_written() -> None:
    """B-R17: what was decided together is one batch, however large; the next one waits until it is synced."""
    bench = Writing()
    bench.offer(b"r")
    bench.offer(*[RECORD] * 9)
    bench.offer(RECORD)
    assert 9 * len(RECORD) < bench.unsynced_bytes < 11 * len(RECORD)
    bench.sync()
    assert len(RECORD) < bench.sync() < 2 * len(RECORD)
    assert bench.node.high_watermark == bench.node.next_offset
