"""What does `headrace quorum` show of a quorum, and which controller does it add?"""

from __future__ import annotations

import json

import pytest

from headrace.cli.main import _guarded
from headrace.cli.quorum_change import controller_end_points, controller_id, metadata_directory
from headrace.cli.quorum_view import (
    follower_lag,
    replication_lines,
    replication_rows,
    show_replication,
    show_status,
    status_lines,
)
from headrace.client.admin_quorum import QuorumInfo, ReplicaState, VoterEndPoint
from headrace.core.errors import OperatorError
from headrace.core.ids import ZERO_UUID, Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def replica(number: int, end: int | None, *, directory: Uuid = ZERO_UUID, caught_up: int | None = None) -> ReplicaState:
    return ReplicaState(
        replica_id=number,
        directory_id=directory,
        log_end_offset=end,
        last_fetch_timestamp=caught_up,
        last_caught_up_timestamp=caught_up,
    )


INFO = QuorumInfo(
    leader_id=1,
    leader_epoch=5,
    high_watermark=97,
    voters=(
        replica(2, 97, directory=B, caught_up=4_000),
        replica(1, 100, directory=A, caught_up=5_000),
        replica(3, None),
    ),
    observers=(replica(7, 90, caught_up=1_000),),
    target_voters=frozenset({1, 2, 3}),
    end_points={
        1: (VoterEndPoint(name="CONTROLLER", host="::1", port=9093), VoterEndPoint(name="X", host="h", port=1)),
        2: (VoterEndPoint(name="CONTROLLER", host="two", port=9093),),
    },
)


def test_status_is_kafkas() -> None:
    """S4-54, B-T06."""
    assert status_lines(INFO, "CLUSTER") == [
        "ClusterId:              CLUSTER",
        "LeaderId:               1",
        "LeaderEpoch:            5",
        "HighWatermark:          97",
        "MaxFollowerLag:         101",
        "MaxFollowerLagTimeMs:   -1",
        f'CurrentVoters:          [{{"id": 2, "directoryId": "{B}", "endpoints": ["CONTROLLER://two:9093"]}}, '
        f'{{"id": 1, "directoryId": "{A}", "endpoints": ["CONTROLLER://[::1]:9093", "X://h:1"]}}, '
        '{"id": 3}]',
        'CurrentObservers:       [{"id": 7}]',
    ]


def test_lag_is_that_of_the_slowest_voter() -> None:
    """S4-54: in records, and in ms between the times at which leader and slowest voter were last caught up."""
    voters = (replica(1, 100, caught_up=5_000), replica(2, 90, caught_up=4_200))
    info = QuorumInfo(
        leader_id=1, leader_epoch=1, high_watermark=90, voters=voters, observers=(),
        target_voters=frozenset({1, 2}), end_points={},
    )  # fmt: skip
    assert follower_lag(info) == (10, 800)


def test_replication_rows_begin_with_the_leader() -> None:
    """S4-54: leader, followers, observers; -1 for what the leader does not know."""
    zero = str(ZERO_UUID)
    assert replication_rows(INFO, is_human=False, now_ms=6_000) == [
        ("1", str(A), "100", "0", "5000", "5000", "Leader"),
        ("2", str(B), "97", "3", "4000", "4000", "Follower"),
        ("3", zero, "-1", "101", "-1", "-1", "Follower"),
        ("7", zero, "90", "10", "1000", "1000", "Observer"),
    ]
    assert replication_rows(INFO, is_human=True, now_ms=6_000)[1][4:] == ("2000 ms ago", "2000 ms ago", "Follower")


def test_piped_replication_has_kafkas_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """S4-54: as wide as the widest cell, a tab behind each."""
    replication_lines(INFO, is_human=False, is_table=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t"
    )
    assert lines[4].startswith("7     \tAAAAAAAAAAAAAAAAAAAAAA\t90          \t10 \t1000")


def test_a_time_of_the_future_is_told() -> None:
    """S4-54: the clocks differ."""
    with pytest.raises(OperatorError, match="possible drift in system clock"):
        replication_rows(INFO, is_human=True, now_ms=4_500)


