"""The reference pages of `docs/reference`, made from docstrings, signatures and the tables of settings and options.

python -m tools.reference            write the pages (`make reference`)
python -m tools.reference --check    say which pages are out of date
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType

from headrace.broker.log_settings import LARGEST_INTERVAL, SMALLEST_INTERVAL
from headrace.config.broker_keys import KAFKA_KEYS
from headrace.config.group_keys import GROUP_KEYS
from headrace.config.key import ConfigKey, Type, Update, value_text
from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import _DERIVED
from headrace.config.project_keys import ALIASES, PROJECT_KEYS
from headrace.config.topic_keys import BROKER_SYNONYMS, TOPIC_KEYS
from headrace.coordinator.groups.joining import MOST_MEMBERS
from headrace.coordinator.groups.stored import MOST_GROUP_BYTES
from headrace.log.producers import MOST_PRODUCERS
from headrace.replication.fetch_session_cache import MOST_IN_A_SESSION, MOST_PARTITIONS
from headrace.server.listeners import LEAST_OF_QUORUM
from headrace.spark.option_names import NOT_FOR_READING, NOT_FOR_WRITING, READ_OPTIONS, WRITE_OPTIONS
from headrace.spark.options import ReadOptions

PAGES = Path(__file__).parents[1] / "docs" / "reference"
MADE = "Made by `make reference` from the code; changes belong there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of a page; `names` are its public ones, all that it defines when empty."""

    path: str
    names: tuple[str, ...] = ()


API_PAGES: Mapping[str, tuple[str, str, tuple[Module, ...]]] = {
    "testing": (
        "Nodes and clusters in tests",
        "`headrace.testing` runs real nodes, `headrace.sim.scenario` simulated ones. pytest finds the fixtures by itself: `headrace_node` is a running "
        "`Node`, `headrace_cluster` a running `Cluster` of three nodes, `headrace_simulation` makes a started `Simulation`.",
        (
            Module(path="headrace.testing.node", names=("Node",)),
            Module(path="headrace.testing.cluster", names=("Cluster",)),
            Module(path="headrace.testing.member", names=("Member", "Place")),
            Module(path="headrace.sim.scenario", names=("Simulation",)),
            Module(path="headrace.sim.faults", names=("FaultKind",)),
        ),
    ),
    "client": (
        "The client",
        "`BlockingClient` works on plain sockets, `AsyncClient` on asyncio. Both hold the same conversations: functions whose first parameter is the "
        "`session`, which `client.run(function, ...)` gives them (`await client.run(...)` on asyncio). Values are frozen.",
        (
            Module(path="headrace.client.blocking", names=("BlockingClient", "BlockingProducer")),
            Module(path="headrace.client.aio", names=("AsyncClient",)),
            *(
                Module(path=f"headrace.client.{name}")
                for name in (
                    "admin_topics",
                    "admin_configs",
                    "admin_cluster",
                    "admin_quorum",
                    "offsets",
                    "metadata_log",
                )
            ),
        ),
    ),
    "arrow": (
        "Record batches and Arrow",
        "What a topic holds as Arrow columns, and columns as what a topic takes. Needs the extra `spark`.",
        (
            Module(path="headrace.arrow.read", names=("read_table", "read_topic")),
            Module(path="headrace.arrow.schema"),
            Module(path="headrace.arrow.decode", names=("RangeDecoder",)),
            Module(path="headrace.arrow.values", names=("DecodedValues", "decode_values")),
            Module(path="headrace.arrow.value_rows", names=("ValueColumns", "RowDecoder")),
            Module(path="headrace.arrow.value_schema", names=("parse_value_schema",)),
            Module(path="headrace.arrow.encode"),
            Module(path="headrace.arrow.batch_settings"),
            Module(path="headrace.arrow.partitioner"),
        ),
    ),
}
"""Each page: its title, what stands first, its modules."""

SPARK_MODULES = (
    Module(path="headrace.spark.session", names=("local_session", "stop_session")),
    Module(path="headrace.spark.origin", names=("drop_replays",)),
    Module(path="headrace.spark.query_watch", names=("watch_queries", "QueryWatch", "Lag")),
    Module(path="headrace.spark.postgres", names=("PostgresTable",)),
)
"""What programs on Spark import, beside the format that they name."""

