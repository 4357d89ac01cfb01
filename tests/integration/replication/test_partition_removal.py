"""Is the last partition of a topic removed from real brokers, also from one that was away, and is one that is added later a new one?"""

from __future__ import annotations

from pathlib import Path

from headrace.client.blocking import BlockingClient
from headrace.testing.cluster import Cluster
from tests.support.commands import Done, headrace
from tests.support.copies import create, partitions
from tests.support.peer import batch
from tests.support.roles import until

PROPERTIES = {"partition.deletion.enable": "true", "replica.fetch.wait.max.ms": "100"}


def tool(cluster: Cluster, *arguments: str) -> Done:
    server = ",".join(f"127.0.0.1:{each.port}" for each in cluster.brokers if each.is_running)
    return headrace("topics", "--bootstrap-server", server, "--topic", "t", *arguments)


def write(cluster: Cluster, partition: int, value: bytes) -> None:
    with BlockingClient(f"127.0.0.1:{cluster[101].port}") as client:
        client.produce_raw("t", partition, bytes(batch(value)))


def logs(data: Path, partition: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((data / f"t-{partition}").glob("*.log")))


def test_the_last_partition_is_removed_and_made_anew() -> None:
    """S3-44, S3-74, S3-78: one fewer for clients; the directory is gone, also on a broker that was away while it was removed and made anew; that one begins at 0."""
    with Cluster(controllers=1, brokers=2, properties=PROPERTIES) as cluster:
        create(cluster, "t", [(101, 102), (101, 102), (102, 101)])
        for number in range(3):
            write(cluster, number, b"old %d" % number)
        gone = tool(cluster, "--delete-partition", "--wait-ms", "60000")
        assert gone == Done(0, "Removed partition t-2.\n", "")
        assert [each.partition_index for each in partitions(cluster[102], "t")] == [0, 1]
        assert not any((each.data / "t-2").exists() for each in cluster.brokers)
        until(lambda: b"old 1" in logs(cluster[102].data, 1) or None)
        cluster.stop(102)
        assert tool(cluster, "--delete-partition", "--wait-ms", "60000").out == "Removed partition t-1.\n"
        assert (cluster[102].data / "t-1").is_dir()
        grown = tool(cluster, "--alter", "--partitions", "2", "--replica-assignment", "101:102,101:102")
        assert grown.code == 0, grown
        write(cluster, 1, b"new 1")
        cluster.start(102)
        until(lambda: sorted(partitions(cluster[101], "t")[1].isr_nodes) == [101, 102] or None)
        until(lambda: logs(cluster[102].data, 1) == logs(cluster[101].data, 1) or None)
        assert b"new 1" in logs(cluster[102].data, 1)
        assert b"old 1" not in logs(cluster[102].data, 1)
        assert len(list(cluster[102].data.glob("t-1.*-stray"))) == 1
        with BlockingClient(f"127.0.0.1:{cluster[101].port}") as client:
            assert len(client.partitions(["t"])["t"]) == 2
        assert tool(cluster, "--delete-partition").code == 0
        refused = tool(cluster, "--delete-partition")
        assert (refused.code, refused.err) == (
            1,
            "Error while executing topic command : The only partition of t cannot be removed.\n",
        )
