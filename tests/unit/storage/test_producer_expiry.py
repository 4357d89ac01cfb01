"""For how long is a producer remembered whose records are old?"""

from __future__ import annotations

from headrace.records.record import ProducerStamp
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from tests.support.stores import DIRECTORY_ID, NOW_MS, PARTITION, SMALL, TOPIC_ID, append, producer_batch

DAY_MS = 24 * 3600 * 1000


def test_a_producer_of_old_records_is_remembered_until_the_next_check() -> None:
    """inv:E2, PR4: who copies last week's records sends one again after a lost answer; `producer.id.expiration.check.interval.ms` as in Kafka."""
    files = LossyFiles()
    files.mkdir("/data")
    store = LogStore(files, {"/data": DIRECTORY_ID}, producer_expiration_check_interval_ms=600_000)
    store.load(lambda _: SMALL, now_ms=NOW_MS)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=SMALL)
    stamp = ProducerStamp(5, 0, 0)
    last_week = NOW_MS - 7 * DAY_MS
    store.maintain(NOW_MS)
    append(log, producer_batch(stamp, b"a", timestamp=last_week))
    for seconds in range(1, 30):
        store.maintain(NOW_MS + seconds * 1000)
    assert append(log, producer_batch(stamp, b"a", timestamp=last_week)).is_duplicate
    store.maintain(NOW_MS + 600_000)
    assert log.active_producers() == []
