"""A group's offsets, members and state, as they are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from headrace.cli.output import is_terminal, show_json, show_table, visible
from headrace.client import groups, offsets
from headrace.client.blocking import BlockingClient
from headrace.client.groups import GroupDescription, GroupMember
from headrace.client.offsets import CommittedOffset, ListedOffset, by_topic
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe_groups(
    client: BlockingClient, group_ids: Sequence[str], what: str, *, is_verbose: bool, as_json: bool
) -> int:
    """Describe `offsets`, `members` or `state` of groups; exit code 1 when one does not exist or may not be seen."""
    code = 0
    found: list[dict[str, Any]] = []
    for group_id in group_ids:
        try:
            group = client.run(groups.describe_group, group_id)
            rows = {"offsets": _offset_rows, "members": _member_rows, "state": _state_rows}[what](client, group)
        except PeerError as error:
            print(f"\nError: Executing consumer group command failed due to {visible(str(error))}", file=sys.stderr)
            code = 1
            continue
        if as_json:
            found.append({"group": group_id, "state": group.state, what: rows})
            continue
        show = what == "members" or _tell_state(group)
        if show and (rows or what == "members"):
            _print(what, rows, is_verbose=is_verbose)
        if what == "members":
            _tell_state(group)
    if as_json:
        show_json(found)
    return code


def _tell_state(group: GroupDescription) -> bool:
    """Say on standard error that a group has no members or is rebalancing; False for a dead one."""
    sys.stdout.flush()
    if group.state == "Empty":
        print(f"\nConsumer group '{visible(group.group_id)}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{visible(group.group_id)}' is rebalancing.", file=sys.stderr)
    return group.state != "Dead"


def _offset_rows(client: BlockingClient, group: GroupDescription) -> list[dict[str, Any]]:
    """One row a partition that a member has or that was committed, and one a member without partitions."""
    committed = client.run(offsets.fetch_committed, group.group_id)
    assigned = [where for member in group.members for where in member.assignment]
    wanted = list(dict.fromkeys([*assigned, *committed]))
    ends = client.run(offsets.list_offsets, dict.fromkeys(wanted, offsets.LATEST)) if wanted else {}
    rows: list[dict[str, Any]] = []
    for member in sorted(group.members, key=lambda each: -len(each.assignment)):
        own = sorted(member.assignment, key=lambda where: (where.topic, where.partition))
        rows += [_offset_row(group, member, where, committed, ends) for where in own] or [
            _offset_row(group, member, None, committed, ends)
        ]
    left = sorted(set(committed) - set(assigned))
    return rows + [_offset_row(group, None, where, committed, ends) for where in left]


def _offset_row(
    group: GroupDescription,
    member: GroupMember | None,
    where: TopicPartition | None,
    committed: dict[TopicPartition, CommittedOffset | PeerError],
    ends: dict[TopicPartition, ListedOffset | PeerError],
) -> dict[str, Any]:
    known = committed.get(where) if where is not None else None
    end = ends.get(where) if where is not None else None
    current = known.offset if isinstance(known, CommittedOffset) else None
    log_end = end.offset if isinstance(end, ListedOffset) else None
    epoch = known.leader_epoch if isinstance(known, CommittedOffset) and known.leader_epoch >= 0 else None
    return {
        "group": group.group_id,
        "topic": where.topic if where else None,
        "partition": where.partition if where else None,
        "leaderEpoch": epoch,
        "currentOffset": current,
        "logEndOffset": log_end,
        "lag": log_end - current if current is not None and log_end is not None else None,
        "consumerId": member.member_id if member else None,
        "host": member.host if member else None,
        "clientId": member.client_id if member else None,
    }


def _member_rows(client: BlockingClient, group: GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "consumerId": member.member_id,
            "groupInstanceId": member.instance_id,
            "host": member.host,
            "clientId": member.client_id,
            "partitions": len(member.assignment),
            "currentEpoch": member.member_epoch,
            "currentAssignment": _partitions(member.assignment),
            "targetEpoch": group.target_epoch if member.target is not None else None,
            "targetAssignment": None if member.target is None else _partitions(member.target),
        }
        for member in group.members
    ]


def _partitions(parts: Sequence[TopicPartition]) -> str:
    return ";".join(
        f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in sorted(by_topic(parts).items())
    )


def _state_rows(client: BlockingClient, group: GroupDescription) -> list[dict[str, Any]]:
    node_id, address = group.coordinator
    return [
        {
            "group": group.group_id,
            "coordinator": f"{address}  ({node_id})",
            "assignmentStrategy": group.assignor or None,
            "state": group.state,
            "groupEpoch": group.group_epoch,
            "targetAssignmentEpoch": group.target_epoch,
            "members": len(group.members),
        }
    ]


_Column = tuple[str, str, int]
COLUMNS: dict[str, list[_Column]] = {
    "offsets": [
        ("GROUP", "group", -15),
        ("TOPIC", "topic", -15),
        ("PARTITION", "partition", 10),
        ("CURRENT-OFFSET", "currentOffset", 15),
        ("LOG-END-OFFSET", "logEndOffset", 15),
        ("LAG", "lag", 15),
        ("CONSUMER-ID", "consumerId", -15),
        ("HOST", "host", -15),
        ("CLIENT-ID", "clientId", 0),
    ],
    "members": [
        ("GROUP", "group", -15),
        ("CONSUMER-ID", "consumerId", -15),
        ("HOST", "host", -15),
        ("CLIENT-ID", "clientId", -15),
        ("#PARTITIONS", "partitions", 15),
    ],
    "state": [
        ("GROUP", "group", -15),
        ("COORDINATOR (ID)", "coordinator", -25),
        ("ASSIGNMENT-STRATEGY", "assignmentStrategy", 20),
        ("STATE", "state", 20),
        ("#MEMBERS", "members", 0),
    ],
}
"""(title, field, width) of Kafka's columns: a negative width grows with its values, 0 is the last one without blanks behind."""
_INSTANCE: _Column = ("GROUP-INSTANCE-ID", "groupInstanceId", -17)
_MEMBERS_VERBOSE: list[_Column] = [
    ("CURRENT-EPOCH", "currentEpoch", 15),
    ("CURRENT-ASSIGNMENT", "currentAssignment", -20),
    ("TARGET-EPOCH", "targetEpoch", 15),
    ("TARGET-ASSIGNMENT", "targetAssignment", -20),
]
_STATE_VERBOSE: list[_Column] = [
    ("GROUP-EPOCH", "groupEpoch", 15),
    ("TARGET-ASSIGNMENT-EPOCH", "targetAssignmentEpoch", 25),
]