OPTIONS: Mapping[str, tuple[str, str]] = {
    "subscribe": ("selection", "topics, separated by commas; one of the first three must be given"),
    "subscribePattern": ("selection", "all topics whose whole name matches a regular expression"),
    "assign": ("selection", 'partitions as JSON, `{"orders": [0, 1]}`'),
    "startingOffsets": (
        "starting",
        "`earliest`, `latest`, or offsets a partition as JSON; a batch begins at the earliest, a stream at the latest",
    ),
    "startingTimestamp": ("starting", "begin at the first record of this time (ms since 1970) or later"),
    "startingOffsetsByTimestamp": ("starting", "the same, a time for each partition, as JSON"),
    "startingOffsetsByTimestampStrategy": ("starting", "where no record is that late: `error` or `latest`"),
    "endingOffsets": ("ending", "where a batch ends: `latest`, or offsets as JSON (exclusive)"),
    "endingTimestamp": ("ending", "end before the first record of this time or later"),
    "endingOffsetsByTimestamp": ("ending", "the same, a time for each partition, as JSON"),
    "failOnDataLoss": ("is_loss_fatal", "whether records that were deleted before they were read end the query"),
    "includeHeaders": ("properties", "`true`: a column `headers`"),
    "columns": (
        "properties",
        "the columns that are read, `value,offset`, in this order; others cost nothing, neither here nor in Spark",
    ),
    "valueFormat": (
        "values",
        '`json`, `csv`, `avro` or `protobuf`: `value` is a struct of columns (`select("value.*")`)',
    ),
    "valueSchema": (
        "values",
        "those columns as in SQL, `id bigint, name string`; with a registry by default those of the subject",
    ),
    "rescuedColumn": (
        "values",
        "a binary column for values that do not fit the schema, as they came; without it such a value ends the query",
    ),
    "deadLetterTopic": (
        "values",
        "a topic for records whose values do not fit, with headers that say where they were and why; they are left out",
    ),
    "schema.registry.url": (
        "values",
        "a schema registry with Confluent's API; values are in its wire format; other settings of its client likewise",
    ),
    "valueSubject": ("values", "the subject whose schema the columns have, by default `TOPIC-value`"),
    "valueSubjectVersion": ("values", "its version, by default the latest when the query is planned"),
    "minPartitions": ("min_partitions", "at least as many tasks: large partitions are split"),
    "maxRecordsPerPartition": ("max_records_per_partition", "no task reads more records than this"),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", "no micro-batch of a stream reads more offsets than this"),
    "maxBytesPerTrigger": (
        "max_bytes_per_trigger",
        "nor about this many bytes as they are stored, by a look at the next records of each partition",
    ),
    "minOffsetsPerTrigger": ("min_offsets_per_trigger", "a micro-batch waits for as many offsets"),
    "maxTriggerDelay": ("max_trigger_delay_ms", "but no longer than this (`15m`, `30s`; the default in ms)"),
    "fetchOffset.numRetries": ("offset_retries", "how often offsets are asked for again"),
    "fetchOffset.retryIntervalMs": ("offset_retry_ms", "and how long is waited in between"),
    "kafkaConsumer.pollTimeoutMs": ("properties", "how long a task waits for records that must be there"),
    "groupId": (
        "group_id",
        "a stream's progress is committed as the offsets of this group ([Progress as a consumer group](../spark.md#progress-as-a-consumer-group))",
    ),
    "groupIdPrefix": ("properties", "accepted, without effect: no group is made for reading"),
}
WRITING: Mapping[str, str] = {
    "topic": "the topic for all rows; without it each row names its own in the column `topic`",
    "includeHeaders": "accepted; a column `headers` is always written where there is one",
    "writeOrigin": "`true` or `false` (default): a header `headrace.origin` that tells rows written again ([Writing](../spark.md#writing))",
}

BOUNDS: Mapping[tuple[str, ...], str] = {
    (
        "group.max.size",
    ): f"a group has {MOST_MEMBERS:,} members at most, GROUP_MAX_SIZE_REACHED beyond; its record has {MOST_GROUP_BYTES >> 20} MiB at most",
    (
        "index.interval.bytes",
        "log.index.interval.bytes",
    ): f"counts as {SMALLEST_INTERVAL:,} at least and as {LARGEST_INTERVAL:,} at most",
    (
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    ): f"a controller's listener takes {LEAST_OF_QUORUM} in any case",
    (
        "max.incremental.fetch.session.cache.slots",
    ): f"all sessions together hold {MOST_PARTITIONS:,} partitions, and one {MOST_IN_A_SESSION:,}; beyond that, who has most gives way",
    (
        "max.message.bytes",
        "message.max.bytes",
    ): "a batch, however small, opens to `headrace.max.decompressed.bytes` (256 MiB) at most, MESSAGE_TOO_LARGE beyond",
    ("producer.id.expiration.ms",): f"a partition remembers the {MOST_PRODUCERS:,} producers that wrote last",
}
"""Settings of Kafka's whose effect has a bound here that Kafka does not have."""


def pages() -> dict[str, str]:
    """Name and text of each page, as it is to be."""
    found = {f"{name}.md": _api_page(*page) for name, page in API_PAGES.items()}
    return found | {"spark.md": _spark(), "settings.md": _settings(), "README.md": _index()}


