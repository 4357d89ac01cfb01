"""Which conversations are recorded? Short ones of each client, which together touch as many apis as they can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import aiokafka
import confluent_kafka
from confluent_kafka import admin as confluent_admin
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from tests.peers import kafka


def _try(what: str, step: Callable[[], object]) -> None:
    """A step that fails is named; what was said until then is recorded all the same."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - recorded clients may fail in any way
        sys.stderr.write(f"{what}: {error!r}\n")


def confluent(bootstrap: str) -> None:
    """librdkafka: admin, idempotent and transactional producers, a consumer in a group of each protocol."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([confluent_admin.NewTopic("rd", 2, 1)]).values():
        _try("create", future.result)
    for settings in ({}, {"enable.idempotence": True}, {"transactional.id": "tx-1"}):
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
        if "transactional.id" in settings:
            producer.init_transactions()
            producer.begin_transaction()
        for number in range(5):
            producer.produce("rd", key=f"k{number}", value=b"v" * 50, headers={"h": "1"})
        if "transactional.id" in settings:
            producer.commit_transaction()
            producer.begin_transaction()
            producer.produce("rd", value=b"aborted")
            producer.flush(10)
            producer.abort_transaction()
        producer.flush(10)
    for protocol in ("classic", "consumer"):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"rd-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["rd"])
        found = consumer.consume(8, timeout=15)
        _try("commit", lambda consumer=consumer: consumer.commit(asynchronous=False))  # type: ignore[misc]
        assert found
        consumer.close()
    _try("groups", lambda: admin.list_consumer_groups().result(10))
    for future in admin.describe_consumer_groups(["rd-classic"]).values():
        _try("describe", future.result)
    partitions = [confluent_kafka.TopicPartition("rd", 0)]
    _try("offsets", lambda: admin.list_offsets({partitions[0]: confluent_admin.OffsetSpec.latest()}))
    _try("cluster", lambda: admin.describe_cluster().result(10))
    resource = confluent_admin.ConfigResource("topic", "rd")
    for future in admin.describe_configs([resource]).values():
        _try("configs", future.result)


async def aio(bootstrap: str) -> None:
    """aiokafka: a producer, a group, a transaction with offsets."""
    async with (
        aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx-2") as producer,
        aiokafka.AIOKafkaConsumer(
            "rd", bootstrap_servers=bootstrap, group_id="aio", auto_offset_reset="earliest"
        ) as consumer,
    ):
        message = await consumer.getone()
        async with producer.transaction():
            await producer.send_and_wait("rd", b"from aio", key=b"k")
            offsets = {aiokafka.TopicPartition(message.topic, message.partition): message.offset + 1}
            await producer.send_offsets_to_transaction(offsets, "aio")
        await consumer.commit()
        await consumer.end_offsets(list(consumer.assignment()))
        await consumer.offsets_for_times(dict.fromkeys(consumer.assignment(), 0))


def kafka_python(bootstrap: str) -> None:
    """kafka-python: admin, a producer with each compression, a group."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    _try("create", lambda: client.create_topics([NewTopic("kp", 1, 1)]))
    for codec in (None, "gzip", "lz4"):
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec)
        producer.send("kp", b"value" * 10, key=b"k", headers=[("h", b"1")])
        producer.flush(10)
        producer.close()
    consumer = KafkaConsumer(
        "kp", bootstrap_servers=bootstrap, group_id="kp", auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    _try("read", lambda: next(iter(consumer)))
    _try("commit", consumer.commit)
    consumer.close()
    for name in ("list_groups", "describe_log_dirs", "describe_cluster", "list_topics"):
        _try(name, lambda name=name: getattr(client, name)())  # type: ignore[misc]
    _try("delete", lambda: client.delete_topics(["kp"]))
    client.close()


def java_tools(bootstrap: str, controller: str, directory: Path) -> None:
    """Kafka's own tools, each once or twice."""
    at = ("--bootstrap-server", bootstrap)
    at_controller = ("--bootstrap-controller", controller)
    json = directory / "delete.json"
    json.write_text('{"version":1,"partitions":[{"topic":"j","partition":0,"offset":2}]}')
    moves = directory / "moves.json"
    moves.write_text('{"version":1,"partitions":[{"topic":"j","partition":0,"replicas":[1],"log_dirs":["any"]}]}')
    tools: list[tuple[str, tuple[str, ...], str]] = [
        ("kafka-topics", ("--create", "--topic", "j", "--partitions", "2", "--config", "retention.ms=1000000"), ""),
        ("kafka-topics", ("--alter", "--topic", "j", "--partitions", "3"), ""),
        ("kafka-topics", ("--describe",), ""),
        ("kafka-console-producer", ("--topic", "j"), "a\nb\nc\nd\n"),
        ("kafka-console-consumer", ("--topic", "j", "--from-beginning", "--group", "jg", "--max-messages", "4"), ""),
        (
            "kafka-console-consumer",
            (
                "--topic", "j", "--group", "jc", "--max-messages", "2", "--command-property", "group.protocol=consumer",
                "--command-property", "auto.offset.reset=earliest", "--isolation-level", "read_committed",
            ),
            "",
        ),
        ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", ("--topic", "j", "--group", "js", "--timeout-ms", "6000"), ""),
        ("kafka-consumer-groups", ("--describe", "--all-groups"), ""),
        ("kafka-consumer-groups", ("--group", "jg", "--reset-offsets", "--to-earliest", "--topic", "j", "--execute"), ""),
        ("kafka-consumer-groups", ("--group", "jg", "--delete-offsets", "--topic", "j"), ""),
        ("kafka-consumer-groups", ("--group", "jg", "--delete"), ""),
        ("kafka-groups", ("--list",), ""),
        ("kafka-get-offsets", ("--topic", "j", "--time", "-3"), ""),
        ("kafka-delete-records", ("--offset-json-file", str(json)), ""),
        ("kafka-configs", ("--alter", "--entity-type", "topics", "--entity-name", "j", "--add-config", "retention.ms=5"), ""),
        ("kafka-configs", ("--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"), ""),
        ("kafka-configs", ("--alter", "--entity-type", "users", "--entity-name", "u", "--add-config", "producer_byte_rate=1024"), ""),
        ("kafka-configs", ("--alter", "--entity-type", "users", "--entity-name", "u", "--add-config", "SCRAM-SHA-256=[password=p]"), ""),
        ("kafka-configs", ("--describe", "--entity-type", "users"), ""),
        ("org.apache.kafka.tools.ClientMetricsCommand", ("--list",), ""),
        ("kafka-log-dirs", ("--describe",), ""),
        ("kafka-features", ("describe",), ""),
        ("kafka-features", ("upgrade", "--feature", "transaction.version=2"), ""),
        ("kafka-metadata-quorum", ("describe", "--status"), ""),
        ("kafka-metadata-quorum", ("describe", "--replication"), ""),


        ("kafka-broker-api-versions", (), ""),
        ("org.apache.kafka.tools.AclCommand", ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "j"), ""),
        ("org.apache.kafka.tools.AclCommand", ("--list",), ""),
        ("org.apache.kafka.tools.AclCommand", ("--remove", "--allow-principal", "User:a", "--operation", "Read", "--topic", "j", "--force"), ""),
        ("org.apache.kafka.tools.TransactionsCommand", ("list",), ""),
        ("org.apache.kafka.tools.TransactionsCommand", ("describe", "--transactional-id", "tx-1"), ""),
        ("org.apache.kafka.tools.TransactionsCommand", ("describe-producers", "--topic", "rd", "--partition", "0"), ""),
        ("org.apache.kafka.tools.LeaderElectionCommand", ("--election-type", "preferred", "--all-topic-partitions"), ""),
        ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", ("--execute", "--reassignment-json-file", str(moves)), ""),
        ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", ("--list",), ""),
        ("kafka-topics", ("--delete", "--topic", "j"), ""),
    ]  # fmt: skip
    for tool, arguments, stdin in tools:
        _try(tool, lambda tool=tool, a=arguments, s=stdin: _run(tool, *at, *a, stdin=s))  # type: ignore[misc]
    for command in ("cluster-id", "list-endpoints"):
        _try(command, lambda command=command: _run("kafka-cluster", command, *at, stdin=""))  # type: ignore[misc]
    for tool, arguments in (("kafka-metadata-quorum", ("describe", "--status")), ("kafka-features", ("describe",))):
        _try(tool, lambda tool=tool, a=arguments: _run(tool, *at_controller, *a, stdin=""))  # type: ignore[misc]


def _run(tool: str, *arguments: str, stdin: str) -> None:
    done = kafka.run_tool(tool, *arguments, stdin=stdin, timeout_s=40)
    if done.returncode:
        sys.stderr.write(
            f"{tool} {' '.join(arguments)}: exit {done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-500:]}\n"
        )
