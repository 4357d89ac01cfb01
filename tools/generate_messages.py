"""The generator of the typed classes of `headrace.wire`, from the facts of Kafka's message definitions.

    python tools/generate_messages.py DEFINITIONS [TARGET]

DEFINITIONS is a directory with Kafka's own JSON definitions in `common/message` and `common/metadata`, as its jars carry
them; TARGET is `src/headrace/wire`. Only facts are taken: names, types, versions, defaults, tags. No text is copied.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HEADER = "Written by tools/generate_messages.py from the definitions of Apache Kafka {version}; do not edit."
KAFKA_VERSION = "4.3.1"
PYTHON_TYPES = {
    "bool": "bool", "int8": "int", "int16": "int", "uint16": "int", "int32": "int", "uint32": "int", "int64": "int",
    "float64": "float", "uuid": "Uuid", "string": "str", "bytes": "bytes", "records": "Records",
}  # fmt: skip


def _plain(kind: str, names: str, *, default: int | None = None) -> list[Json]:
    """Fields of one type."""
    rest = {} if default is None else {"default": default}
    return [{"name": name, "type": kind, "versions": "0+", **rest} for name in names.split()]


# What one node of the quorum says of itself (docs/decisions/0017). Ages are ms before the answer, -1 = never.
NODE_VIEW: list[Json] = [
    *_plain("int32", "NodeId"),
    *_plain("uuid", "DirectoryId"),
    *_plain("string", "ClusterId SoftwareVersion ProcessRoles LogDirectory"),
    *_plain("string", "Role"),
    *_plain("int32", "Epoch"),
    *_plain("int32", "LeaderId VotedId", default=-1),
    *_plain("uuid", "VotedDirectoryId"),
    {"name": "Votes", "type": "[]NodeVote", "versions": "0+", "fields": [*_plain("int32", "VoterId"), *_plain("bool", "IsGranted")]},
    *_plain("int64", "LogStartOffset LogEndOffset DurableEndOffset HighWatermark UncommittedForMs", default=-1),
    *_plain("int32", "LogEndEpoch", default=-1),
    *_plain("int16", "KraftVersion"),
    *_plain("int64", "VoterSetOffset", default=-1),
    {
        "name": "Voters", "type": "[]NodeVoter", "versions": "0+",
        "fields": [
            *_plain("int32", "VoterId"),
            *_plain("uuid", "DirectoryId"),
            {
                "name": "EndPoints", "type": "[]NodeEndPoint", "versions": "0+",
                "fields": [*_plain("string", "Name Host"), *_plain("uint16", "Port")],
            },
        ],
    },
    {"name": "OwnEndPoints", "type": "[]OwnEndPoint", "versions": "0+", "fields": [*_plain("string", "Name Host"), *_plain("uint16", "Port"), *_plain("bool", "IsForControllers")]},
    {
        "name": "Links", "type": "[]NodeLink", "versions": "0+",
        "fields": [
            *_plain("int32", "PeerId", default=-1),
            *_plain("string", "Host"),
            *_plain("int32", "Port", default=-1),
            *_plain("int64", "AnsweredAgeMs FailedAgeMs FailingForMs", default=-1),
            *_plain("string", "Failure"),
            *_plain("int64", "RefusedAgeMs", default=-1),
            *_plain("int16", "RefusalCode RefusedApi"),
            *_plain("int64", "HeardAgeMs", default=-1),
            *_plain("int16", "ToldCode ToldApi"),
            *_plain("int64", "ToldAgeMs", default=-1),
            *_plain("int64", "LogEndOffset FetchAgeMs CaughtUpAgeMs", default=-1),
            *_plain("string", "LastWords"),
            *_plain("int64", "LastWordsAgeMs", default=-1),
        ],
    },
    *_plain("int64", "FlushLastMs FlushAverageMs FlushMaxMs FlushInFlightMs FlushCount", default=-1),
    *_plain("int64", "DiskFreeBytes DiskTotalBytes", default=-1),
    *_plain("string", "DiskFailure"),
    *_plain("int64", "DiskFailureAgeMs", default=-1),
    *_plain("int64", "WallClockMs UptimeMs"),
    *_plain("int64", "ClockJumpMs"),
    *_plain("int64", "ClockJumpAgeMs", default=-1),
    *_plain("string", "Problem"),
    {"name": "EpochHistory", "type": "[]EpochStart", "versions": "0+", "fields": [*_plain("int32", "Epoch"), *_plain("int64", "StartOffset")]},
    {
        "name": "Batches", "type": "[]BatchDigest", "versions": "0+",
        "fields": [*_plain("int64", "BaseOffset LastOffset"), *_plain("int32", "Epoch"), *_plain("int64", "Crc")],
    },
    *_plain("int64", "LastAppliedOffset LastAppliedTimestamp LastAppliedLagMs", default=-1),
]  # fmt: skip


BROKER_VIEW: list[Json] = [
    *_plain("int32", "BrokerId"),
    *_plain("int8", "State"),
    *_plain("int64", "BrokerEpoch"),
    *_plain("uuid", "IncarnationId"),
    *_plain("bool", "IsFenced InControlledShutdown"),
    *_plain("int64", "SilenceMs MetadataOffset", default=-1),
    {"name": "WaitsForBrokers", "type": "[]int32", "versions": "0+"},
]


# Fields of our own, beside Kafka's: tagged, so that whoever does not know them skips them. Source: S1-63, S1-71, S3-78, S4-55.
PROJECT_FIELDS: dict[str, list[Json]] = {
    "UnregisterBrokerRequest": [
        {"name": "RemoveFromAssignments", "type": "bool", "versions": "0+", "taggedVersions": "0+", "tag": 10000},
        {"name": "Force", "type": "bool", "versions": "0+", "taggedVersions": "0+", "tag": 10001},
    ],
    "UnregisterBrokerResponse": [
        {
            "name": "EmptiedTopics", "type": "[]EmptiedTopic", "versions": "0+", "taggedVersions": "0+", "tag": 10000,
            "ignorable": True, "fields": [*_plain("string", "Name"), *_plain("[]int32", "Partitions")],
        },
    ],
    "PartitionRecord": [
        {"name": "FirstLeaderEpoch", "type": "int32", "versions": "0+", "taggedVersions": "0+", "tag": 9999},
    ],
    "MetadataResponse": [
        {
            "name": "MetadataOffset", "type": "int64", "default": -1, "versions": "9+", "taggedVersions": "9+", "tag": 10000,
            "ignorable": True,
        },
    ],
    "DescribeQuorumRequest": [
        {"name": "WantsNodeView", "type": "bool", "versions": "0+", "taggedVersions": "0+", "tag": 10000},
        {"name": "LastWordsOf", "type": "int32", "default": -1, "versions": "0+", "taggedVersions": "0+", "tag": 10001},
        {"name": "LastWords", "type": "string", "versions": "0+", "taggedVersions": "0+", "tag": 10002},
        {"name": "WantsBrokerViews", "type": "bool", "versions": "0+", "taggedVersions": "0+", "tag": 10003},
    ],
    "DescribeQuorumResponse": [
        {
            "name": "NodeViews", "type": "[]NodeView", "versions": "0+", "taggedVersions": "0+", "tag": 10000,
            "ignorable": True, "fields": NODE_VIEW,
        },
        {
            "name": "BrokerViews", "type": "[]BrokerView", "versions": "0+", "taggedVersions": "0+", "tag": 10001,
            "ignorable": True, "fields": BROKER_VIEW,
        },
    ],
}  # fmt: skip


def snake(name: str) -> str:
    """`KRaftVersionFeature` -> `kraft_version_feature`."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def camel(name: str) -> str:
    """What `headrace.wire.schema` makes of a snake-case name."""
    return "".join(part.capitalize() for part in name.split("_"))


