"""The command `headrace console-consumer`: records of topics, printed as they come."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from headrace.cli.cluster_names import group_ids, topic_names
from headrace.cli.console_producer import number
from headrace.cli.formatter import FormatSettings, RecordFormatter
from headrace.cli.output import visible
from headrace.cli.shell import compiled, connect, connection_options, offered, pairs, read_properties
from headrace.client import offsets
from headrace.client.blocking import BlockingClient
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.blocking_records import find_topic
from headrace.client.consumption import Chunk, Reset
from headrace.client.fetcher import FetchOptions
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class

POLL_MS = 1_000
COMMIT_EVERY_MS = 5_000
MAKE_TOPIC_MS = 5_000
"""How long to wait for a topic that the cluster may make by itself; after it, the consumer waits for somebody else to make it."""
LINE_BYTES = 64
BYTES_AT_ONCE = 1 << 20
"""So many bytes of lines are kept until they are written, each with `LINE_BYTES` more that Python takes for it."""
DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


@click.command(help="Print the records of topics.")
@connection_options()
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic to read.")
@click.option("--include", metavar="PATTERN", help="A regular expression of the topics to read.")
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read this partition only, from its end unless --offset says otherwise.",
)
@click.option("--offset", metavar="OFFSET", help="Where to begin in the partition: an offset, earliest or latest.")
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the earliest record where the group has no committed offset."
)
@click.option(
    "--group",
    metavar="ID",
    shell_complete=group_ids,
    help="The consumer group; its members share the partitions and its offsets are committed.",
)
@click.option("--max-messages", type=int, default=-1, metavar="N", help="Stop after so many records.")
@click.option("--timeout-ms", type=int, default=-1, metavar="MS", help="Stop when no record came for so long.")
@click.option(
    "--isolation-level",
    default=None,
    metavar="LEVEL",
    shell_complete=offered("read_committed", "read_uncommitted"),
    help="read_committed or read_uncommitted.  [default: read_uncommitted]",
)
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be shown.")
@click.option(
    "--formatter",
    default=DEFAULT_FORMATTER,
    metavar="CLASS",
    help="Kafka's DefaultMessageFormatter, LoggingMessageFormatter or NoOpMessageFormatter.",
)
@click.option(
    "--formatter-property",
    "formatter_properties",
    multiple=True,
    metavar="K=V",
    help="print.key, print.timestamp, key.separator ...",
)
@click.option(
    "--property", "old_properties", multiple=True, metavar="K=V", help="(Deprecated) As --formatter-property."
)
@click.option("--formatter-config", type=click.Path(), metavar="FILE", help="A file of formatter properties.")
@click.option(
    "--key-deserializer", metavar="CLASS", help="How keys are shown: Kafka's String, Long, Integer ... Deserializer."
)
@click.option("--value-deserializer", metavar="CLASS", help="How values are shown.")
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@click.option(
    "--command-property",
    "client_properties",
    multiple=True,
    metavar="K=V",
    help="A setting of the consumer; wins over the file.",
)
@click.option(
    "--consumer-property",
    "old_client_properties",
    multiple=True,
    metavar="K=V",
    help="(Deprecated) As --command-property.",
)
@click.option(
    "--consumer.config", "old_config", type=click.Path(), metavar="FILE", help="(Deprecated) As --command-config."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a record.")
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Read until the limits are reached or somebody interrupts."""
    _check(options)
    formatter = RecordFormatter(
        FormatSettings.of(_formatter_properties(options)), kind="json" if options["as_json"] else options["formatter"]
    )
    config = command_config or options["old_config"]
    from_file = read_properties(config) if config else {}
    given = {**pairs(options["old_client_properties"]), **pairs(options["client_properties"])}
    properties = {**from_file, **given}
    options["group"] = group_of(options["group"], from_file, given)
    if options["group"] is not None and options["partition"] is not None:
        raise OperatorError("Options group and partition cannot be specified together.")
    reset = reset_policy(properties, is_from_beginning=options["from_beginning"])
    commits = CommitPolicy.of(properties, has_group=options["group"] is not None)
    interruptible()
    with connect(bootstrap_server, config, overrides=properties, client_id="console-consumer") as client:
        _make_topic(client, properties, options)
        printer = Printer(_consumer(client, properties, options, reset), formatter, options, commits)
        try:
            return printer.run()
        finally:
            print(f"Processed a total of {printer.count} messages", file=sys.stderr)


