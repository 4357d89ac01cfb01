"""The command `headrace configs`: settings of topics, brokers and others, shown and changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from headrace.cli.cluster_names import group_ids, topic_names
from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import connect, connection_options, exactly_one, json_option, offered, read_properties
from headrace.client import admin_cluster, admin_configs, admin_topics, groups
from headrace.client.admin_configs import ConfigEntry, ConfigSource, Resource, ResourceType
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError

KINDS: dict[str, tuple[ResourceType, ConfigSource | None]] = {
    "topics": (ResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    "brokers": (ResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (ResourceType.BROKER_LOGGER, None),
    "client-metrics": (ResourceType.CLIENT_METRICS, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),
    "groups": (ResourceType.GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG),
}
"""What may have settings, and the source that a change of them has."""
QUOTA_KINDS = ("users", "clients", "ips")
SHORT_FORMS = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "client_metrics": "client-metrics",
    "group": "groups",
}
QUOTA_FORMS = ("user", "client", "ip", "user_defaults", "client_defaults", "ip_defaults")
_NOT_IN_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_KEY = re.compile(r"[a-zA-Z0-9._-]*")


class Entity(NamedTuple):
    """Whose settings are meant: a kind, and a name (None: all of the kind; empty: the brokers' defaults)."""

    kind: str
    name: str | None


@click.command(help="Describe and alter settings of topics, brokers, broker loggers, client metrics and groups.")
@connection_options(controller=True)
@click.option("--describe", is_flag=True, help="List settings.")
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option(
    "--entity-type",
    multiple=True,
    metavar="TYPE",
    shell_complete=offered(*KINDS),
    help=f"One of {', '.join(KINDS)}.",
)
@click.option(
    "--entity-name", multiple=True, metavar="NAME", help="Name of the topic, client metrics or group, id of the broker."
)
@click.option("--entity-default", is_flag=True, help="The defaults of all brokers.")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="The topic's name.")
@click.option("--broker", metavar="ID", help="The broker's id.")
@click.option("--broker-defaults", is_flag=True, help="The defaults of all brokers.")
@click.option("--broker-logger", metavar="ID", help="The id of the broker whose log levels are meant.")
@click.option("--client-metrics", metavar="NAME", help="The name of the client metrics resource.")
@click.option("--group", metavar="ID", shell_complete=group_ids, help="The group's id.")
@click.option("--user", metavar="NAME", hidden=True)
@click.option("--client", metavar="ID", hidden=True)
@click.option("--ip", metavar="ADDRESS", hidden=True)
@click.option("--user-defaults", is_flag=True, hidden=True)
@click.option("--client-defaults", is_flag=True, hidden=True)
@click.option("--ip-defaults", is_flag=True, hidden=True)
@click.option("--all", "all_", is_flag=True, help="Describe static and default values too.")
@click.option("--add-config", metavar="K=V,K=[V,V],...", help="Settings to set; brackets hold values with commas.")
@click.option("--add-config-file", type=click.Path(), metavar="FILE", help="A properties file of settings to set.")
@click.option("--delete-config", multiple=True, metavar="K,K,...", help="Settings to delete.")
@json_option
def command(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: str | None, **options: Any
) -> int:
    """Describe or alter."""
    action = exactly_one({"describe": options["describe"], "alter": options["alter"]}, "--describe, --alter")
    entity = parse_entity(options)
    changes: dict[str, str] = {}
    deletions: list[str] = []
    if action == "alter":
        changes, deletions = _changes(options, entity)
    elif options["add_config"] or options["add_config_file"] or options["delete_config"]:
        raise OperatorError("--add-config, --add-config-file and --delete-config can only be used with --alter")
    with connect(bootstrap_server, command_config, bootstrap_controller=bootstrap_controller) as client:
        if action == "describe":
            return _describe(client, entity, is_all=options["all_"], as_json=options["as_json"])
        return _alter(client, entity, changes, deletions, as_json=options["as_json"])