def load(path: Path) -> Json:
    """One definition, without its comments."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("//"))
    found: Json = json.loads(text)
    found.setdefault("fields", [])
    found["fields"] = found["fields"] + PROJECT_FIELDS.get(found["name"], [])
    return found


@dataclass
class Module:
    """One file of classes: `path` under the target, and the messages that it holds."""

    path: str
    question: str
    messages: list[Json] = field(default_factory=list)


class Writer:
    """Turns the messages of one module into Python text."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._done: set[str] = set()
        self._text: list[str] = []
        self._renamed = self._clashes()

    def _clashes(self) -> set[str]:
        """Struct names that request and response both use: each gets its side before it."""
        seen: list[set[str]] = [set(_structs(message)) for message in self._module.messages]
        return set.intersection(*seen) if len(seen) > 1 else set()

    def _class_name(self, message: Json, name: str) -> str:
        if name not in self._renamed:
            return name
        return ("Request" if message["type"] == "request" else "Response") + name

    def text(self) -> str:
        for message in self._module.messages:
            self._write_message(message)
        body = "\n".join(self._text)
        names = ["Message", *(["Struct"] if "(Struct)" in body else []), *(["field"] if "= field(" in body else [])]
        if "Records" in re.findall(r": (\w+)", body):
            names.insert(1, "Records")
        ids = [name for name in ("ZERO_UUID", "Uuid") if re.search(rf"\b{name}\b", body)]
        head = [
            f'"""{self._module.question}',
            "",
            HEADER.format(version=KAFKA_VERSION),
            '"""',
            "",
            "from __future__ import annotations",
            "",
        ]
        if ids:
            head.append(f"from headrace.core.ids import {', '.join(ids)}")
        head.append(f"from headrace.wire.schema import {', '.join(names)}")
        return "\n".join(head) + "\n" + body

    def _write_message(self, message: Json) -> None:
        structs = _structs(message)
        for name, fields in reversed(list(structs.items())):
            self._write_class(message, self._class_name(message, name), fields, of=message["name"])
        self._write_class(message, message["name"], message["fields"], of="")

    def _write_class(self, message: Json, name: str, fields: list[Json], *, of: str) -> None:
        if name in self._done:
            return
        structs = _structs(message)
        wanted = [base for item in fields if (base := item["type"].removeprefix("[]")) in structs]
        for base in wanted:
            self._write_class(message, self._class_name(message, base), structs[base], of=of or message["name"])
        self._done.add(name)
        if of:
            self._text += ["", "", f"class {name}(Struct):", f'    """Part of `{of}`."""', ""]
        else:
            self._text += [
                "",
                "",
                f"class {name}(Message, {_message_arguments(message)}):",
                f'    """{_says(message)}"""',
                "",
            ]
        self._text += [self._field_line(message, item) for item in fields]
        while self._text[-1] == "":
            self._text.pop()
        if self._module.messages[-1] is message and not of:
            self._text.append("")

    def _field_line(self, message: Json, item: Json) -> str:
        name = snake(item["name"])
        if keyword.iskeyword(name):
            raise ValueError(f"{message['name']}: {name} is a keyword")
        kind = item["type"]
        base = kind.removeprefix("[]")
        is_struct = base[0].isupper()
        shown = self._class_name(message, base) if is_struct else base
        python = shown if is_struct else PYTHON_TYPES[base]
        annotation = f"tuple[{python}, ...]" if kind.startswith("[]") else python
        default = _default(item, shown)
        if item.get("nullableVersions") or default == "None":
            annotation += " | None"
        return f'    {name}: {annotation} = field("{_facts(item, name, kind.replace(base, shown))}", default={default})'


