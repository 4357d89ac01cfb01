"""The quorum as it is shown: Kafka's lines for scripts, a table for a person, values for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.cli.clock import wall_ms
from headrace.cli.output import show_table
from headrace.client.admin_quorum import QuorumInfo, ReplicaState
from headrace.core.errors import OperatorError
from headrace.core.ids import ZERO_UUID

COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")


def status_lines(info: QuorumInfo, cluster_id: str) -> list[str]:
    """The lines of `describe --status` (S4-54). Raises OperatorError: nobody leads."""
    lag, lag_ms = follower_lag(info)
    return [
        f"ClusterId:              {cluster_id}",
        f"LeaderId:               {_leader(info).replica_id}",
        f"LeaderEpoch:            {info.leader_epoch}",
        f"HighWatermark:          {info.high_watermark}",
        f"MaxFollowerLag:         {lag}",
        f"MaxFollowerLagTimeMs:   {lag_ms}",
        f"CurrentVoters:          {_nodes(info, info.voters)}",
        f"CurrentObservers:       {_nodes(info, info.observers)}",
    ]


def follower_lag(info: QuorumInfo) -> tuple[int, int]:
    """How many records and how many ms the slowest voter is behind the leader; -1 ms when that is not known."""
    leader = _leader(info)
    slowest = min(info.voters, key=_end)
    lag = _end(leader) - _end(slowest)
    if slowest is leader:
        return lag, 0
    if leader.last_caught_up_timestamp is None or slowest.last_caught_up_timestamp is None:
        return lag, -1
    return lag, leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp


def _leader(info: QuorumInfo) -> ReplicaState:
    leader = info.leader
    if leader is None:
        raise OperatorError("The quorum has no leader at the moment; `headrace quorum explain` tells why.")
    return leader


def _end(replica: ReplicaState) -> int:
    return -1 if replica.log_end_offset is None else replica.log_end_offset


def _nodes(info: QuorumInfo, replicas: Iterable[ReplicaState]) -> str:
    shown = []
    for each in replicas:
        directory = "" if each.directory_id == ZERO_UUID else f', "directoryId": "{each.directory_id}"'
        end_points = ", ".join(f'"{point}"' for point in info.end_points.get(each.replica_id, ()))
        known = f', "endpoints": [{end_points}]' if end_points else ""
        shown.append(f'{{"id": {each.replica_id}{directory}{known}}}')
    return f"[{', '.join(shown)}]"


def replication_rows(info: QuorumInfo, *, is_human: bool, now_ms: int) -> list[tuple[str, ...]]:
    """The cells of `describe --replication`: the leader, the other voters, the observers."""
    leader = _leader(info)
    rows: list[tuple[str, ...]] = []
    for each, status in _with_status(info):
        fetched = _moment(each.last_fetch_timestamp, "last fetch", is_human=is_human, now_ms=now_ms)
        caught_up = _moment(each.last_caught_up_timestamp, "last caught up", is_human=is_human, now_ms=now_ms)
        end, lag = str(_end(each)), str(_end(leader) - _end(each))
        rows.append((str(each.replica_id), str(each.directory_id), end, lag, fetched, caught_up, status))
    return rows


def _with_status(info: QuorumInfo) -> list[tuple[ReplicaState, str]]:
    leader = _leader(info)
    followers = [(each, "Follower") for each in info.voters if each is not leader]
    return [(leader, "Leader"), *followers, *((each, "Observer") for each in info.observers)]


def _moment(at_ms: int | None, what: str, *, is_human: bool, now_ms: int) -> str:
    if at_ms is None:
        return "-1"
    if not is_human:
        return str(at_ms)
    if not 0 < at_ms <= now_ms:
        raise OperatorError(
            f"Error while computing relative time, possible drift in system clock. Current timestamp is {now_ms}, "
            f"{what} timestamp is {at_ms}"
        )
    return f"{now_ms - at_ms} ms ago"


def replication_lines(info: QuorumInfo, *, is_human: bool, is_table: bool) -> None:
    """Print `describe --replication`: a table on a terminal, Kafka's columns in a pipe."""
    rows = replication_rows(info, is_human=is_human, now_ms=wall_ms())
    if is_table:
        show_table("", COLUMNS, rows, right=(0, 2, 3))
        return
    widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
    for row in [COLUMNS, *rows]:
        print("".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)))


def show_status(info: QuorumInfo, cluster_id: str) -> dict[str, Any]:
    """`describe --status` for JSON."""
    lag, lag_ms = follower_lag(info)
    return {
        "clusterId": cluster_id,
        "leaderId": info.leader_id,
        "leaderEpoch": info.leader_epoch,
        "highWatermark": info.high_watermark,
        "maxFollowerLag": lag,
        "maxFollowerLagTimeMs": lag_ms,
        "currentVoters": [_json(info, each) for each in info.voters],
        "currentObservers": [_json(info, each) for each in info.observers],
        "targetVoters": sorted(info.target_voters),
    }


def show_replication(info: QuorumInfo) -> list[dict[str, Any]]:
    """`describe --replication` for JSON; what the leader does not know is null."""
    leader = _leader(info)
    return [
        {
            "nodeId": each.replica_id,
            "directoryId": str(each.directory_id),
            "logEndOffset": each.log_end_offset,
            "lag": _end(leader) - _end(each),
            "lastFetchTimestamp": each.last_fetch_timestamp,
            "lastCaughtUpTimestamp": each.last_caught_up_timestamp,
            "status": status,
        }
        for each, status in _with_status(info)
    ]


def _json(info: QuorumInfo, each: ReplicaState) -> dict[str, Any]:
    return {
        "id": each.replica_id,
        "directoryId": None if each.directory_id == ZERO_UUID else str(each.directory_id),
        "endpoints": [str(point) for point in info.end_points.get(each.replica_id, ())],
    }