def _index() -> str:
    rows = [f"- [{title}]({name}.md): {first}" for name, (title, first, _) in API_PAGES.items()]
    rows += [
        "- [The Spark source and sink](spark.md): options of `spark.read`, `readStream`, `write` and `writeStream` with the format `headrace`, and what programs import: sessions, replays, lag, PostgreSQL.",
        "- [Settings](settings.md): those that Kafka does not have, all of a node, of a topic and of a group, with defaults.",
    ]
    return _joined("# Reference", MADE, "\n".join(rows))


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


# -- the interface for programs --


def _api_page(title: str, first: str, modules: Sequence[Module]) -> str:
    return _joined(f"# {title}", MADE, first, *(_module(module) for module in modules))


def _module(wanted: Module) -> str:
    module = import_module(wanted.path)
    names = wanted.names or tuple(_public(module))
    return _joined(
        f"## `{wanted.path}`", _doc(module), *(_named(name, getattr(module, name)) for name in names)
    ).rstrip()


def _public(module: ModuleType) -> list[str]:
    """What a module defines itself and does not hide, in the order of its text."""
    source = inspect.getsource(module)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return sorted(own, key=lambda name: source.index(f" {name}"))


def _named(name: str, value: object) -> str:
    if inspect.isclass(value):
        return _class(name, value)
    return _joined(f"### `{name}`", _signature(name, value), _doc(value)).rstrip() if callable(value) else ""


def _class(name: str, kind: type) -> str:
    parts = [f"### `{name}`", _doc(kind)]
    if issubclass(kind, Enum):
        parts.append(", ".join(f"`{member.name}`" for member in kind))
        return _joined(*parts).rstrip()
    if is_dataclass(kind):
        parts.append(
            "\n".join(
                f"- `{each.name}: {each.type}`{_default(each.default)}"
                for each in fields(kind)
                if each.init and not each.name.startswith("_")
            )
        )
    else:
        parts.append(_signature(name, kind))
    methods = [
        f"- {_member(each, member)}"
        for each, member in vars(kind).items()
        if not each.startswith("_") and _is_told(member) and not _is_of_another(each, kind)
    ]
    return _joined(*parts, "\n".join(methods)).rstrip()


def _default(value: object) -> str:
    return "" if value is MISSING else f" = `{value!r}`"


def _is_told(member: object) -> bool:
    told = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return inspect.isfunction(told) and bool(told.__doc__)


def _is_of_another(name: str, kind: type) -> bool:
    """Whether a method only answers a call of another library's base class."""
    return any(hasattr(base, name) for base in kind.__bases__ if not base.__module__.startswith("headrace."))


def _member(name: str, member: object) -> str:
    if isinstance(member, property):
        return f"`{name}`: {_one_line(member)}"
    function: object = getattr(member, "__func__", member)
    shown = _arguments(function, drop=1)
    return f"`{name}{shown}`: {_one_line(function)}"


def _signature(name: str, value: object) -> str:
    drop = 1 if inspect.isclass(value) else 0
    function: object = value.__init__ if inspect.isclass(value) else value
    shown = _arguments(function, drop=drop)
    return f"```python\n{name}{shown.removesuffix(' -> None') if drop else shown}\n```"


def _arguments(function: object, *, drop: int) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    kept = [each.replace(annotation=_bare(each.annotation)) for each in signature.parameters.values()][drop:]
    return str(signature.replace(parameters=kept, return_annotation=_bare(signature.return_annotation)))