def _structs(message: Json) -> dict[str, list[Json]]:
    """Every struct of a message by name: the common ones and those declared inside a field."""
    found: dict[str, list[Json]] = {item["name"]: item["fields"] for item in message.get("commonStructs", [])}

    def walk(fields: list[Json]) -> None:
        for item in fields:
            if item.get("fields"):
                base = item["type"].removeprefix("[]")
                if base in found:
                    raise ValueError(f"{message['name']}: {base} is declared twice")
                found[base] = item["fields"]
                walk(item["fields"])

    for fields in list(found.values()):
        walk(fields)
    walk(message["fields"])
    return found


def _message_arguments(message: Json) -> str:
    key = f"api_key={message['apiKey']}, " if "apiKey" in message else ""
    return f'kind="{message["type"]}", {key}versions="{message["validVersions"]}", flexible="{message["flexibleVersions"]}"'


def _says(message: Json) -> str:
    kind, key = message["type"], message.get("apiKey")
    what = {
        "request": f"Request of api key {key}.",
        "response": f"Response of api key {key}.",
        "header": "Stands before every message of its direction.",
        "metadata": f"Metadata record of type {key}.",
        "coordinator-key": f"Key of a coordinator's record of type {key}.",
        "coordinator-value": f"Value of a coordinator's record of type {key}.",
        "data": "Data on its own: no api key.",
    }[kind]
    return what


