"""Groups told as conversations: each file has a title that is the rule, commands, `----`, and what came out.

`make transcripts` (HEADRACE_REWRITE_TRANSCRIPTS=1) writes the outcome anew; the difference is for a reader's eye.

Commands, one a line; NAME is a member of the story, KEY=VALUE pairs are options:

    join NAME [instance=ID] [protocols=a,b] [version=N]    JoinGroup; a dynamic member comes back with the id it was given
    sync NAME                                              SyncGroup; the leader assigns `NAME's part` to each
    heartbeat NAME | leave NAME
    commit NAME|outside TOPIC-PARTITION OFFSET | fetch TOPIC-PARTITION
    wait MS | stall (the log commits nothing) | go on | refuse ERROR | restart (a new coordinator loads the log)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.image import GroupStored, OffsetStored
from headrace.coordinator.groups.stored import read_record
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.join_group import JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupResponse
from headrace.wire.messages.offset_commit import OffsetCommitResponse
from headrace.wire.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_bench import GROUP, Bench, Joined

HERE = Path(__file__).parent
REWRITE = os.environ.get("HEADRACE_REWRITE_TRANSCRIPTS") == "1"
CONFIG = GroupConfig(offsets_retention_ms=3_600_000, offsets_retention_check_interval_ms=600_000)


class Story:
    """One group and its members by the names of the story."""

    def __init__(self) -> None:
        self.bench = Bench(CONFIG)
        self.members: dict[str, Joined] = {}
        self.asked: dict[int, tuple[str, str]] = {}
        self.instances: dict[str, str | None] = {}
        self.told: set[int] = set()
        self.written = 0
        self.outcome: list[str] = []

    def tell(self, line: str) -> list[str]:
        """Do one command; what came of it."""
        command, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        getattr(self, f"do_{command}")(*plain, **options)
        return [f"> {line}", *self._outcome(), f"  = {self._state()}", ""]

    # ---- commands

    def do_join(self, name: str, *, instance: str | None = None, protocols: str = "range", version: str = "9") -> None:
        known = self.members.get(name)
        offered = tuple((each, f"{name}:{each}".encode()) for each in protocols.split(","))
        self.instances[name] = instance
        member_id = known.member_id if known and instance is None else ""
        token = self._start_join(member_id, instance, offered, version)
        answer = self.bench.answers.get(token)
        if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            token = self._start_join(answer.member_id, instance, offered, version)
        self.asked[token] = (name, "join")

    def _start_join(
        self, member_id: str, instance: str | None, protocols: tuple[tuple[str, bytes], ...], version: str
    ) -> int:
        return self.bench.start_join(member_id, instance=instance, protocols=protocols, version=int(version))

    def do_sync(self, name: str) -> None:
        parts = {member.member_id: f"{who}'s part".encode() for who, member in self.members.items()}
        self.asked[self.bench.sync(self.members[name], parts)] = (name, "sync")

    def do_heartbeat(self, name: str) -> None:
        self.outcome = [f"  {name}: {self.bench.heartbeat(self.members[name]).name}"]

    def do_leave(self, name: str) -> None:
        self.outcome = [f"  {name}: {self.bench.leave(self.members[name])[0].name}"]

    def do_commit(self, name: str, where: str, offset: str) -> None:
        topic, _, partition = where.rpartition("-")
        member = None if name == "outside" else self.members[name]
        token = self.bench.start_commit(int(offset), member, topic=topic, partition=int(partition))
        self.asked[token] = (name, "commit")

    def do_fetch(self, where: str) -> None:
        topic, _, partition = where.rpartition("-")
        self.outcome = [f"  {where}: {self.bench.fetch(topic=topic, partition=int(partition))}"]

    def do_wait(self, by_ms: str) -> None:
        self.bench.pass_time(int(by_ms))

    def do_stall(self) -> None:
        self.bench.holds_log = True

    def do_go(self, _on: str) -> None:
        self.bench.holds_log = False
        while self.bench.appends:
            self.bench.commit_next()

    def do_refuse(self, error: str) -> None:
        self.bench.fail_next(ErrorCode[error])

    def do_restart(self) -> None:
        self.bench = self.bench.restarted()
        self.asked.clear()

    # ---- what came out

    def _outcome(self) -> list[str]:
        lines, self.outcome = self.outcome, []
        for record in self.bench.log[self.written :]:
            lines.append(f"  log: {self._record(read_record(record.key, record.value))}")
        self.written = len(self.bench.log)
        for token, (name, what) in list(self.asked.items()):
            if token in self.bench.answers:
                del self.asked[token]
                lines.append(f"  {name}: {what} {self._answer(name, self.bench.answers[token])}")
        return lines

    def _answer(self, name: str, answer: Any) -> str:
        match answer:
            case OffsetCommitResponse():
                return ErrorCode(answer.topics[0].partitions[0].error_code).name
            case LeaveGroupResponse():
                return ErrorCode(answer.error_code).name
            case SyncGroupResponse():
                code = ErrorCode(answer.error_code)
                return code.name if code else f'got "{answer.assignment.decode()}"'
            case JoinGroupResponse():
                return self._joined(name, answer)
        raise AssertionError(answer)

    def _joined(self, name: str, answer: JoinGroupResponse) -> str:
        code = ErrorCode(answer.error_code)
        if code:
            return code.name
        self.members[name] = Joined(answer.member_id, answer.generation_id, answer.leader, self.instances[name])
        leads = "leads" if answer.leader == answer.member_id else "follows"
        seen = f", sees {len(answer.members)}" if answer.members else ""
        skips = ", assigns nothing" if answer.skip_assignment else ""
        return f"generation {answer.generation_id}, {leads}, by {answer.protocol_name}{seen}{skips}"

    def _record(self, record: GroupStored | OffsetStored | None) -> str:
        if isinstance(record, OffsetStored):
            what = "gone" if record.value is None else str(record.value.offset)
            return f"offset {record.key.topic}-{record.key.partition} {what}"
        assert record is not None
        if record.value is None:
            return "group gone"
        return f"group, generation {record.value.generation}, {len(record.value.members)} members"

    def _state(self) -> str:
        group = self.bench.machine.shard.groups.get(GROUP)
        if group is None:
            return "no group"
        return f"{group.state.value}, generation {group.generation_id}, {len(group.members)} members"


def stories() -> list[Path]:
    """Every transcript of this folder."""
    return sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_the_story_goes_as_written(path: Path) -> None:
    """B-P06, G1-G4, GL1: the rule is the first line of each file."""
    text = path.read_text()
    head, _, written = text.partition("----\n")
    story = Story()
    commands = [line for line in head.splitlines() if line and not line.startswith("#")]
    came_out = "\n".join(line for command in commands for line in story.tell(command))
    if REWRITE:
        path.write_text(f"{head}----\n{came_out}")
        return
    assert came_out == written
