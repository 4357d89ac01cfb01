"""The command `headrace console-producer`: lines of standard input as records of a topic."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.line_reader import LineReader, LineSettings
from headrace.cli.shell import connect, connection_options, offered, pairs, read_properties
from headrace.client.accumulator import BatchOptions, ReadyBatch, codec_of
from headrace.client.blocking import BlockingClient
from headrace.client.blocking_records import RecordProducer
from headrace.client.producer import Delivery
from headrace.core.errors import OperatorError

READ_BYTES = 256 << 10
_IDLE_WAIT_S = 0.5


@click.command(help="Send lines of standard input to a topic.")
@connection_options()
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=topic_names, help="The topic to send to.")
@click.option("--sync", "is_sync", is_flag=True, help="Send one record at a time and wait for each.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="[CODEC]",
    shell_complete=offered("none", "gzip", "snappy", "lz4", "zstd"),
    help="none, gzip, snappy, lz4 or zstd; gzip without a value.",
)
@click.option("--batch-size", type=click.IntRange(min=0), metavar="BYTES", help="Bytes of a batch.  [default: 16384]")
@click.option(
    "--max-partition-memory-bytes", type=click.IntRange(min=0), metavar="BYTES", help="(Deprecated) As --batch-size."
)
@click.option(
    "--timeout", type=click.IntRange(min=0), metavar="MS", help="How long a record waits for others.  [default: 1000]"
)
@click.option("--request-required-acks", metavar="ACKS", help="all (-1), 1 or 0.  [default: -1]")
@click.option(
    "--request-timeout-ms",
    type=click.IntRange(min=1),
    metavar="MS",
    help="How long to wait for an answer, and the broker for its replicas.  [default: 30000]",
)
@click.option(
    "--max-block-ms", type=click.IntRange(min=0), metavar="MS", help="How long to wait for the topic.  [default: 60000]"
)
@click.option(
    "--message-send-max-retries",
    type=int,
    metavar="N",
    help="Accepted as Kafka's; a record is tried until its delivery time is over.",
)
@click.option(
    "--retry-backoff-ms", type=click.IntRange(min=0), metavar="MS", help="Wait before the first retry.  [default: 100]"
)
@click.option(
    "--metadata-expiry-ms", type=click.IntRange(min=0), metavar="MS", help="Age at which metadata is looked up again."
)
@click.option("--max-memory-bytes", type=int, metavar="BYTES", help="Accepted as Kafka's.")
@click.option("--socket-buffer-size", type=int, metavar="BYTES", help="Accepted as Kafka's.")
@click.option("--line-reader", metavar="CLASS", help="Only Kafka's own LineMessageReader is known.")
@click.option(
    "--reader-property",
    "reader_properties",
    multiple=True,
    metavar="K=V",
    help="parse.key, key.separator, parse.headers, null.marker ...",
)
@click.option("--property", "old_properties", multiple=True, metavar="K=V", help="(Deprecated) As --reader-property.")
@click.option("--reader-config", type=click.Path(), metavar="FILE", help="A file of reader properties.")
@click.option(
    "--command-property",
    "client_properties",
    multiple=True,
    metavar="K=V",
    help="A setting of the producer; wins over the file.",
)
@click.option(
    "--producer-property",
    "old_client_properties",
    multiple=True,
    metavar="K=V",
    help="(Deprecated) As --command-property.",
)
@click.option(
    "--producer.config", "old_config", type=click.Path(), metavar="FILE", help="(Deprecated) As --command-config."
)
def command(bootstrap_server: str | None, command_config: str | None, topic: str, **options: Any) -> int:
    """Read lines until the end of the input; exit code 1 when a record could not be delivered."""
    reader = LineReader(LineSettings.of(_reader_properties(options)))
    config = command_config or options["old_config"]
    properties = {**(read_properties(config) if config else {}), **_overrides(options)}
    with connect(bootstrap_server, config, overrides=properties, client_id="console-producer") as client:
        errors: list[str] = []
        out = _producer(client, topic, properties, options, errors)
        try:
            _pump(sys.stdin.buffer, reader, out, is_sync=options["is_sync"])
        finally:
            out.flush()
    for line in dict.fromkeys(errors):
        print(line, file=sys.stderr)
    return 1 if errors else 0


def _reader_properties(options: dict[str, Any]) -> dict[str, str]:
    if options["line_reader"] not in (None, "org.apache.kafka.tools.LineMessageReader"):
        raise OperatorError(
            f"--line-reader {options['line_reader']}: only org.apache.kafka.tools.LineMessageReader is known"
        )
    from_file = read_properties(options["reader_config"]) if options["reader_config"] else {}
    return {**from_file, **pairs(options["old_properties"]), **pairs(options["reader_properties"])}


def _overrides(options: dict[str, Any]) -> dict[str, str]:
    """Producer settings given on the command line."""
    named = {
        "batch.size": options["batch_size"]
        if options["batch_size"] is not None
        else options["max_partition_memory_bytes"],
        "compression.type": options["compression_codec"],
        "linger.ms": options["timeout"],
        "acks": options["request_required_acks"],
        "request.timeout.ms": options["request_timeout_ms"],
        "retry.backoff.ms": options["retry_backoff_ms"],
        "metadata.max.age.ms": options["metadata_expiry_ms"],
    }
    given = {key: str(value) for key, value in named.items() if value is not None}
    return {**given, **pairs(options["old_client_properties"]), **pairs(options["client_properties"])}


def number(properties: Mapping[str, str], key: str, default: int) -> int:
    """A setting that is a whole number. Raises OperatorError."""
    try:
        return int(properties.get(key, default))
    except ValueError:
        raise OperatorError(f"{key}={properties[key]}: must be a whole number") from None


def parse_acks(text: str) -> int:
    """`all`, -1, 0 or 1. Raises OperatorError."""
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(text.strip().lower())
    if acks is None:
        raise OperatorError(f"acks={text}: must be one of all, -1, 0, 1")
    return acks


def _producer(
    client: BlockingClient, topic: str, properties: dict[str, str], options: dict[str, Any], errors: list[str]
) -> RecordProducer:
    batch = BatchOptions(
        batch_bytes=1 if options["is_sync"] else number(properties, "batch.size", 16_384),
        linger_ms=number(properties, "linger.ms", 1_000),
        max_record_bytes=number(properties, "max.request.size", 1 << 20),
        codec=codec_of(properties.get("compression.type", "none")),
    )
    acks = parse_acks(properties.get("acks", "-1"))
    is_idempotent = properties.get("enable.idempotence", "true").lower() == "true"
    raw = client.producer(acks=acks, is_idempotent=is_idempotent, max_in_flight=1 if options["is_sync"] else 5)

    def done(delivery: Delivery, batch: ReadyBatch) -> None:
        if delivery.error is not None:
            errors.append(f"Error when sending message to topic {topic}: {delivery.error}")

    max_block_ms = (
        options["max_block_ms"] if options["max_block_ms"] is not None else number(properties, "max.block.ms", 60_000)
    )
    return RecordProducer(client, topic, options=batch, producer=raw, max_block_ms=max_block_ms, on_done=done)


def _pump(stream: BinaryIO, reader: LineReader, out: RecordProducer, *, is_sync: bool) -> None:
    """Send every line; while no input comes, send what has waited long enough."""
    fileno = stream.fileno()
    is_prompting = sys.stdin.isatty()
    rest = b""
    while True:
        if is_prompting:
            print(">", end="", flush=True)
        data = _read(fileno, out)
        lines = (rest + data).split(b"\n")
        rest = lines.pop() if data else b""
        if not data and lines == [b""]:
            return
        for line in lines:
            key, value, headers = reader.parse(line.removesuffix(b"\r"))
            out.send(key, value, timestamp_ms=time.time_ns() // 1_000_000, headers=headers)
            if is_sync:
                out.flush()
        if not data:
            return
        out.poll()


def _read(fileno: int, out: RecordProducer) -> bytes:
    """The next bytes of input, empty at its end."""
    while True:
        due = out.next_due_ms()
        wait = _IDLE_WAIT_S if due is None else max(due - time.monotonic_ns() // 1_000_000, 0) / 1000
        try:
            is_ready = bool(select.select([fileno], [], [], wait)[0])
        except OSError:
            is_ready = True
        if is_ready:
            return os.read(fileno, READ_BYTES)
        out.poll()