def _bare(annotation: object) -> object:
    if annotation is inspect.Signature.empty:
        return annotation
    return _Bare(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


class _Bare(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _doc(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return text.replace("``", "`")


def _one_line(value: object) -> str:
    return " ".join(_doc(value).split())


# -- Spark --


def _spark() -> str:
    defaults = {each.name: each.default for each in fields(ReadOptions)}

    def shown(field: str) -> str:
        value = defaults[field]
        return "" if value is MISSING or value is None else str(value).lower()

    reading = "\n".join(f"| `{name}` | {shown(OPTIONS[name][0])} | {OPTIONS[name][1]} |" for name in OPTIONS)
    writing = "\n".join(f"| `{name}` | {sentence} |" for name, sentence in WRITING.items())
    refused = "\n".join(
        f"| `{name}` | {side} | {why} |"
        for side, names in (("reading", NOT_FOR_READING), ("writing", NOT_FOR_WRITING))
        for name, why in names.items()
    )
    assert (set(OPTIONS), set(WRITING)) == (set(READ_OPTIONS), set(WRITE_OPTIONS)), "an option has no sentence here"
    return _joined(
        "# The Spark source and sink",
        MADE,
        "The format is `headrace`; names are those of Spark's `kafka` source, in any case. `kafka.bootstrap.servers` must be given; every other `kafka.*` goes to [the client](client.md#blockingclient), `kafka.max.partition.fetch.bytes` (2 MiB, what is fetched at a time) and `kafka.headrace.max.decompressed.bytes` (256 MiB, what one batch may open to) among them.",
        "## Reading",
        f"| option | default | meaning |\n|---|---|---|\n{reading}",
        "## Writing",
        "Columns: `value`; where there are any also `key`, `headers`, `partition`, `topic`.",
        f"| option | meaning |\n|---|---|\n{writing}",
        "## Refused",
        f"| option | when | why |\n|---|---|---|\n{refused}",
        *map(_module, SPARK_MODULES),
    )


# -- settings --


def _settings() -> str:
    ours = {key.name: key for key in PROJECT_KEYS}
    used = {field.name.replace("_", ".") for field in fields(NodeConfig)} | _DERIVED
    groups = [(key, "") for key in sorted(GROUP_KEYS, key=lambda each: each.name) if not key.internal]
    return _joined(
        "# Settings",
        MADE,
        "Names, types, defaults and ranges of Kafka's settings are those of Apache Kafka 4.3.1. *Changes*: while brokers run, of one broker or of all.",
        "## Settings that Kafka does not have",
        "What each is for: [quorum.md](../quorum.md#settings-that-kafka-does-not-have).",
        _keys([(key, "") for key in PROJECT_KEYS], "of note"),
        "## Older names that are understood",
        "| name | means |\n|---|---|\n" + "\n".join(f"| `{alias}` | `{name}` |" for alias, name in ALIASES.items()),
        "## Bounds of Kafka's settings",
        "Whatever these say, Headrace keeps within a bound that Kafka does not have.",
        "| setting | bound |\n|---|---|\n" + "\n".join(_bound(names, bound) for names, bound in BOUNDS.items()),
        "## Of a topic",
        _keys(
            [
                (key, ", ".join(f"`{name}`" for name in BROKER_SYNONYMS.get(key.name, ())))
                for key in TOPIC_KEYS
                if not key.internal
            ],
            "default of all topics",
        ),
        "## Of a listener",
        "`listener.name.NAME.max.connections` and `listener.name.NAME.max.connection.creation.rate`, with the listener's name in small letters, limit what "
        "that listener takes (at least 1), beside `max.connections` and `max.connection.creation.rate`, which count all listeners of a broker together; "
        "they change while brokers run (KIP-402, KIP-612). A listener without its own has the broker's. Connections beyond a limit wait, as many as "
        "`socket.listen.backlog.size` says, and are served when others go; more are closed. What clients take of the broker-wide limits keeps no broker "
        "out: where clients have a listener of their own, the one of `inter.broker.listener.name` takes connections beyond them, and clients that were "
        "silent longest are closed for them, as they are when `max.connections` is lowered.",
        "## Of a node",
        "A setting without effect is accepted, and a warning at the start names it.",
        _keys(
            [
                (key, _note(key, key.name in used))
                for key in sorted(KAFKA_KEYS, key=lambda each: each.name)
                if not key.internal and key.name not in ours
            ],
            "of note",
        ),
        "## Of a group",
        _keys(groups, "of note"),
    )


def _bound(names: tuple[str, ...], bound: str) -> str:
    unknown = set(names) - {key.name for key in (*KAFKA_KEYS, *TOPIC_KEYS)}
    assert not unknown, f"{unknown} are no settings"
    return f"| {', '.join(f'`{name}`' for name in names)} | {bound} |"


def _note(key: ConfigKey, is_used: bool) -> str:  # noqa: FBT001
    changes = {Update.READ_ONLY: "", Update.PER_BROKER: "changes: one broker", Update.CLUSTER_WIDE: "changes: all"}[
        key.update
    ]
    return ", ".join(word for word in (changes, "" if is_used else "without effect") if word)


def _keys(rows: Sequence[tuple[ConfigKey, str]], last: str) -> str:
    lines = [f"| setting | type | default | valid | {last} |", "|---|---|---|---|---|"]
    for key, note in rows:
        default = "must be given" if key.required else value_text(key, key.default)
        shown = "" if default in (None, "") else f"`{default}`" if not key.required else default
        kind = "class" if key.type is Type.CLASS else key.type.name.lower()
        lines.append(f"| `{key.name}` | {kind} | {_cell(shown or '')} | {_cell(key.valid)} | {note} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


def stale() -> list[str]:
    """Pages that are not what they are to be."""
    wanted = pages()
    there = {path.name: path.read_text() for path in PAGES.glob("*.md")}
    return sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or say which are out of date."""
    if arguments == ["--check"]:
        print("\n".join(stale()), end="")
        return 1 if stale() else 0
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
