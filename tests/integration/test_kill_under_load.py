"""Is anything acknowledged lost, or written twice, when the node is killed under load again and again?

``HEADRACE_KILLS`` sets how often (10; in CI 50); ``HEADRACE_KILL_SEED`` the random moments, printed with a failure.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Node
from tests.support.numbered_load import PARTITIONS, Load, judge, read_all
from tests.support.volumes import volume

KILLS = volume("HEADRACE_KILLS", quick=10, ci=50)
SEED = int(os.environ.get("HEADRACE_KILL_SEED", "20"))
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "512",
    "log.flush.offset.checkpoint.interval.ms": "300",
}


def test_nothing_acknowledged_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """S1, E1, D5, B-P04: kill -9 at random moments under idempotent load, with restarts on the same directory."""
    rng = random.Random(SEED)
    node = Node(properties=SETTINGS, directory=tmp_path / "node").start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("numbers", PARTITIONS, 1)])["numbers"].result(30)
        load = Load(node.bootstrap_servers, "numbers")
        thread = threading.Thread(target=load.run)
        thread.start()
        try:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.05, 0.6))
                node.kill()
                node.start()
        finally:
            load.stopped.set()
            thread.join()
        assert load.failed == [], f"seed {SEED}"
        found = read_all(node.bootstrap_servers, "numbers")
    finally:
        node.stop()
    judge(load, found, told=f"seed {SEED}")
