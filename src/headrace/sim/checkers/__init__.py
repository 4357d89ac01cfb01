"""The contract as checks: raft (R, RL), the controller (C, CL) and the records of clients (PR, P) and their groups (G), after each step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.sim.checkers.client_history import ClientHistory
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.sim.checkers.copied_records import CopiedRecords
from headrace.sim.checkers.decision_rules import FencedIsOut, IsrChanges, OldEpochs, Placement
from headrace.sim.checkers.elected_leaders import ElectedLeaders
from headrace.sim.checkers.elections import Elections
from headrace.sim.checkers.eligible_replicas import Commitment
from headrace.sim.checkers.granted_votes import GrantedVotes
from headrace.sim.checkers.groups import Groups
from headrace.sim.checkers.heartbeat_answers import HeartbeatAnswers, HeartbeatOffsets
from headrace.sim.checkers.high_watermarks import HighWatermarks
from headrace.sim.checkers.history import History
from headrace.sim.checkers.hosted_partitions import HostedPartitions
from headrace.sim.checkers.images import Images
from headrace.sim.checkers.isr_rules import IsrRules
from headrace.sim.checkers.liveness import Liveness
from headrace.sim.checkers.log_directories import LogDirectories
from headrace.sim.checkers.metadata_changes import MetadataChanges
from headrace.sim.checkers.misaddressed_requests import MisaddressedRequests
from headrace.sim.checkers.partitions import CommittedState
from headrace.sim.checkers.reads import Reads
from headrace.sim.checkers.reassignments import Reassignments
from headrace.sim.checkers.records import ClientRecords
from headrace.sim.checkers.replication import Replication
from headrace.sim.checkers.sessions import Sessions
from headrace.sim.checkers.snapshots import Snapshots
from headrace.sim.checkers.supported_features import SupportedFeatures, UsableDirectories
from headrace.sim.checkers.told_causes import ToldCauses
from headrace.sim.checkers.topic_lives import TopicLives
from headrace.sim.checkers.voters import CheckQuorum, VoterChanges
from headrace.sim.checkers.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.sim.checkers.group import Group, Scene
    from headrace.sim.observation import Checker

JUDGES = (
    FencedIsOut,
    OldEpochs,
    IsrChanges,
    ElectedLeaders,
    Placement,
    Sessions,
    HeartbeatAnswers,
    SupportedFeatures,
    UsableDirectories,
)
"""Those that look at single decisions of a controller; `ToldCauses` looks at how they are written."""

GROUPS: Sequence[Callable[[Scene], Group]] = (
    Elections,
    GrantedVotes,
    Replication,
    HighWatermarks,
    VoterChanges,
    CheckQuorum,
    Snapshots,
    MisaddressedRequests,
    Images,
    MetadataChanges,
    HostedPartitions,
    HeartbeatOffsets,
    CommittedState,
    partial(ControllerSteps, judges=(*JUDGES, ToldCauses)),
    History,
    Reads,
    Reassignments,
    ClientRecords,
    CopiedRecords,
    IsrRules,
    LogDirectories,
    Groups,
    Commitment,
    ClientHistory,
    TopicLives,
    Liveness,
)
"""In the order in which they hear of a step."""


def all_checkers() -> list[Checker]:
    """A fresh set of all checkers, for one run."""
    return [Watcher(GROUPS)]