def parse_entity(options: Mapping[str, Any]) -> Entity:
    """The one entity that the options name. Raises OperatorError."""
    if any(options[name] for name in QUOTA_FORMS) or any(kind in QUOTA_KINDS for kind in options["entity_type"]):
        raise OperatorError(
            "Settings of users, clients and ips (quotas, SCRAM credentials) are not handled by this command."
        )
    named = [Entity(kind, options[option]) for option, kind in SHORT_FORMS.items() if options[option] is not None]
    if options["broker_defaults"]:
        named.append(Entity("brokers", ""))
    for index, kind in enumerate(options["entity_type"]):
        if kind not in KINDS:
            raise OperatorError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join((*KINDS, *QUOTA_KINDS))}"
            )
        names = options["entity_name"]
        named.append(Entity(kind, "" if options["entity_default"] else names[index] if index < len(names) else None))
    if not named:
        raise OperatorError("At least one entity type must be specified")
    if len(named) > 1:
        raise OperatorError("Only one entity type can be specified")
    (entity,) = named
    if entity.kind in ("brokers", "broker-loggers") and entity.name and not entity.name.isdecimal():
        raise OperatorError(
            f"The entity name for {entity.kind} must be a valid integer broker id, found: {entity.name}"
        )
    if entity.name == "" and entity.kind != "brokers":
        raise OperatorError(f"Default settings are kept for brokers, not for {entity.kind}")
    return entity


