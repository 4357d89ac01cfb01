"""The command `headrace consumer-perf-test`: the speed of consuming."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from headrace.cli.cluster_names import group_ids, topic_names
from headrace.cli.console_producer import number
from headrace.cli.java_dates import format_date
from headrace.cli.output import show_json
from headrace.cli.perf_stats import MEGABYTE
from headrace.cli.shell import compiled, connect, connection_options, pairs, read_properties
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.consumption import Reset
from headrace.client.fetcher import FetchOptions
from headrace.core.errors import OperatorError

COLUMNS = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"


@click.command(help="Measure consuming.")
@connection_options()
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic to read.")
@click.option("--include", metavar="PATTERN", help="A regular expression of the topics to read.")
@click.option("--num-records", type=click.IntRange(min=1), metavar="N", help="How many records to read.")
@click.option("--messages", type=click.IntRange(min=1), metavar="N", help="(Deprecated) As --num-records.")
@click.option(
    "--group", metavar="ID", shell_complete=group_ids, help="The consumer group.  [default: perf-consumer-NNNNN]"
)
@click.option("--from-latest", is_flag=True, help="Begin at the end where the group has no committed offset.")
@click.option(
    "--fetch-size",
    type=click.IntRange(min=1),
    default=1_048_576,
    show_default=True,
    metavar="BYTES",
    help="Bytes of a partition in a fetch.",
)
@click.option(
    "--timeout",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="The longest time without a record.",
)
@click.option("--show-detailed-stats", is_flag=True, help="Print a line an interval.")
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=1),
    default=5_000,
    show_default=True,
    metavar="MS",
    help="Time between lines.",
)
@click.option("--hide-header", is_flag=True, help="Leave the headings out.")
@click.option(
    "--date-format",
    default="yyyy-MM-dd HH:mm:ss:SSS",
    show_default=True,
    metavar="FORMAT",
    help="As java.text.SimpleDateFormat.",
)
@click.option("--socket-buffer-size", type=int, metavar="BYTES", help="Accepted as Kafka's.")
@click.option("--print-metrics", is_flag=True, help="Print counters at the end.")
@click.option(
    "--command-property",
    "properties",
    multiple=True,
    metavar="K=V",
    help="A setting of the consumer; wins over the file.",
)
@click.option(
    "--consumer.config", "old_config", type=click.Path(), metavar="FILE", help="(Deprecated) As --command-config."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Print Kafka's columns."""
    wanted = options["num_records"] or options["messages"]
    if wanted is None:
        raise OperatorError("Exactly one of --num-records and --messages is needed.")
    if (options["topic"] is None) == (options["include"] is None):
        raise OperatorError("Exactly one of --include/--topic is required.")
    config = command_config or options["old_config"]
    given = {**(read_properties(config) if config else {}), **pairs(options["properties"])}
    reset: Reset = "latest" if options["from_latest"] else "earliest"
    fetch = FetchOptions(
        max_bytes=number(given, "fetch.max.bytes", 50 << 20),
        max_partition_bytes=options["fetch_size"],
        max_wait_ms=number(given, "fetch.max.wait.ms", 500),
        min_bytes=number(given, "fetch.min.bytes", 1),
        is_read_committed=given.get("isolation.level") == "read_committed",
    )
    with connect(bootstrap_server, config, overrides=given, client_id="perf-consumer-client") as client:
        consumer = BlockingConsumer(
            client,
            group_id=options["group"] or f"perf-consumer-{random.randrange(100_000)}",
            topics=[options["topic"]] if options["topic"] else [],
            pattern=compiled(options["include"]).pattern if options["include"] else None,
            reset=reset,
            options=fetch,
        )
        code = _Run(consumer, wanted, options).go()
        consumer.commit(consumer.positions)
        consumer.close()
    return code


@dataclass(slots=True)
class _Count:
    """Records and bytes up to a time, and how much of that went into rebalances."""

    at: float
    records: int = 0
    size: int = 0
    rebalance_ms: int = 0


class _Run:
    """One measurement."""

    def __init__(self, consumer: BlockingConsumer, wanted: int, options: dict[str, Any]) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._options = options
        self._total = _Count(time.time())
        self._last = _Count(self._total.at)
        self._began = self._total.at

    def go(self) -> int:
        """Read all records, or until none comes any more."""
        options = self._options
        is_quiet = options["as_json"]
        if not options["hide_header"] and not is_quiet:
            print(
                f"{'time, threadId' if options['show_detailed_stats'] else 'start.time, end.time'}, {COLUMNS}",
                flush=True,
            )
        total, heard = self._total, time.time()
        while total.records < self._wanted:
            if time.time() - heard > options["timeout"] / 1000:
                print(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({options['timeout']} ms) exceeded. You can use the --timeout option to increase the timeout.",
                    file=sys.stderr,
                )
                break
            for chunk in self._consumer.poll(100):
                records, size = self._consumer.payload_bytes(chunk, most=self._wanted - total.records)
                total.records += records
                total.size += size
                heard = time.time()
            total.at, total.rebalance_ms = time.time(), self._consumer.rebalance_ms
            is_due = total.at - self._last.at >= options["reporting_interval"] / 1000
            if options["show_detailed_stats"] and is_due and not is_quiet:
                self._detail()
        self._finish()
        return 0

    def _detail(self) -> None:
        now, last = self._total, self._last
        print(f"{self._date(now.at)}, 0, {_numbers(now, last)}", flush=True)
        self._last = _Count(now.at, now.records, now.size, now.rebalance_ms)

    def _date(self, at: float) -> str:
        return format_date(at, self._options["date_format"])

    def _finish(self) -> None:
        start, total = _Count(self._began), self._total
        if self._options["as_json"]:
            seconds = max(total.at - self._began, 1e-6)
            show_json({
                "records": total.records,
                "megabytes": total.size / MEGABYTE,
                "recordsPerSecond": total.records / seconds,
                "megabytesPerSecond": total.size / seconds / MEGABYTE,
                "rebalanceMs": total.rebalance_ms,
            })  # fmt: skip
        elif not self._options["show_detailed_stats"]:
            print(f"{self._date(self._began)}, {self._date(total.at)}, {_numbers(total, start)}")
        if self._options["print_metrics"]:
            print(f"records-consumed-total : {total.records}\nbytes-consumed-total : {total.size}")


def _numbers(now: _Count, last: _Count) -> str:
    """Kafka's eight columns for what came between two counts; amounts are totals, rates are of the interval."""
    seconds = max(now.at - last.at, 1e-6)
    megabytes, records = (now.size - last.size) / MEGABYTE, now.records - last.records
    rebalance = now.rebalance_ms - last.rebalance_ms
    fetch_ms = max(int(seconds * 1000) - rebalance, 1)
    return (
        f"{now.size / MEGABYTE:.4f}, {megabytes / seconds:.4f}, {now.records}, {records / seconds:.4f}, {rebalance}, {fetch_ms}, "
        f"{megabytes * 1000 / fetch_ms:.4f}, {records * 1000 / fetch_ms:.4f}"
    )
