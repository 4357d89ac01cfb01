"""The JSON files of `headrace reassign-partitions` and `headrace leader-election`, in Kafka's formats, read and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.client.admin_placement import Replica
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition

ANY_LOG_DIR = "any"
_LARGEST_BROKER_ID = 2**31 - 1


class PlannedReplicas(NamedTuple):
    """What a file wants: the replicas of partitions, in the file's order, and directories of some of them."""

    targets: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    directories: dict[Replica, str]


def parse_reassignment(text: str) -> PlannedReplicas:
    """What a reassignment file says, unchecked against itself. Raises OperatorError."""
    targets: list[tuple[TopicPartition, tuple[int, ...]]] = []
    directories: dict[Replica, str] = {}
    for row in _rows(text, "partitions"):
        where = _place(row)
        replicas = _ids(row.get("replicas"), where)
        paths = row.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise OperatorError(f'the "log_dirs" of {name_of(where)} must be a list of texts')
        if len(replicas) != len(paths):
            raise OperatorError(
                f"Size of replicas list {list(replicas)} is different from size of log dirs list "
                f"[{', '.join(paths)}] for partition {name_of(where)}"
            )
        targets.append((where, replicas))
        for broker_id, path in zip(replicas, paths, strict=True):
            if path != ANY_LOG_DIR:
                directories[Replica(where.topic, where.partition, broker_id)] = path
    return PlannedReplicas(tuple(targets), directories)


def check_executable(plan: PlannedReplicas) -> dict[TopicPartition, tuple[int, ...]]:
    """The targets of a plan that can be begun. Raises OperatorError: it is empty or names something twice."""
    if not plan.targets:
        raise OperatorError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.targets):
        raise OperatorError("Partition replica list cannot be empty")
    repeated = duplicates(where for where, _ in plan.targets)
    if repeated:
        raise OperatorError(
            f"Partition reassignment contains duplicate topic partitions: {','.join(map(name_of, repeated))}"
        )
    twice = [(where, duplicates(replicas)) for where, replicas in plan.targets]
    said = [f"{name_of(where)} contains multiple entries for {_comma(ids)}" for where, ids in twice if ids]
    if said:
        raise OperatorError(f"Partition replica lists may not contain duplicate entries: {'. '.join(said)}")
    return dict(plan.targets)


def format_reassignment(
    targets: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str] | None = None
) -> str:
    """A reassignment file, in one line as Kafka's tool prints it; a replica whose directory is not given may be in any."""
    known = directories or {}
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": list(replicas),
            "log_dirs": [known.get(Replica(*where, each), ANY_LOG_DIR) for each in replicas],
        }
        for where, replicas in sorted(targets.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"), ensure_ascii=False)


def parse_topics(text: str) -> list[str]:
    """The topics of a `--topics-to-move-json-file`. Raises OperatorError."""
    names = [row.get("topic") for row in _rows(text, "topics")]
    if not all(isinstance(name, str) for name in names):
        raise OperatorError('every entry of "topics" must have a "topic" that is a text')
    found = [str(name) for name in names]
    repeated = duplicates(found)
    if repeated:
        raise OperatorError(f"List of topics to reassign contains duplicate entries: [{', '.join(repeated)}]")
    return found


def parse_election(text: str) -> list[TopicPartition]:
    """The partitions of a `--path-to-json-file`. Raises OperatorError."""
    found = [
        _place(row) for row in _rows(text, "partitions", missing='Replica election data is missing "partitions" field')
    ]
    repeated = duplicates(found)
    if repeated:
        raise OperatorError(
            f"Replica election data contains duplicate partitions: [{', '.join(map(name_of, repeated))}]"
        )
    return found


def name_of(where: TopicPartition) -> str:
    """Kafka's way of writing a partition."""
    return f"{where.topic}-{where.partition}"


def duplicates(values: Iterable[Any]) -> list[Any]:
    """What is there more than once, in the order of its first time."""
    return [value for value, count in Counter(values).items() if count > 1]


def _rows(text: str, field: str, *, missing: str | None = None) -> list[dict[str, Any]]:
    """The objects in a field of the document; none without the field, unless that is said to be an error."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise OperatorError("The input string is not a valid JSON") from None
    if not isinstance(document, dict):
        raise OperatorError(f'the file must hold a JSON object with "{field}"')
    version = document.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise OperatorError(f"Not supported version field value {version}")
    if field not in document and missing is not None:
        raise OperatorError(missing)
    rows = document.get(field, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise OperatorError(f'"{field}" must be a list of JSON objects')
    return rows


def _place(row: dict[str, Any]) -> TopicPartition:
    topic, partition = row.get("topic"), row.get("partition")
    if not isinstance(topic, str) or not _is_id(partition):
        raise OperatorError(f'each partition needs a "topic" (a text) and a "partition" (a number): {json.dumps(row)}')
    return TopicPartition(topic, int(str(partition)))


def _ids(value: object, where: TopicPartition) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(_is_id(each) for each in value):
        raise OperatorError(f'the "replicas" of {name_of(where)} must be a list of broker ids')
    return tuple(value)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_BROKER_ID


def _comma(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
