"""Does who makes a topic with several replicas learn that its records have one copy?"""

from __future__ import annotations

from headrace.cli.topics import ONE_COPY_WARNING
from headrace.testing import Cluster
from tests.support.commands import Done, headrace


def test_a_topic_with_replicas_is_made_with_a_warning() -> None:
    """The topic is made and Kafka's line is printed as ever; standard error says what it is worth. One replica needs no word."""
    with Cluster(controllers=1, brokers=2) as cluster:
        create = ("topics", "--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic")
        warned = Done(0, "Created topic two.\n", f"{ONE_COPY_WARNING % 'two'}\n")
        assert headrace(*create, "two", "--replication-factor", "2") == warned
        assert headrace(*create, "hand", "--replica-assignment", "101:102").err == f"{ONE_COPY_WARNING % 'hand'}\n"
        assert headrace(*create, "one", "--replication-factor", "1") == Done(0, "Created topic one.\n", "")