def _facts(item: Json, name: str, kind: str) -> str:
    tagged = item.get("taggedVersions")
    facts = [kind, str(item.get("versions") or tagged)]
    if nullable := item.get("nullableVersions"):
        facts.append(f"nullable={nullable}")
    if tagged:
        facts.append(f"tag={item['tag']}@{tagged}")
    if item.get("ignorable"):
        facts.append("ignorable")
    if item.get("mapKey"):
        facts.append("key")
    if item.get("flexibleVersions") == "none":
        facts.append("inflexible")
    if entity := item.get("entityType"):
        facts.append(f"entity={entity}")
    if camel(name) != item["name"]:
        facts.append(f"name={item['name']}")
    return " ".join(facts)


def _default(item: Json, shown: str) -> str:
    given = item.get("default")
    text = "" if given is None else str(given)
    kind = item["type"]
    if text.lower() == "null":
        return "None"
    if kind.startswith("[]"):
        return "()"
    if kind[0].isupper():
        return f"{shown}()"
    plain = {"string": repr(text).replace("'", '"'), "bytes": 'b""', "records": "None", "uuid": "ZERO_UUID"}
    if kind in plain:
        return plain[kind]
    if kind == "bool":
        return str(text.lower() == "true")
    return "0.0" if kind == "float64" else str(int(text or "0", 0))


FOLDERS = {
    "messages": "requests and responses of every api, one module an api",
    "metadata_records": "the records of the metadata log, and their frame",
    "raft_records": "what the quorum writes for itself: control records and quorum-state",
    "group_records": "the records of __consumer_offsets",
    "transaction_records": "the records of __transaction_state",
    "share_records": "the records of __share_group_state",
    "protocols": "headers, and what clients carry through a coordinator",
}
RAFT = {
    "KRaftVersionRecord", "LeaderChangeMessage", "QuorumStateData", "SnapshotFooterRecord", "SnapshotHeaderRecord",
    "VotersRecord", "ControlRecordTypeSchema", "EndTxnMarker",
}  # fmt: skip


def place(message: Json) -> tuple[str, str]:
    """The module of a message, and the first line of its docstring."""
    kind, name = message["type"], message["name"]
    if kind in ("request", "response"):
        api = name.removesuffix("Request").removesuffix("Response")
        return f"messages/{snake(api)}.py", f"The requests and responses of {api} (api key {message['apiKey']})."
    if kind == "metadata":
        folder = "metadata_records"
    elif kind.startswith("coordinator"):
        family = {
            "TransactionLog": "transaction_records",
            "ShareSnapshot": "share_records",
            "ShareUpdate": "share_records",
        }
        folder = family.get(name.removesuffix("Key").removesuffix("Value"), "group_records")
    else:
        folder = "raft_records" if name in RAFT else "protocols"
    return f"{folder}/{snake(name)}.py", f"The schema of {name}."


def modules(definitions: list[Json]) -> list[Module]:
    """All modules, with the request before the response."""
    found: dict[str, Module] = {}
    for message in sorted(definitions, key=lambda item: str(item["name"])):
        if message["validVersions"] == "none":
            continue
        path, question = place(message)
        found.setdefault(path, Module(path, question)).messages.append(message)
    return list(found.values())