def columns_of(what: str, rows: Sequence[dict[str, Any]], *, is_verbose: bool) -> list[_Column]:
    """The columns to show."""
    columns = list(COLUMNS[what])
    if what == "offsets" and is_verbose:
        columns.insert(3, ("LEADER-EPOCH", "leaderEpoch", 15))
    if what == "members":
        if any(row["groupInstanceId"] for row in rows):
            columns.insert(2, _INSTANCE)
        if is_verbose:
            columns += _MEMBERS_VERBOSE
    if what == "state" and is_verbose:
        columns[4:4] = _STATE_VERBOSE
    return columns


def plain_lines(columns: Sequence[_Column], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Kafka's lines, headings first."""
    cells = [[title for title, _, _ in columns], *([_cell(row[name]) for _, name, _ in columns] for row in rows)]
    widths = [
        max([-width, *(len(line[index]) for line in cells[1:])]) if width < 0 else width
        for index, (_, _, width) in enumerate(columns)
    ]
    return [" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]


def _cell(value: Any) -> str:
    return MISSING if value is None or value == "" else str(value)


def _print(what: str, rows: Sequence[dict[str, Any]], *, is_verbose: bool) -> None:
    columns = columns_of(what, rows, is_verbose=is_verbose)
    if is_terminal():
        numbers = {"partition", "leaderEpoch", "currentOffset", "logEndOffset", "lag", "partitions", "members"}
        right = [index for index, (_, name, _) in enumerate(columns) if name in numbers]
        show_table(
            "",
            [title.lower() for title, _, _ in columns],
            [[_cell(row[name]) for _, name, _ in columns] for row in rows],
            right=right,
        )
        return
    tail = " " if what == "members" and not is_verbose else ""
    print("\n" + "\n".join(line + tail for line in plain_lines(columns, rows)))