def parse_changes(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]` as a mapping. Raises OperatorError."""
    found: dict[str, str] = {}
    for part in re.split("," + _NOT_IN_BRACKETS, text):
        halves = re.split(r"\s*=\s*" + _NOT_IN_BRACKETS, part)
        if len(halves) != 2:
            raise OperatorError('Invalid entity config: all configs to be added must be in the format "key=val".')
        found[halves[0].strip()] = halves[1].replace("[", "").replace("]", "").strip()
    return found


def _changes(options: Mapping[str, Any], entity: Entity) -> tuple[dict[str, str], list[str]]:
    if not options["add_config"] and not options["add_config_file"] and not options["delete_config"]:
        raise OperatorError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if options["add_config"] and options["add_config_file"]:
        raise OperatorError("Only one of --add-config or --add-config-file must be specified")
    if entity.name is None:
        raise OperatorError("An entity name must be specified for every entity type")
    changes = read_properties(options["add_config_file"]) if options["add_config_file"] else {}
    if options["add_config"]:
        changes |= parse_changes(options["add_config"])
    for key in changes:
        if not _KEY.fullmatch(key):
            raise OperatorError(f"Invalid character found for config key: {key}")
    deletions = [name.strip() for each in options["delete_config"] for name in each.split(",") if name.strip()]
    return changes, deletions


def _alter(
    client: BlockingClient, entity: Entity, changes: Mapping[str, str], deletions: Sequence[str], *, as_json: bool
) -> int:
    resource = Resource(KINDS[entity.kind][0], entity.name or "")
    result = client.run(admin_configs.alter_configs, {resource: admin_configs.alter(changes, deletions)})
    error = result.get(resource)
    if error is not None:
        raise OperatorError(f"Error while executing config command: {error}")
    if as_json:
        show_json(
            {"entityType": entity.kind, "entityName": entity.name, "set": dict(changes), "deleted": list(deletions)}
        )
    elif entity.name:
        print(f"Completed updating config for {entity.kind.removesuffix('s')} {entity.name}.")
    else:
        print(f"Completed updating default config for {entity.kind} in the cluster.")
    return 0


def _names(client: BlockingClient, entity: Entity) -> list[str]:
    """The names of every entity of the kind, or the one that was given."""
    if entity.name is not None:
        return [entity.name]
    match entity.kind:
        case "topics":
            return sorted(client.run(admin_topics.list_topics))
        case "brokers" | "broker-loggers":
            every = [str(node.node_id) for node in client.run(admin_cluster.nodes)]
            return [*every, ""] if entity.kind == "brokers" else every
        case "client-metrics":
            return client.run(admin_configs.list_config_resources, ResourceType.CLIENT_METRICS)
        case _:
            return _group_names(client)


def _group_names(client: BlockingClient) -> list[str]:
    listed = [group.group_id for group in client.run(groups.list_groups)]
    try:
        return sorted({*listed, *client.run(admin_configs.list_config_resources, ResourceType.GROUP)})
    except PeerError:
        return listed


def _is_known(client: BlockingClient, entity: Entity) -> bool:
    """Whether the cluster has the named entity, or settings for it. Topics are not asked for: their own error tells."""
    match entity.kind:
        case "brokers" | "broker-loggers":
            return entity.name in {str(node.node_id) for node in client.run(admin_cluster.nodes)}
        case "client-metrics":
            return _is_listed(client, entity.name or "", ResourceType.CLIENT_METRICS)
        case "groups":
            return entity.name in _group_names(client)
        case _:
            return True


def _is_listed(client: BlockingClient, name: str, kind: ResourceType) -> bool:
    """Whether there are settings of that name; where the cluster cannot list them, they are to be shown, whatever they are."""
    try:
        return name in client.run(admin_configs.list_config_resources, kind)
    except PeerError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return True


def _describe(client: BlockingClient, entity: Entity, *, is_all: bool, as_json: bool) -> int:
    kind, dynamic = KINDS[entity.kind]
    described: list[tuple[str, list[ConfigEntry]]] = []
    if entity.name and not is_all and not _is_known(client, entity):
        _tell_missing(entity.kind, entity.name, as_json=as_json)
        return 0
    for name in _names(client, entity):
        result = client.run(admin_configs.describe_configs, [Resource(kind, name)], is_with_synonyms=True)[
            Resource(kind, name)
        ]
        if isinstance(result, PeerError):
            if entity.kind == "topics" and "UNKNOWN_TOPIC" in result.code.name:
                if entity.name is None:  # deleted since the topics were listed
                    continue
                _tell_missing(entity.kind, name, as_json=as_json)
                return 0
            if (
                entity.name is None and result.code is ErrorCode.BROKER_NOT_AVAILABLE
            ):  # it left since the brokers were listed
                continue
            raise OperatorError(f"Error while executing config command: {result}")
        wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if name == "" else dynamic
        shown = [entry for entry in result if is_all or wanted is None or entry.source is wanted]
        described.append((name, sorted(shown, key=lambda entry: entry.name)))
    if as_json:
        show_json([_plain(entity.kind, name, entries) for name, entries in described])
        return 0
    for name, entries in described:
        _show(entity.kind, name, entries, is_all=is_all)
    return 0


def _tell_missing(kind: str, name: str, *, as_json: bool) -> None:
    if as_json:
        show_json([])
    else:
        print(f"The {kind.removesuffix('s')} '{name}' doesn't exist and doesn't have dynamic config.")


def _show(kind: str, name: str, entries: list[ConfigEntry], *, is_all: bool) -> None:
    head = f"{'All' if is_all else 'Dynamic'} configs for {kind.removesuffix('s')} {name} are:"
    print(head if name else f"Default configs for {kind} in the cluster are:")
    if is_terminal():
        rows = [
            (entry.name, "(secret)" if entry.is_sensitive else entry.value, entry.source.name.lower())
            for entry in entries
        ]
        if rows:
            show_table("", ("name", "value", "source"), rows)
        return
    for entry in entries:
        synonyms = ", ".join(f"{each.source.name}:{each.name}={_text(each.value)}" for each in entry.synonyms)
        print(
            f"  {entry.name}={_text(entry.value)} sensitive={str(entry.is_sensitive).lower()} synonyms={{{synonyms}}}"
        )


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _plain(kind: str, name: str, entries: list[ConfigEntry]) -> dict[str, Any]:
    return {
        "entityType": kind,
        "entityName": name or None,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "sensitive": entry.is_sensitive,
                "readOnly": entry.is_read_only,
                "synonyms": [
                    {"name": each.name, "value": each.value, "source": each.source.name} for each in entry.synonyms
                ],
            }
            for entry in entries
        ],
    }