def interruptible() -> None:
    """SIGTERM and SIGINT end the command as Ctrl-C does: offsets are committed and the group is left."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _check(options: dict[str, Any]) -> None:
    """Raises OperatorError for options that do not go together."""
    if (options["topic"] is None) == (options["include"] is None):
        raise OperatorError("Exactly one of --include/--topic is required.")
    if options["partition"] is not None and options["topic"] is None:
        raise OperatorError("The topic is required when partition is specified.")
    if options["offset"] is not None and options["partition"] is None:
        raise OperatorError("The partition is required when offset is specified.")
    if options["from_beginning"] and options["offset"] is not None:
        raise OperatorError("--from-beginning and --offset cannot be used together.")


def _formatter_properties(options: dict[str, Any]) -> dict[str, str]:
    from_file = read_properties(options["formatter_config"]) if options["formatter_config"] else {}
    named = {"key.deserializer": options["key_deserializer"], "value.deserializer": options["value_deserializer"]}
    given = {key: value for key, value in named.items() if value is not None}
    return {**from_file, **given, **pairs(options["old_properties"]), **pairs(options["formatter_properties"])}


def parse_offset(text: str | None) -> int:
    """`earliest`, `latest` or a number that is not negative; latest when nothing is said. Raises OperatorError."""
    if text is None or text.lower() == "latest":
        return offsets.LATEST
    if text.lower() == "earliest":
        return offsets.EARLIEST
    if not text.isdecimal():
        raise OperatorError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
        )
    return int(text)


def group_of(option: str | None, *properties: Mapping[str, str]) -> str | None:
    """The group, wherever it is named. Raises OperatorError: two places name different ones."""
    named = [option, *(each.get("group.id") for each in properties)]
    found = dict.fromkeys(name for name in named if name is not None)
    if len(found) > 1:
        raise OperatorError(
            "The group ids provided in different places (directly using '--group', via '--command-property', or via "
            f"'--command-config') do not match. Detected group ids: {', '.join(map(repr, found))}"
        )
    return next(iter(found), None)


def reset_policy(properties: Mapping[str, str], *, is_from_beginning: bool) -> Reset:
    """Where to begin in a partition without a committed offset: `auto.offset.reset`, else what the options say. Raises OperatorError."""
    match properties.get("auto.offset.reset"):
        case None:
            return "earliest" if is_from_beginning else "latest"
        case ("earliest" | "latest" | "none") as known:
            if is_from_beginning and known != "earliest":
                raise OperatorError(
                    f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={known}', please remove one option"
                )
            return known
        case other:
            raise OperatorError(f"auto.offset.reset={other}: must be earliest, latest or none")


@value_class
class CommitPolicy:
    """Whether offsets of what was printed are committed, and how often."""

    is_on: bool
    interval_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str], *, has_group: bool) -> CommitPolicy:
        """`enable.auto.commit` and `auto.commit.interval.ms`; a group made up for one run commits nothing. Raises OperatorError."""
        text = properties.get("enable.auto.commit", "true").strip().lower()
        if text not in ("true", "false"):
            raise OperatorError(f"enable.auto.commit={text}: must be true or false")
        interval_ms = number(properties, "auto.commit.interval.ms", COMMIT_EVERY_MS)
        return cls(is_on=has_group and text == "true", interval_ms=interval_ms)


def _make_topic(client: BlockingClient, properties: Mapping[str, str], options: Mapping[str, Any]) -> None:
    """Have a topic that is not there made now, where the cluster makes topics by itself: its first records are read then.

    What goes wrong here and may pass is met again, and told, by the consumer.
    """
    if options["topic"] is None or properties.get("allow.auto.create.topics", "true").strip().lower() != "true":
        return
    limit = options["timeout_ms"]
    try:
        client.run(find_topic, options["topic"], MAKE_TOPIC_MS if limit < 0 else min(limit, MAKE_TOPIC_MS))
    except OperatorError:
        if not client.session.cluster.is_met:
            raise
    except PeerError as error:
        if not error.code.is_retriable:
            raise PeerError(error.code, f"{options['topic']}: {error.message}") from None


def _consumer(
    client: BlockingClient, properties: dict[str, str], options: dict[str, Any], reset: Reset
) -> BlockingConsumer:
    level = options["isolation_level"] or properties.get("isolation.level", "read_uncommitted")
    if level not in ("read_committed", "read_uncommitted"):
        raise OperatorError(f"isolation level {level}: must be read_committed or read_uncommitted")
    fetch = FetchOptions(
        max_bytes=number(properties, "fetch.max.bytes", 50 << 20),
        max_partition_bytes=number(properties, "max.partition.fetch.bytes", 1 << 20),
        max_wait_ms=number(properties, "fetch.max.wait.ms", 500),
        min_bytes=number(properties, "fetch.min.bytes", 1),
        is_read_committed=level == "read_committed",
    )
    if options["partition"] is not None:
        consumer = BlockingConsumer(client, options=fetch, reset=reset)
        where = TopicPartition(options["topic"], options["partition"])
        start = offsets.EARLIEST if options["from_beginning"] else parse_offset(options["offset"])
        found = client.list_offsets(
            {where: start if start < 0 else offsets.LATEST}, is_read_committed=fetch.is_read_committed
        )
        consumer.assign({where: start if start >= 0 else found[where].offset})
        return consumer
    pattern = compiled(options["include"]).pattern if options["include"] else None
    topics = [options["topic"]] if options["topic"] else []
    group = options["group"]
    return BlockingConsumer(client, group_id=group, topics=topics, pattern=pattern, reset=reset, options=fetch)


class Printer:
    """Prints what a consumer reads until the limits of the command line are reached."""

    def __init__(
        self,
        consumer: BlockingConsumer,
        formatter: RecordFormatter,
        options: dict[str, Any],
        commits: CommitPolicy,
    ) -> None:
        self._consumer = consumer
        self._formatter = formatter
        self._most: int = options["max_messages"]
        self._timeout_ms: int = options["timeout_ms"]
        self._is_skipping: bool = options["skip_message_on_error"]
        self._commits = commits
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()
        self.count = 0

    def run(self) -> int:
        """Print; exit code 1 for an error, 0 when the time or the count is up."""
        code = 0
        last = time.monotonic()
        try:
            while self._most < 0 or self.count < self._most:
                left = POLL_MS if self._timeout_ms < 0 else int(self._timeout_ms - (time.monotonic() - last) * 1000)
                if left <= 0:
                    print(
                        f"Error processing message, terminating consumer process: no message came for {self._timeout_ms} ms",
                        file=sys.stderr,
                    )
                    break
                chunks = self._consumer.poll(min(left, POLL_MS))
                before = self.count
                for chunk in chunks:
                    self._print(chunk)
                if self.count > before:
                    last = time.monotonic()
                self._commit(is_due=time.monotonic() - self._committed_at > self._commits.interval_ms / 1000)
        except PeerError as error:
            print(visible(f"Error processing message, terminating consumer process: {error}"), file=sys.stderr)
            code = 1
        except BrokenPipeError:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        except KeyboardInterrupt:
            code = 0
        self._finish()
        return code

    def _print(self, chunk: Chunk) -> None:
        """Write a chunk's records, many at a time: a batch of a few kilobytes may open to millions of them."""
        lines: list[bytes] = []
        size = 0
        self._done[chunk.where] = chunk.start
        try:
            for header, record in self._consumer.records(
                chunk, on_unreadable=self._skip if self._is_skipping else None
            ):
                if 0 <= self._most <= self.count:
                    break
                self.count += 1
                try:
                    line = self._formatter.format(chunk.where, header, record)
                except ValueError as error:
                    if not self._is_skipping:
                        raise OperatorError(
                            f"record at offset {record.offset} of {chunk.where.topic}-{chunk.where.partition}: {error}"
                        ) from None
                else:
                    lines.append(line)
                    size += len(line) + LINE_BYTES
                if size > BYTES_AT_ONCE:
                    sys.stdout.buffer.writelines(lines)
                    lines, size = [], 0
                self._done[chunk.where] = record.offset + 1
            else:
                self._done[chunk.where] = chunk.fetched.next_offset
        except PeerError as error:
            if not self._is_skipping:
                raise
            self._skip(error)
        finally:
            out = sys.stdout.buffer
            out.writelines(lines)
            out.flush()

    def _skip(self, error: PeerError) -> None:
        """What of a batch cannot be read is left out, and no other batch with it."""
        print(visible(f"Error processing message, skipping this message: {error}"), file=sys.stderr)

    def _commit(self, *, is_due: bool) -> None:
        """Commit what was printed, and the positions of partitions that gave nothing yet."""
        positions = {where: self._done.get(where, offset) for where, offset in self._consumer.positions.items()}
        if is_due and self._commits.is_on and positions != self._committed:
            self._consumer.commit(positions)
            self._committed = positions
        if is_due:
            self._committed_at = time.monotonic()

    def _finish(self) -> None:
        try:
            self._commit(is_due=True)
            self._consumer.close()
        except (PeerError, OperatorError) as error:
            print(visible(f"Offsets could not be committed: {error}"), file=sys.stderr)