def api_facts(definitions: list[Json]) -> str:
    """The table of all apis: what is advertised, and where a message may be sent."""
    requests = [item for item in definitions if item["type"] == "request" and item["validVersions"] != "none"]
    requests.sort(key=lambda item: int(item["apiKey"]))
    names = [(item["apiKey"], item["name"].removesuffix("Request")) for item in requests]
    lines = [
        '"""The APIs, their versions, and the listeners that serve them.', "", HEADER.format(version=KAFKA_VERSION), '"""',
        "", "from __future__ import annotations", "", "from enum import IntEnum", "from typing import Final", "", "",
        "class ApiKey(IntEnum):", '    """The number of every api, by its name."""', "",
        *(f"    {snake(name).upper()} = {key}" for key, name in names), "", "",
        "API_FACTS: Final = (",
        "    # key, name, first and last version, last stable version, flexible from, listeners",
    ]  # fmt: skip
    for message in requests:
        first, _, last = message["validVersions"].partition("-")
        highest = int(last or first)
        stable = highest - 1 if message.get("latestVersionUnstable") else highest
        flexible = "-1" if message["flexibleVersions"] == "none" else message["flexibleVersions"].rstrip("+")
        listeners = tuple(sorted(message.get("listeners", [])))
        name = message["name"].removesuffix("Request")
        lines.append(f'    ({message["apiKey"]}, "{name}", {first}, {highest}, {stable}, {flexible}, {listeners!r}),')
    return "\n".join([*lines, ")", ""])


def record_registry(definitions: list[Json], kind: str, folder: str, names: tuple[str, str]) -> str:
    """A table of record type -> module and class of one folder."""
    rows = [
        f'    {message["apiKey"]}: ("headrace.wire.{folder}.{snake(message["name"])}", "{message["name"]}"),'
        for message in sorted(definitions, key=lambda item: int(item.get("apiKey", -1)))
        if message["type"] == kind and place(message)[0].startswith(folder + "/")
    ]
    return "\n".join([f"{names[0]}: Final = {{", f"    # {names[1]}", *rows, "}", ""])


def registries(definitions: list[Json], folder: str) -> str:
    head = ['"""The class of each record type.', "", HEADER.format(version=KAFKA_VERSION), '"""', "",
            "from __future__ import annotations", "", "from typing import Final", ""]  # fmt: skip
    if folder == "metadata_records":
        parts = [record_registry(definitions, "metadata", folder, ("RECORD_TYPES", "record type: module, class"))]
    else:
        parts = [
            record_registry(
                definitions, "coordinator-key", folder, ("KEY_TYPES", "record type: module, class of the key")
            ),
            record_registry(
                definitions, "coordinator-value", folder, ("VALUE_TYPES", "record type: module, class of the value")
            ),
        ]
    return "\n".join([*head, *parts])


def main(arguments: list[str]) -> int:
    """Write everything below the target directory; returns the exit code."""
    if len(arguments) not in (1, 2):
        print(__doc__)
        return 2
    source = Path(arguments[0])
    target = Path(arguments[1]) if len(arguments) == 2 else Path(__file__).parents[1] / "src/headrace/wire"
    definitions = [load(path) for path in sorted(source.rglob("*.json"))]
    written: list[Path] = []
    for folder, what in FOLDERS.items():
        (target / folder).mkdir(parents=True, exist_ok=True)
        init = target / folder / "__init__.py"
        init.write_text(f'"""{what[0].upper() + what[1:]}."""\n')
        written.append(init)
    files = {module.path: Writer(module).text() for module in modules(definitions)}
    files["api_facts.py"] = api_facts(definitions)
    for folder in ("metadata_records", "group_records", "transaction_records", "share_records"):
        files[f"{folder}/registry.py"] = registries(definitions, folder)
    for name, text in files.items():
        path = target / name
        path.write_text(text)
        written.append(path)
    for command in (["ruff", "format", "-q"], ["ruff", "check", "-q", "--fix"]):
        subprocess.run([sys.executable, "-m", *command, *map(str, written)], check=True)
    print(f"{len(definitions)} definitions, {len(files)} modules in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
