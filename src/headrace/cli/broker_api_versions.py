"""The command `headrace broker-api-versions`: versions of APIs that each broker speaks, and which of them we can use."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import connect, connection_options, json_option
from headrace.client import admin_cluster
from headrace.client.blocking import BlockingClient
from headrace.client.cluster_view import NodeView
from headrace.core.errors import OperatorError, PeerError
from headrace.wire.versions import APIS


@click.command(help="Show which API versions each broker speaks.")
@connection_options()
@json_option
def command(bootstrap_server: str | None, command_config: str | None, as_json: bool) -> int:
    """One block a broker."""
    with connect(bootstrap_server, command_config) as client:
        answers = client.run(admin_cluster.api_versions)
        fenced = _fenced(client)
    if as_json:
        show_json([_plain(node, answer) for node, answer in answers])
        return 0
    for node, answer in answers:
        head = f"{node.address} (id: {node.node_id} rack: {node.rack or 'null'} isFenced: {str(fenced.get(node.node_id, False)).lower()})"
        if isinstance(answer, OperatorError):
            print(f"{head} -> ERROR: {answer}")
        elif is_terminal():
            show_table(
                head,
                ("api", "key", "versions", "usable"),
                [(name, key, *rest) for name, key, *rest in _rows(answer)],
                right=(1, 3),
            )
        else:
            lines = [
                f"\t{name}({key}): {versions if usable is None else f'{versions} [usable: {usable}]'}"
                for name, key, versions, usable in _rows(answer)
            ]
            print(f"{head} -> (\n" + ",\n".join(lines) + "\n)")
    return 0


def _fenced(client: BlockingClient) -> dict[int, bool]:
    """Which brokers are fenced, as far as the cluster tells."""
    try:
        found = client.run(admin_cluster.describe_cluster)
    except PeerError:
        return {}
    return {node.node_id: bool(node.is_fenced) for node in found.end_points}


def _rows(answer: Any) -> list[tuple[str, int, str, int | None]]:
    """(name, key, versions, the one we would use) of every API that is ours or the broker's, by key."""
    theirs = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    rows: list[tuple[str, int, str, int | None]] = []
    for key in sorted({*theirs, *(key for key, api in APIS.items() if "broker" in api.listeners)}):
        api = APIS.get(key)
        name = api.name if api is not None else "UNKNOWN"
        if key not in theirs:
            rows.append((name, key, "UNSUPPORTED", None))
            continue
        low, high = theirs[key]
        span = str(low) if low == high else f"{low} to {high}"
        usable = min(high, api.last_stable) if api is not None else -1
        is_usable = api is not None and usable >= max(low, api.first)
        rows.append(
            (
                name,
                key,
                span if is_usable else f"{span} [unusable: node too new]" if api else span,
                usable if is_usable else None,
            )
        )
    return rows


def _plain(node: NodeView, answer: Any) -> dict[str, Any]:
    head: dict[str, Any] = {"id": node.node_id, "host": node.address.host, "port": node.address.port, "rack": node.rack}
    if isinstance(answer, OperatorError):
        return {**head, "error": str(answer)}
    apis = [
        {"name": name, "key": key, "versions": versions, "usable": usable}
        for name, key, versions, usable in _rows(answer)
    ]
    return {**head, "apis": apis}
