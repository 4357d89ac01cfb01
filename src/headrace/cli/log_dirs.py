"""The command `headrace log-dirs`: how full the log directories are, and which replicas lie where."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.cli.output import is_terminal, show_table
from headrace.cli.shell import connect, connection_options, json_option
from headrace.client import admin_cluster
from headrace.client.admin_cluster import LogDirInfo
from headrace.core.errors import OperatorError, PeerError


@click.command(help="Show how full the log directories of brokers are.")
@connection_options()
@click.option("--describe", is_flag=True, help="Describe the log directories.")
@click.option("--broker-list", default="", metavar="ID,ID,...", help="Only these brokers.")
@click.option("--topic-list", default="", metavar="TOPIC,TOPIC,...", help="Only these topics.")
@json_option
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Kafka's tool prints two lines of prose and one of JSON; `--json` prints the JSON only."""
    if not options["describe"]:
        raise OperatorError("Command must include exactly one action: --describe")
    topics = [name for name in options["topic_list"].split(",") if name]
    with connect(bootstrap_server, command_config, client_id="log-dirs-tool") as client:
        existing = [node.node_id for node in client.run(admin_cluster.nodes)]
        wanted = parse_brokers(options["broker_list"], existing)
        is_plain = not options["as_json"] and not is_terminal()
        if is_plain:
            print("Querying brokers for log directories information")
        infos = client.run(admin_cluster.describe_log_dirs, wanted, topics or None)
        if is_plain:
            print(f"Received log directory information from brokers {','.join(map(str, wanted))}")
    for result in infos.values():
        if isinstance(result, PeerError):
            raise result
    found = {broker: result for broker, result in infos.items() if not isinstance(result, PeerError)}
    if is_terminal() and not options["as_json"]:
        _show(found)
    else:
        print(json.dumps(plain(found), separators=(",", ":")))
    return 0


def parse_brokers(text: str, existing: list[int]) -> list[int]:
    """The brokers of a list, all without one. Raises OperatorError for no numbers and for brokers that do not exist."""
    try:
        wanted = sorted({int(each) for each in text.split(",") if each.strip()})
    except ValueError:
        raise OperatorError(f"--broker-list {text}: expected broker ids such as 0,1,2") from None
    missing = [broker for broker in wanted if broker not in existing]
    if missing:
        raise OperatorError(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, sorted(existing)))}"
        )
    return wanted or sorted(existing)


def plain(infos: dict[int, list[LogDirInfo]]) -> dict[str, Any]:
    """The document that Kafka's tool prints."""
    return {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{each.topic}-{each.partition}",
                                "size": each.size,
                                "offsetLag": each.offset_lag,
                                "isFuture": each.is_future,
                            }
                            for each in info.replicas
                        ],
                        "error": None if info.error is None else info.error.code.name,
                        "logDir": info.path,
                    }
                    for info in dirs
                ],
            }
            for broker, dirs in infos.items()
        ],
        "version": 1,
    }


def _show(infos: dict[int, list[LogDirInfo]]) -> None:
    rows = [
        (
            broker,
            info.path,
            f"{each.topic}-{each.partition}",
            f"{each.size:,}",
            f"{each.offset_lag:,}",
            "future" if each.is_future else "",
        )
        for broker, dirs in infos.items()
        for info in dirs
        for each in sorted(info.replicas, key=lambda replica: (replica.topic, replica.partition))
    ]
    show_table("", ("broker", "log directory", "partition", "bytes", "lag", ""), rows, right=(0, 3, 4))
    totals = [
        (
            broker,
            info.path,
            f"{sum(each.size for each in info.replicas):,}",
            _or_dash(info.usable_bytes),
            _or_dash(info.total_bytes),
            str(info.error or ""),
        )
        for broker, dirs in infos.items()
        for info in dirs
    ]
    show_table(
        "",
        ("broker", "log directory", "bytes shown", "bytes free", "bytes in all", "error"),
        totals,
        right=(0, 2, 3, 4),
    )


def _or_dash(value: int) -> str:
    return f"{value:,}" if value >= 0 else "-"
