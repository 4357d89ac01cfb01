"""What is older than the oldest snapshot is said to be gone, and never guessed."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from headrace.testing import Cluster
from tests.support.commands import headrace, refusal
from tests.support.roles import create, until

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.max.retention.bytes": "4000",
    "internal.metadata.log.segment.bytes": "4000",
}


def begin_of(directory: Path) -> int:
    """Where the log of a node begins."""
    return min(int(each.stem) for each in directory.glob("*.log"))


def refused(*arguments: str) -> str:
    """The last line of a refusal; the one before says what is not kept."""
    done = headrace("history", *arguments)
    assert done.code == 1, done
    return done.err.splitlines()[-1]


def test_history_begins_with_the_oldest_snapshot_and_says_so() -> None:
    """B-S04, S3-08: the state there is known, who made it so is not; what is behind it is told as ever, in both ways of reading."""
    with Cluster(controllers=1, brokers=1, properties=SETTINGS) as cluster:
        [broker], [controller] = cluster.brokers, cluster.controllers
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        numbers = count()
        assert create(broker, "first") == [0]

        def has_forgotten() -> bool:
            assert create(broker, f"t{next(numbers)}", partitions=10) == [0]
            return begin_of(controller.metadata_log) > 0

        until(has_forgotten)
        assert create(broker, "last") == [0]
        for where in (
            ("--bootstrap-controller", cluster.bootstrap_controllers),
            ("--directory", str(controller.metadata_log)),
        ):
            told = headrace("history", *where, "--topic", "last", "--json")
            assert [json.loads(each)["event"] for each in told.out.splitlines()] == [
                "topic-created",
                "partition-created",
            ]
            assert "is not kept: a snapshot says how things were there, not why" in told.err
            assert len(told.err.splitlines()) == 1
            first = headrace("history", *where, "--topic", "first")
            assert (first.code, first.out) == (0, "")
            shown = json.loads(headrace("history", *where, "--topic", "first", "--at", "0s", "--json").out)
            assert (shown["topic"], shown["last_change"]) == ("first", None)
            assert "is older than the oldest snapshot" in refusal("history", *where, "--at", "1")
            recent = headrace("history", *where, "--since", "0s")
            assert (recent.code, recent.out, recent.err) == (0, "", "")
            for mistyped in (("--topic", "frist"), ("--topic", "last", "--partition", "1"), ("--broker", "77")):
                assert "what is kept of the log knows of none" in refused(*where, *mistyped)
            assert create(broker, "gone") == [0]
            assert headrace("topics", *server, "--delete", "--topic", "gone", "--wait-ms", "30000").code == 0
            assert "gone deleted" in headrace("history", *where, "--topic", "gone").out
