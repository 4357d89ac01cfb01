"""The benchmark of leaders that change while topics are deleted, with few of each."""

from __future__ import annotations

from argparse import Namespace

from benchmarks.leader_changes import BROKERS, CONTROLLERS, measure


def test_leaders_change_while_topics_go_and_nobody_more_fetches_metadata() -> None:
    """S3-06, S3-07: each change is served, before all that was deleted is gone too; five fetch metadata of the active controller, with few partitions and with many."""
    found = measure("headrace", Namespace(changes=10, topics=40, many=40))
    fetchers = len(BROKERS) + CONTROLLERS - 1
    assert (found["metadata fetchers"], found["metadata fetchers with many partitions more"]) == (fetchers, fetchers)
    changes = found["changes while topics are deleted"]
    assert isinstance(changes, int)
    assert changes > 0
