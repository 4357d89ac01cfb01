"""What do the brokers differ in that one properties file makes, what is refused, and when is one started again?"""

from __future__ import annotations

import pytest

from headrace.config.listener_settings import parse_shared_listeners
from headrace.config.many_processes import Restarts, broker_processes
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.core.listener import Listener, SecurityProtocol

FILE = {
    "process.roles": "broker",
    "node.id": "5",
    "listeners": "PLAINTEXT://:9092,INTERNAL://[::1]:9094",
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/a,/b",
    "log.retention.hours": "7",
}


def test_each_broker_has_ids_ports_and_directories_of_its_own() -> None:
    """The rule of docs/many-cores.md; everything else is the file's, and all are in one rack."""
    given = {
        **FILE,
        "advertised.listeners": "PLAINTEXT://one.example:9092,INTERNAL://one.example:19094",
        "metadata.log.dir": "/m",
        "headrace.metrics.listener": ":9404",
        "headrace.journal.file": "/j",
        "headrace.state.change.file": "/changes",
    }
    made = broker_processes(given, 2, host_name="host-1")
    assert [each.settings["log.retention.hours"] for each in made] == ["7", "7"]
    changed = [{key: value for key, value in each.settings.items() if FILE.get(key) != value} for each in made]
    assert changed == [
        {
            "listeners": "PLAINTEXT://:9192,INTERNAL://[::1]:9194",
            "advertised.listeners": "PLAINTEXT://one.example:9192,INTERNAL://one.example:19194",
            "headrace.shared.listeners": "PLAINTEXT://:9092,INTERNAL://[::1]:9094",
            "log.dirs": "/a/broker.5,/b/broker.5",
            "metadata.log.dir": "/m/broker.5",
            "broker.rack": "host-1",
            "headrace.metrics.listener": "127.0.0.1:0",
            "headrace.journal.file": "/j.5",
            "headrace.state.change.file": "/changes.5",
        },
        {
            "node.id": "6",
            "listeners": "PLAINTEXT://:9292,INTERNAL://[::1]:9294",
            "advertised.listeners": "PLAINTEXT://one.example:9292,INTERNAL://one.example:19294",
            "headrace.shared.listeners": "PLAINTEXT://:9092,INTERNAL://[::1]:9094",
            "log.dirs": "/a/broker.6,/b/broker.6",
            "metadata.log.dir": "/m/broker.6",
            "broker.rack": "host-1",
            "headrace.metrics.listener": "127.0.0.1:0",
            "headrace.journal.file": "/j.6",
            "headrace.state.change.file": "/changes.6",
        },
    ]
    assert [(each.number, each.node_id) for each in made] == [(0, 5), (1, 6)]


def test_what_the_file_does_not_say_is_not_made_up() -> None:
    """No metrics, no advertised addresses, and the rack of the file."""
    [made] = broker_processes({**FILE, "broker.rack": "left"}, 1, host_name="host-1")
    assert made.config.broker_rack == "left"
    assert not {"headrace.metrics.listener", "advertised.listeners", "metadata.log.dir"} & set(made.settings)


@pytest.mark.parametrize(
    ("changes", "count", "refusal"),
    [
        ({}, 0, "--processes 0: from 1 to 64 brokers"),
        ({}, 65, "--processes 65: from 1 to 64 brokers"),
        (
            {
                "process.roles": "broker,controller",
                "listeners": FILE["listeners"] + ",CONTROLLER://127.0.0.1:9093",
                "node.id": "1",
            },
            2,
            "this file has the controller role: start the controller alone by a file of its own",
        ),
        ({"listeners": "PLAINTEXT://:0,INTERNAL://:9094"}, 2, "--processes gives each broker its own port"),
        ({"listeners": "PLAINTEXT://:65500,INTERNAL://:9094"}, 2, "choose one from 1 to 65335"),
        ({"listeners": "PLAINTEXT://:9092,INTERNAL://:9192"}, 2, "choose ports that are no multiple of 100 apart"),
        ({"headrace.shared.listeners": "PLAINTEXT://:9000"}, 2, "leave it out, --processes sets it"),
    ],
)
def test_a_file_that_cannot_be_multiplied_is_refused(changes: dict[str, str], count: int, refusal: str) -> None:
    """It says what to change."""
    with pytest.raises(OperatorError, match=refusal):
        broker_processes({**FILE, **changes}, count, host_name="h")


def test_a_shared_listener_is_one_of_the_brokers() -> None:
    """`headrace.shared.listeners`: one address more of a listener that clients or brokers use."""
    own = (Listener("PLAINTEXT", "h", 9192, SecurityProtocol.PLAINTEXT),)
    assert parse_shared_listeners("plaintext://:9092", own) == (
        Listener("PLAINTEXT", "", 9092, SecurityProtocol.PLAINTEXT),
    )
    for text, refusal in (
        ("CONTROLLER://:9093", "CONTROLLER is no broker listener of this node; name one of PLAINTEXT"),
        ("PLAINTEXT://:0", "it cannot be 0"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "must have a different name"),
        ("PLAINTEXT:9092", "PLAINTEXT:9092 is no broker listener|Unable to parse"),
    ):
        with pytest.raises(OperatorError, match=refusal):
            parse_node_config(
                {
                    **FILE,
                    "listeners": "PLAINTEXT://:9092",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "headrace.shared.listeners": text,
                }
            )


def test_one_that_dies_is_started_later_each_time_and_given_up_in_the_end() -> None:
    """A long life makes up for the deaths before it."""
    restarts = Restarts()
    assert [restarts.died(1.0) for _ in range(3)] == [0.5, 1.0, 2.0]
    assert restarts.died(60.0) == 0.5
    assert [restarts.died(1.0) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, None]
    assert restarts.is_given_up
