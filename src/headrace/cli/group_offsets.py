"""The offsets to which a group is set back, and those that are deleted."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.cli.output import is_terminal, show_json, show_table, visible
from headrace.cli.text_files import read_text
from headrace.client import groups, offsets
from headrace.client.blocking import BlockingClient
from headrace.client.offsets import CommittedOffset
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?(?:T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:\.\d{0,9})?)S)?)?",
    re.I,
)
Offsets = dict[TopicPartition, int]


@value_class
class ResetPlan:
    """What `--reset-offsets` was told. `scenario` names the option that says where to, `argument` is its value."""

    group_ids: tuple[str, ...]
    topics: tuple[str, ...]
    scenario: str
    argument: Any
    is_executed: bool
    is_exported: bool
    is_single: bool


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970 of `YYYY-MM-DDThh:mm:ss.sss`, with a zone or in UTC. Raises OperatorError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OperatorError(f"--to-datetime {text}: expected YYYY-MM-DDThh:mm:ss.sss") from None
    if "T" not in text:
        raise OperatorError(f"--to-datetime {text}: expected YYYY-MM-DDThh:mm:ss.sss")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration `PnDTnHnMnS`. Raises OperatorError."""
    match = _DURATION.fullmatch(text)
    if match is None or text.upper().endswith(("P", "T")):
        raise OperatorError(f"--by-duration {text}: expected PnDTnHnMnS")
    total = timedelta(
        days=int(match["days"] or 0),
        hours=int(match["hours"] or 0),
        minutes=int(match["minutes"] or 0),
        seconds=float(match["seconds"] or 0),
    )
    return (-1 if match["sign"] == "-" else 1) * (total // timedelta(milliseconds=1))


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """Topic and partitions of `topic` (None: all) or `topic:0,1`. Raises OperatorError."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(each) for each in numbers.split(",")]
    except ValueError:
        raise OperatorError(f"Invalid partition '{numbers}' specified in topic arg '{text}'") from None


def parse_csv(text: str, group_id: str | None) -> dict[str, Offsets]:
    """Offsets by group of `topic,partition,offset` lines (for `group_id`) or lines with the group in front. Raises OperatorError."""
    found: dict[str, Offsets] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row:
            continue
        named = row if len(row) == 4 else [group_id or "", *row]
        try:
            group, topic, partition, offset = named
            found.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise OperatorError(
                f"line {number} of the CSV file: expected topic,partition,offset or group,topic,partition,offset"
            ) from None
        if not group:
            raise OperatorError(
                f"line {number} of the CSV file: several groups are named, so each line needs its group in front"
            )
    return found


def reset_offsets(client: BlockingClient, plan: ResetPlan, *, as_json: bool) -> int:
    """Work out the new offsets of each group, and commit them with `--execute`."""
    code = 0
    prepared: dict[str, Offsets] = {}
    for group_id in plan.group_ids:
        state = _state(client, group_id)
        if state not in ("Empty", "Dead"):
            print(
                f"\nError: Assignments can only be reset if the group '{visible(group_id)}' is inactive, but the current state is {state}.",
                file=sys.stderr,
            )
            code = 1
            continue
        new = _prepare(client, group_id, plan)
        if plan.is_executed and new:
            committed = {where: CommittedOffset(offset=offset) for where, offset in new.items()}
            for error in client.run(offsets.commit_offsets, group_id, committed).values():
                if error is not None:
                    raise error
        prepared[group_id] = new
    _show(prepared, plan, as_json=as_json)
    return code


def _state(client: BlockingClient, group_id: str) -> str:
    try:
        return client.run(groups.describe_group, group_id).state
    except PeerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def _prepare(client: BlockingClient, group_id: str, plan: ResetPlan) -> Offsets:
    if plan.scenario == "from_file":
        wanted = parse_csv(read_text(plan.argument), group_id if plan.is_single else None).get(group_id)
        if wanted is None:
            print(f"\nError: No reset plan for group {group_id} found", file=sys.stderr)
            return {}
        return _within(client, wanted)
    current = {
        where: known.offset
        for where, known in client.run(offsets.fetch_committed, group_id).items()
        if isinstance(known, CommittedOffset)
    }
    parts = _named(client, plan.topics) if plan.topics else sorted(current)
    match plan.scenario:
        case "to_offset":
            return _within(client, dict.fromkeys(parts, plan.argument))
        case "to_earliest" | "to_latest":
            return _listed(client, parts, offsets.EARLIEST if plan.scenario == "to_earliest" else offsets.LATEST)
        case "shift_by":
            return _within(client, _shifted(parts, current, plan.argument))
        case "to_current":
            known = {where: current[where] for where in parts if where in current}
            return known | _listed(client, [where for where in parts if where not in current], offsets.LATEST)
        case "to_datetime":
            return _at(client, parts, parse_datetime(plan.argument))
        case _:
            return _at(client, parts, time.time_ns() // 1_000_000 - parse_duration(plan.argument))


def _shifted(parts: Sequence[TopicPartition], current: Mapping[TopicPartition, int], by: int) -> Offsets:
    for where in parts:
        if where not in current:
            raise OperatorError(
                f"Cannot shift offset for partition {where.topic}-{where.partition} since there is no current committed offset"
            )
    return {where: current[where] + by for where in parts}


def _named(client: BlockingClient, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition that is named. Raises OperatorError for a topic that does not exist."""
    named = [parse_topic(text) for text in topics]
    views = client.topics([topic for topic, _ in named])
    found: dict[TopicPartition, None] = {}
    for topic, numbers in named:
        if topic not in views:
            raise OperatorError(f"Topic '{topic}' does not exist")
        every = [part.partition for part in views[topic].partitions]
        found |= {TopicPartition(topic, number): None for number in (every if numbers is None else numbers)}
    return sorted(found)


def _listed(client: BlockingClient, parts: Iterable[TopicPartition], timestamp: int) -> Offsets:
    wanted = dict.fromkeys(parts, timestamp)
    return {where: found.offset for where, found in client.list_offsets(wanted).items()} if wanted else {}


def _at(client: BlockingClient, parts: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
    """The first offset of a time, or the end of a partition that has no record that young."""
    found = _listed(client, parts, timestamp_ms)
    missing = [where for where, offset in found.items() if offset < 0]
    for where in missing:
        print(
            f"\nWarn: Partition {where.partition} from topic {where.topic} is empty. Falling back to latest known offset.",
            file=sys.stderr,
        )
    return found | _listed(client, missing, offsets.LATEST)


def _within(client: BlockingClient, wanted: Offsets) -> Offsets:
    """Offsets moved into what the logs hold."""
    first, end = _listed(client, wanted, offsets.EARLIEST), _listed(client, wanted, offsets.LATEST)
    result: Offsets = {}
    for where, offset in wanted.items():
        result[where] = min(max(offset, first[where]), end[where])
        if result[where] != offset:
            word = "higher than latest" if offset > end[where] else "lower than earliest"
            print(
                f"WARN New offset ({offset}) is {word} offset for topic partition {where.topic}-{where.partition}. "
                f"Value will be set to {result[where]}",
                file=sys.stderr,
            )
    return result


def _show(prepared: dict[str, Offsets], plan: ResetPlan, *, as_json: bool) -> None:
    rows = [
        (group_id, where.topic, where.partition, new[where])
        for group_id, new in prepared.items()
        for where in sorted(new)
    ]
    if as_json:
        show_json(
            [
                {"group": group, "topic": topic, "partition": number, "newOffset": offset}
                for group, topic, number, offset in rows
            ]
        )
    elif plan.is_exported:
        print("".join(f"{','.join(map(str, row[1:] if plan.is_single else row))}\n" for row in rows))
    elif is_terminal():
        show_table("", ("group", "topic", "partition", "new offset"), rows, right=(2, 3))
    else:
        widths = [max([15, *(len(str(row[index])) for row in rows)]) for index in (0, 1)]
        lines = [
            f"{group:<{widths[0]}} {topic:<{widths[1]}} {number:<10} {offset}"
            for group, topic, number, offset in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows]
        ]
        print("\n" + "\n".join(lines))


def delete_offsets(client: BlockingClient, group_id: str, topics: Sequence[str], *, as_json: bool) -> int:
    """Delete what a group has committed for topics or partitions of them."""
    results: dict[TopicPartition, str | None] = {}
    parts: list[TopicPartition] = []
    named = [parse_topic(text) for text in topics]
    views = (
        client.topics([topic for topic, numbers in named if numbers is None])
        if any(numbers is None for _, numbers in named)
        else {}
    )
    for topic, numbers in named:
        if numbers is None and topic not in views:
            results[TopicPartition(topic, -1)] = "This server does not host this topic-partition."
        else:
            every = [part.partition for part in views[topic].partitions] if numbers is None else numbers
            parts += [TopicPartition(topic, number) for number in every]
    try:
        deleted = client.run(offsets.delete_committed, group_id, parts) if parts else {}
    except PeerError as error:
        raise OperatorError(f"Error: {_whole(group_id, error)}") from None
    results |= {where: None if error is None else str(error) for where, error in deleted.items()}
    _show_deleted(group_id, results, as_json=as_json)
    return 1 if any(results.values()) else 0


def _whole(group_id: str, error: PeerError) -> str:
    match error.code:
        case ErrorCode.INVALID_GROUP_ID:
            return f"'{group_id}' is not valid."
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return f"'{group_id}' does not exist."
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return f"Access to '{group_id}' is not authorized."
        case ErrorCode.NON_EMPTY_GROUP:
            return f"Deleting offsets of a consumer group '{group_id}' is forbidden if the group is not empty."
        case _:
            return f"Encountered an unknown error: {error}"


def _show_deleted(group_id: str, results: dict[TopicPartition, str | None], *, as_json: bool) -> None:
    shown = sorted(results)
    if as_json:
        show_json([{"topic": where.topic, "partition": where.partition, "error": results[where]} for where in shown])
        return
    if any(results.values()):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    width = max([15, *(len(where.topic) for where in shown)])
    rows = [
        (where.topic, "-" if where.partition < 0 else str(where.partition), _status(results[where])) for where in shown
    ]
    if is_terminal():
        show_table("", ("topic", "partition", "status"), rows, right=(1,))
        return
    print()
    for topic, partition, status in [("TOPIC", "PARTITION", "STATUS"), *rows]:
        print(f"{topic:<{width}} {partition:<10} {status:<15}")


def _status(error: str | None) -> str:
    return "Successful" if error is None else f"Error: {error}"
