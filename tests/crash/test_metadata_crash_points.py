"""Whatever the moment of a power cut: what the controller answered is still decided, all of it or nothing of each, in one order.

A failure names seed, number of disk calls and the chance's seed; `judge(ran(seed), count, chance)` replays it.
"""

from __future__ import annotations

import random
from functools import cache

import pytest

from headrace.core.ports import BytesLike, Files
from headrace.sim.disk import Disk, crashed
from headrace.storage import snapshot_files
from headrace.storage.snapshot_files import SnapshotFiles
from tests.crash.metadata_workload import MetadataWorkload, recovered, state_of
from tests.support.volumes import seed as seed_of
from tests.support.volumes import volume

CRASHES_PER_SEED = 12
SEEDS = volume("HEADRACE_METADATA_CRASHES", quick=120, ci=360) // CRASHES_PER_SEED
FIRST_SEED = seed_of("HEADRACE_CRASH_SEED", otherwise=0)
STEPS = 150


@cache
def ran(seed: int) -> MetadataWorkload:
    """The workload of a seed, at its end."""
    return MetadataWorkload(seed).run(STEPS)


def judge(workload: MetadataWorkload, count: int, chance: int) -> list[str]:
    """What is wrong after a crash behind `count` calls, and after another crash inside that recovery."""
    wrong: list[str] = []
    promised = max((each.state for each in workload.promises if each.calls <= count), default=0)
    led = max((epoch for calls, epoch in workload.terms if calls <= count), default=0)
    files = crashed(workload.files.ops, count, random.Random(chance))
    before = Disk.over(crashed(workload.files.ops, count, random.Random(chance)))
    life, fault = recovered(files, chance)
    if fault is not None:
        return [fault]
    wrong += _check(workload, state_of(life.plane.image), promised)
    if life.terms[0][1] <= led:
        wrong.append(f"epoch {life.terms[0][1]} is led again after the crash, which came to {led}")
    again = random.Random(chance + 1).randrange(len(files.ops) + 1)
    for op in files.ops[:again]:
        before.take(op)
    second, fault = recovered(before.crash(random.Random(chance + 2)), chance)
    if fault is not None:
        return [*wrong, f"after a crash in the recovery, {fault}"]
    led = max([led, *(epoch for calls, epoch in life.terms if calls <= again)])
    if second.terms[0][1] <= led:
        wrong.append("an epoch is led again after a crash in the recovery")
    return wrong + _check(workload, state_of(second.plane.image), promised)


def _check(workload: MetadataWorkload, found: object, promised: int) -> list[str]:
    later = workload.states[promised:]
    if not workload.states or found in later:
        return []
    if promised == 0 and found in ([*workload.states[:1]], _NOTHING):
        return []
    earlier = found in workload.states[:promised]
    return ["something that was answered is gone" if earlier else "a state that nobody decided"]


_NOTHING = state_of(MetadataWorkload(0).run(0).plane.image)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_crash_point_loses_an_answer_or_leads_twice(seed: int) -> None:
    """B-R03, B-R14, B-C22, C3, C4, C13, B-S02, B-S04, inv:D1: acknowledged is durable, atomic, in order; epochs only rise."""
    workload = ran(seed)
    chance = random.Random(seed)
    for index in range(CRASHES_PER_SEED):
        count = chance.randrange(len(workload.files.ops) + 1)
        assert judge(workload, count, seed * 1000 + index) == [], (
            f"seed {seed}, {count} calls, chance {seed * 1000 + index}"
        )


def test_the_workload_does_what_it_is_here_for() -> None:
    """Reached states: snapshots are written, the log is cut below them, promises are many."""
    workload = ran(1)
    assert workload.snapshots.ids()
    assert workload.log.log_start_offset > 0
    assert len(workload.promises) > 30
    assert len(workload.states) > 20


def rename_without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """K30: quorum-state's new name is not made durable."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}.tmp", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        files.rename(f"{directory}/{name}.tmp", f"{directory}/{name}")

    patch.setattr(snapshot_files, "replace_file", replace_file)


def state_written_in_place(patch: pytest.MonkeyPatch) -> None:
    """K32: quorum-state is written over the old one."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        files.fsync_dir(directory)

    patch.setattr(snapshot_files, "replace_file", replace_file)


def snapshot_not_synced(patch: pytest.MonkeyPatch) -> None:
    """K31, B-S04: the log is cut below a snapshot whose bytes are not on the disk."""

    def write(self: SnapshotFiles, snapshot_id: object, batches: object) -> int:
        path = self._path(snapshot_id)  # type: ignore[arg-type]
        file = self._files.open(f"{path}.part", create=True, truncate=True)
        position = 0
        for batch in batches:  # type: ignore[attr-defined]
            file.pwrite(batch, position)
            position += len(batch)
        self._files.rename(f"{path}.part", path)
        self._files.fsync_dir(self.directory)
        return position

    patch.setattr(SnapshotFiles, "write", write)


PLANTED = {each.__name__: each for each in (rename_without_directory_sync, state_written_in_place, snapshot_not_synced)}


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_defect_of_the_metadata_files_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """defect:K30 defect:K31 defect:K32: the checks are checked."""
    PLANTED[name](monkeypatch)
    assert any(_is_found(MetadataWorkload(seed).run(60), seed) for seed in range(20)), f"{name} was not found"


def test_an_answer_before_the_sync_is_found() -> None:
    """defect:K31: records that count though no sync returned."""
    assert any(_is_found(MetadataWorkload(seed, syncs=False).run(60), seed) for seed in range(20))


def _is_found(workload: MetadataWorkload, seed: int) -> bool:
    chance = random.Random(seed)
    counts = [chance.randrange(len(workload.files.ops) + 1) for _ in range(20)]
    return any(judge(workload, count, index) for index, count in enumerate(counts))
