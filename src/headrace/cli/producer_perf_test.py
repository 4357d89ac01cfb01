"""The command `headrace producer-perf-test`: the speed of producing."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.console_producer import number, parse_acks
from headrace.cli.output import show_json
from headrace.cli.perf_stats import Latencies
from headrace.cli.shell import address_list, connect, pairs, read_properties
from headrace.cli.text_files import read_text
from headrace.client.accumulator import BatchOptions, ReadyBatch, codec_of
from headrace.client.blocking_records import RecordProducer
from headrace.client.producer import Delivery
from headrace.core.errors import OperatorError

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CHECK_EVERY = 64


class _ManyValues(click.Command):
    """Lets `--producer-props a=1 b=2` take several values, as Kafka's tool does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before each value that follows it."""
        spread: list[str] = []
        current = ""
        for word in args:
            if word in ("--producer-props", "--command-property"):
                current = word
            elif current and "=" in word and not word.startswith("-"):
                spread += [current, word]
            else:
                current = ""
                spread.append(word)
        return super().parse_args(ctx, spread)


@click.command(cls=_ManyValues, help="Measure producing.")
@click.option(
    "--bootstrap-server",
    type=address_list,
    metavar="HOST:PORT,...",
    help="The brokers; wins over bootstrap.servers of the properties.",
)
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=topic_names, help="The topic to send to.")
@click.option("--num-records", type=click.IntRange(min=1), required=True, metavar="N", help="How many records to send.")
@click.option("--record-size", type=click.IntRange(min=1), metavar="BYTES", help="Random records of this size.")
@click.option(
    "--payload-file", type=click.Path(), metavar="FILE", help="Records picked by chance from a UTF-8 text file."
)
@click.option(
    "--payload-delimiter",
    default="\\n",
    show_default=True,
    metavar="TEXT",
    help="What stands between the records of the file.",
)
@click.option("--payload-monotonic", is_flag=True, help="Records that are rising numbers.")
@click.option(
    "--throughput", type=float, required=True, metavar="N", help="At most about N records a second; -1: no limit."
)
@click.option(
    "--producer-props", "old_properties", multiple=True, metavar="K=V ...", help="(Deprecated) As --command-property."
)
@click.option(
    "--command-property",
    "properties",
    multiple=True,
    metavar="K=V ...",
    help="Settings of the producer; win over the file.",
)
@click.option(
    "--producer.config", "old_config", type=click.Path(), metavar="FILE", help="(Deprecated) As --command-config."
)
@click.option(
    "--command-config", type=click.Path(), metavar="FILE", help="A properties file with settings of the producer."
)
@click.option("--print-metrics", is_flag=True, help="Print counters at the end.")
@click.option(
    "--warmup-records",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="First records not to count.",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=1),
    default=5_000,
    show_default=True,
    metavar="MS",
    help="Time between lines.",
)
@click.option("--transactional-id", metavar="ID", hidden=True)
@click.option("--transaction-duration-ms", type=int, metavar="MS", hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(**options: Any) -> int:
    """Print Kafka's lines: one an interval, one at the end."""
    if options["transactional_id"] or options["transaction_duration_ms"]:
        raise OperatorError(
            "Transactions are not supported by this client: leave --transactional-id and --transaction-duration-ms out."
        )
    if options["warmup_records"] >= options["num_records"]:
        raise OperatorError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."
        )
    payloads = _payloads(options)
    config = options["command_config"] or options["old_config"]
    given = {
        **(read_properties(config) if config else {}),
        **pairs(options["old_properties"]),
        **pairs(options["properties"]),
    }
    batch = BatchOptions(
        batch_bytes=number(given, "batch.size", 16_384),
        linger_ms=number(given, "linger.ms", 5),
        max_record_bytes=number(given, "max.request.size", 1 << 20),
        codec=codec_of(given.get("compression.type", "none")),
    )
    with connect(options["bootstrap_server"], config, overrides=given, client_id="perf-producer-client") as client:
        acks = parse_acks(given.get("acks", "all"))
        in_flight = number(given, "max.in.flight.requests.per.connection", 5)
        raw = client.producer(
            acks=acks, is_idempotent=given.get("enable.idempotence", "true") == "true", max_in_flight=in_flight
        )
        run = _Run(options, payloads)
        return run.go(RecordProducer(client, options["topic"], options=batch, producer=raw, on_done=run.done))