def test_without_a_leader_nothing_can_be_described() -> None:
    """S4-43: -1 on the wire; the operator is shown the way on."""
    nobody = QuorumInfo(
        leader_id=None, leader_epoch=5, high_watermark=-1, voters=INFO.voters, observers=(),
        target_voters=frozenset(), end_points={},
    )  # fmt: skip
    with pytest.raises(OperatorError, match="headrace quorum explain"):
        status_lines(nobody, "C")


def test_json_has_null_for_what_is_not_known() -> None:
    """S4-53."""
    assert show_replication(INFO)[2] == {
        "nodeId": 3, "directoryId": str(ZERO_UUID), "logEndOffset": None, "lag": 101,
        "lastFetchTimestamp": None, "lastCaughtUpTimestamp": None, "status": "Follower",
    }  # fmt: skip
    assert show_status(INFO, "C")["targetVoters"] == [1, 2, 3]
    assert json.dumps(show_status(INFO, "C"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["describe"], "One of --status or --replication must be specified with describe sub-command"),
        (["describe", "--status", "--replication"], "Only one of --status or --replication should be specified with describe sub-command"),
        (["describe", "--status", "--human-readable"], "The option --human-readable is only supported along with --replication"),
        (["add-controller"], "You must supply the configuration file of the controller you are adding when using add-controller."),
        (["remove-controller", "-i", "-1", "-d", str(A)], "Invalid negative --controller-id: -1"),
    ],
)  # fmt: skip
def test_refusals_are_kafkas(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """B-T06, B-T07: before anything is asked of a cluster."""
    assert _guarded(["quorum", "--bootstrap-server", "127.0.0.1:1", *arguments]) == 1
    assert capsys.readouterr().err.strip() == line


def test_a_dry_run_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """B-T07."""
    asked = ["quorum", "--bootstrap-server", "127.0.0.1:1", "remove-controller", "-i", "7", "-d", str(A), "--dry-run"]
    assert _guarded(asked) == 0
    assert capsys.readouterr().out == f"DRY RUN of removing  KRaft controller 7 with directory id {A}\n"


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, "node.id not found"),
        ({"node.id": "x"}, "is no number"),
        ({"node.id": "-1"}, "node.id was negative"),
        ({"node.id": "1", "process.roles": "broker"}, "process.roles did not contain 'controller'"),
    ],
)
def test_a_file_that_is_no_controllers_is_refused(properties: dict[str, str], line: str) -> None:
    """B-T07."""
    with pytest.raises(OperatorError, match=line):
        controller_id(properties)


def test_the_metadata_directory_is_the_first_that_is_named() -> None:
    """B-T07."""
    assert metadata_directory({"log.dirs": "/a, /b"}) == "/a"
    assert metadata_directory({"log.dirs": "/a", "metadata.log.dir": "/m"}) == "/m"
    with pytest.raises(OperatorError, match=r"Neither metadata.log.dir nor log.dirs were found"):
        metadata_directory({})


def test_end_points_of_a_controller_are_the_advertised_ones() -> None:
    """B-T07: advertised listeners win over listeners; no host is localhost."""
    properties = {
        "controller.listener.names": "CONTROLLER,second",
        "listeners": "CONTROLLER://:9093,SECOND://[::1]:9095,PLAINTEXT://:9092",
        "advertised.listeners": "CONTROLLER://me:9193",
    }
    assert controller_end_points(properties) == (
        VoterEndPoint(name="CONTROLLER", host="me", port=9193), VoterEndPoint(name="SECOND", host="::1", port=9095),
    )  # fmt: skip
    assert controller_end_points({"controller.listener.names": "C", "listeners": "C://:1"})[0].host == "localhost"
    with pytest.raises(OperatorError, match=r"controller.listener.names was not found"):
        controller_end_points({})
    with pytest.raises(OperatorError, match="Cannot find information about controller listener name: C"):
        controller_end_points({"controller.listener.names": "C"})
    with pytest.raises(OperatorError, match="is no listener"):
        controller_end_points({"controller.listener.names": "C", "listeners": "C:1"})
