"""Do logs whose segments began together roll apart?"""

from __future__ import annotations

import random
from dataclasses import replace

from headrace.core.ids import TopicPartition
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from tests.support.stores import DIRECTORY_ID, NOW_MS, SMALL, TOPIC_ID


def test_segments_roll_apart_by_the_jitter() -> None:
    """B-P01: segment.jitter.ms, for logs that are made and for those that are found; never more than segment.ms."""
    config = replace(SMALL, segment_ms=100_000, segment_jitter_ms=50_000)
    files = LossyFiles()
    files.mkdir("/data")
    for round_ in range(2):
        store = LogStore(files, {"/data": DIRECTORY_ID})
        store.draw_from(random.Random(7 + round_))
        store.load(lambda _: config, now_ms=NOW_MS)
        for number in range(10):
            store.create(TopicPartition("topic", number), topic_id=TOPIC_ID, config=config)
        drawn = [log.segments[-1].jitter_ms for log in store.logs().values()]
        assert len(set(drawn)) > 5
        assert 0 <= min(drawn) < max(drawn) < 50_000
        store.close(clean=True)


def test_a_jitter_above_the_longest_time_is_bounded_by_it() -> None:
    """B-P01, KIP-354: else every batch would begin a segment."""
    files = LossyFiles()
    files.mkdir("/data")
    store = LogStore(files, {"/data": DIRECTORY_ID})
    store.draw_from(random.Random(1))
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    config = replace(SMALL, segment_ms=1000, segment_jitter_ms=10**9)
    for number in range(20):
        log = store.create(TopicPartition("topic", number), topic_id=TOPIC_ID, config=config)
        assert log.segments[-1].jitter_ms < 1000