def _payloads(options: dict[str, Any]) -> Iterator[bytes]:
    """Endless payloads of the kind asked for. Raises OperatorError."""
    if (
        sum((options["record_size"] is not None, options["payload_file"] is not None, options["payload_monotonic"]))
        != 1
    ):
        raise OperatorError("Exactly one of --record-size, --payload-file and --payload-monotonic is needed.")
    if options["payload_monotonic"]:
        return (str(count).encode() for count in range(options["num_records"] + 1))
    if options["payload_file"] is not None:
        delimiter = parse_delimiter(options["payload_delimiter"])
        texts = [text.encode() for text in read_text(options["payload_file"]).split(delimiter) if text]
        if not texts:
            raise OperatorError(f"File is empty: {options['payload_file']}")
        return _chosen(texts)
    return _random(options["record_size"])


def parse_delimiter(text: str) -> str:
    """What stands between payloads, with `\\n`, `\\t` and their kin undone. Raises OperatorError: nothing, or a cut escape."""
    try:
        delimiter = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        delimiter = ""
    if not delimiter:
        raise OperatorError(f"--payload-delimiter {text!r}: expected a text, or an escape such as \\n")
    return delimiter


def _chosen(texts: list[bytes]) -> Iterator[bytes]:
    chance = random.Random(0)
    while True:
        yield chance.choice(texts)


def _random(size: int) -> Iterator[bytes]:
    """Slices of one long random text: other bytes for each record, at the cost of a copy."""
    chance = random.Random(0)
    pool = bytes(chance.choices(_LETTERS, k=size + 65_536))
    while True:
        for start in range(0, 65_536, 61):
            yield pool[start : start + size]


class _Run:
    """One measurement: sends, counts what is acknowledged, prints."""

    def __init__(self, options: dict[str, Any], payloads: Iterator[bytes]) -> None:
        self._payloads = payloads
        self._count: int = options["num_records"]
        self._warm: int = options["warmup_records"]
        self._rate: float = options["throughput"]
        self._interval_s: float = options["reporting_interval"] / 1000
        self._is_json: bool = options["as_json"]
        self._prints_metrics: bool = options["print_metrics"]
        self._whole = Latencies()
        self._steady = Latencies()
        self._window = Latencies()
        self._payload_bytes = 0.0
        self._acknowledged = 0
        self._batches = 0
        self._errors: list[str] = []

    def done(self, delivery: Delivery, batch: ReadyBatch) -> None:
        """Take what became of a batch."""
        if delivery.error is not None:
            self._errors.append(str(delivery.error))
            return
        now_ms = time.time_ns() // 1_000_000
        waited = [now_ms - sent for sent in batch.timestamps_ms]
        self._batches += 1
        before, self._acknowledged = self._acknowledged, self._acknowledged + len(waited)
        each = self._payload_bytes
        for stats in (self._whole, self._window):
            stats.add(waited, each * len(waited))
        if self._acknowledged > self._warm:
            if before < self._warm:
                waited = waited[self._warm - before :]
            self._steady.begin()
            self._steady.add(waited, each * len(waited))

    def go(self, out: RecordProducer) -> int:
        """Send all records and print; exit code 1 if some were not delivered."""
        self._whole.begin()
        self._window.begin()
        began = time.perf_counter()
        report_at = began + self._interval_s
        total = 0
        for index in range(self._count):
            payload = next(self._payloads)
            total += len(payload)
            self._payload_bytes = total / (index + 1)
            out.send(None, payload, timestamp_ms=time.time_ns() // 1_000_000)
            if index % _CHECK_EVERY and self._rate <= 0:
                continue
            now = time.perf_counter()
            out.poll()
            if now >= report_at:
                self._report()
                report_at = now + self._interval_s
            self._keep_pace(out, began, index + 1)
        out.flush()
        return self._finish()

    def _keep_pace(self, out: RecordProducer, began: float, sent: int) -> None:
        """Wait until `sent` records are due, looking after answers meanwhile."""
        while self._rate > 0 and (ahead := began + sent / self._rate - time.perf_counter()) > 0:
            out.poll(min(int(ahead * 1000), 10))
            if ahead < 0.001:
                time.sleep(ahead)
            elif not out.is_waiting:
                time.sleep(min(ahead, 0.01))

    def _report(self) -> None:
        if not self._is_json:
            print(self._window.progress_line(), flush=True)
        self._window = Latencies()
        self._window.begin()

    def _finish(self) -> int:
        if self._is_json:
            show_json(self._whole.plain())
        else:
            print(self._whole.total_line())
            if self._warm and self._steady.count:
                print(self._steady.total_line(kind=" steady state"))
        if self._prints_metrics:
            print(f"batches-acknowledged-total : {self._batches}")
            print(f"records-acknowledged-total : {self._acknowledged}")
            print(f"record-size-avg : {self._payload_bytes:.3f}")
        for line in dict.fromkeys(self._errors):
            print(line, file=sys.stderr)
        return 1 if self._errors else 0
