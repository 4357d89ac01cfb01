"""The seed decides everything, nothing acknowledged is lost to power cuts, and a failure leaves what is needed to see it again."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.main import run as headrace
from headrace.core.errors import OperatorError
from headrace.sim.outcome import RunKey
from headrace.sim.run import parse_failure, replayed, run
from headrace.sim.shrink import shrink
from headrace.sim.suites import SUITES
from tests.support.volumes import CHOSEN, volume

ROOT = Path(__file__).parents[2]
FIRST_SEED = int(os.environ.get("HEADRACE_SIM_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(0)  # it has what the other tests leave of the processors, however little that is
def test_many_clusters_keep_every_invariant(record_property: Callable[[str, str], None]) -> None:
    """Sections 3, 4.1, 4.2 and 6 of the catalogue: no violation; in CI (`make sim`) at least 500 seeds and 2 million steps, and each required marker.

    B-R18 B-R22 S4-66: a leader in time, the safety invariants, and histories of metadata calls judged against a model, with faults.
    What the tests beside it leave of the processors is for these runs.
    """
    arguments = f"sim --suite {CHOSEN} --seed {FIRST_SEED} --json --no-shrink".split()
    command = ["nice", "-n", "19", sys.executable, "-m", "headrace", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    worked_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record_property(
        "simulation",
        f"{told['runs']} runs from seed {FIRST_SEED}, {told['steps']:,} steps, {told['steps'] / worked_s:,.0f} a second and core, "
        f"{len(told['failures'])} failed",
    )
    assert [(each["invariant"], each["seed"], each["message"]) for each in told["failures"]] == []
    assert told["shortfalls"] == []
    assert done.returncode == 0
    assert told["runs"] == sum(part.seeds for part in SUITES[CHOSEN].parts)
    assert told["steps"] >= SUITES[CHOSEN].least_steps


def in_processes(hash_seeds: tuple[int, ...], first: int, count: int) -> list[list[str]]:
    """The digests of the same runs in processes with these hash seeds, side by side."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.digests", str(first), str(count)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in hash_seeds
    ]
    told = [process.communicate()[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    return told


@pytest.mark.timeout(3_600)
def test_one_seed_gives_one_trace_whatever_the_hash_seed() -> None:
    """Whole events and changes in the digest, two processes with different hash seeds; in CI 40 seeds."""
    count = volume("HEADRACE_SIM_DIGESTS", quick=10, ci=40)
    one, two = in_processes((1, 2), 1, count)
    assert len(one) == count
    assert one == two
    assert len({line.split()[-1] for line in one}) == count


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_power_cuts_of_all_controllers_lose_nothing_acknowledged(seed: int) -> None:
    """fault:S52 fault:S53 PR3 inv:R12 inv:R13: 100 lossy power cuts of all controllers over the four runs, changes in between."""
    options = {
        "controllers": 3,
        "scripted_brokers": 3,
        "admins": 3,
        "faults": "blackout",
        "every_ms": 1000,
        "seconds": 32,
    }
    result = run(RunKey(level="quorum", seed=seed, options=options))
    assert result.failure is None, result.failure
    assert result.markers["all controllers lost power at once"] >= 25


@pytest.mark.parametrize("seed", [136_003, 137_855])
def test_a_quorum_that_shrinks_is_judged_by_what_it_can_bear(seed: int) -> None:
    """inv:R18 inv:RL4: a leader dies with a change of voters that only it knows; of the last two voters none loses its disk for good."""
    result = run(RunKey(level="quorum", seed=seed, options={"seconds": 2}))
    assert result.failure is None
    assert result.markers["voter removed"] > 0


def test_a_disk_goes_only_when_it_is_decided_who_votes() -> None:
    """inv:RL4 inv:RL1: the removal of the leader whose disk rots dies with it, and then it counts as a voter without a disk again."""
    assert run(RunKey(level="partitions", seed=930_268)).failure is None


def test_a_disk_that_nobody_has_used_yet_cannot_rot() -> None:
    """fault:S61 meets fault:S64: the disk was replaced, and its node has not started since."""
    result = run(RunKey(level="quorum", seed=700_230))
    assert result.failure is None
    assert result.markers["voter replaced its disk"] > 0


@pytest.mark.parametrize("seed", [800_077, 800_689])
def test_what_a_failed_sync_left_in_the_page_cache_is_written_again(seed: int) -> None:
    """fault:S58 inv:D3 inv:PR1: a process that starts after it acknowledges behind records that are not on the disk; then the power goes."""
    result = run(RunKey(level="records", seed=seed, options={"copies": 1}))
    assert result.failure is None
    assert result.markers["acknowledged records outlive a power cut"] > 0


@pytest.mark.parametrize(
    ("level", "seed"), [("records", 800_516), ("records", 910_848), ("cluster", 930_052), ("cluster", 930_329)]
)
def test_an_epoch_that_rotted_is_nobodys_lie(level: str, seed: int) -> None:
    """fault:S61 inv:R4: the epoch of a batch is outside of its CRC; a disk that rots counts as lost, a broker fetches its metadata again."""
    assert run(RunKey(level=level, seed=seed)).failure is None


def test_a_snapshot_that_fails_leaves_the_node_a_time_to_wake() -> None:
    """S61: the disk is full and nothing else happens; the next snapshot is due by time."""
    assert run(RunKey(level="partitions", seed=981_998)).failure is None


def test_a_process_that_dies_in_a_cut_has_cut_or_not() -> None:
    """inv:D5: what was synced above the cut may be there or not."""
    assert run(RunKey(level="quorum", seed=981_321)).failure is None


@pytest.mark.parametrize("seed", [950_463, 981_645])
def test_a_forged_packet_leaves_a_node_without_a_vote_behind(seed: int) -> None:
    """inv:RL1: it was lifted above the epoch of the quorum, which has removed it and goes on."""
    assert run(RunKey(level="partitions", seed=seed)).failure is None


def test_a_leader_that_answers_a_search_serves_its_follower() -> None:
    """inv:R22: the disk was slow, so the search left when the leader was known already."""
    assert run(RunKey(level="partitions", seed=950_063)).failure is None


@pytest.mark.parametrize(
    ("level", "seed"), [("quorum", 960_018), ("quorum", 960_048), ("cluster", 930_303), ("records", 5_800_713)]
)
def test_what_was_judged_too_strictly_is_fine(level: str, seed: int) -> None:
    """inv:R22 inv:R8 inv:C19 inv:P20: the leader of who reads its snapshot is dead; a leader syncs late; copies are placed while a broker goes; a log ends its move as the level comes with which metadata know directories."""
    assert run(RunKey(level=level, seed=seed)).failure is None


def test_candidates_whose_peers_know_no_pre_votes_do_not_outrun_each_other() -> None:
    """inv:RL1: a peer that refused connections when it was last asked may be back."""
    assert run(RunKey(level="quorum", seed=930_730)).failure is None


@pytest.mark.parametrize("seed", [930_047, 930_467])
def test_nobody_leads_out_of_a_directory_that_is_offline(seed: int) -> None:
    """inv:C25: a broker tells that a replica is in one while the moves of another broker are under way."""
    assert run(RunKey(level="partitions", seed=seed)).failure is None


@pytest.mark.parametrize("seed", [930_185, 930_337, 930_425, 930_657, 930_945])
def test_a_replica_whose_directory_works_again_leads(seed: int) -> None:
    """inv:CL2: the broker served all the while, so no unfencing elects it."""
    assert run(RunKey(level="partitions", seed=seed)).failure is None


def test_the_partitions_of_one_alter_partition_are_decided_each_on_its_own() -> None:
    """inv:C4, B-C22: its records take several batches, of which the first is committed alone."""
    assert run(RunKey(level="partitions", seed=930_519)).failure is None


def test_a_controller_that_shuts_down_is_still_reached() -> None:
    """inv:RL3: it waits for brokers to follow its last changes, and they must be able to connect meanwhile."""
    assert run(RunKey(level="records", seed=910_354, options={"copies": 1})).failure is None


def test_a_run_can_be_quiet() -> None:
    """Some runs hold no fault at all: then a call fails only for what it asks."""
    result = run(RunKey(level="quorum", seed=9, options={"controllers": 3, "faults": "none", "seconds": 5}))
    assert result.failure is None
    assert not [name for name in result.markers if name.startswith("fault:")]


def test_the_command_line_tells_the_digest(capsys: pytest.CaptureFixture[str]) -> None:
    """The same command gives the same digest as the library."""
    arguments = ["sim", "--controllers", "3", "--brokers", "2", "--seed", "7", "--faults", "kill,cut", "--seconds", "4"]
    assert headrace([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    options = {"controllers": 3, "brokers": 2, "faults": "kill,cut", "seconds": 4}
    again = run(RunKey(level="cluster", seed=7, options=options))
    assert told["digest"] == again.digest
    assert told["steps"] == again.steps
    assert told["failures"] == []


def test_a_suite_that_was_stopped_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept counts as if it were made now, and is not made again; of the last line a process that was killed may have left a part."""
    kept = tmp_path / "runs.jsonl"
    arguments = ["sim", "--level", "quorum", "--seconds", "1", "--seed", "700", "--jobs", "1", "--json"]
    assert headrace([*arguments, "--seeds", "3", "--keep", str(kept)]) == 0
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[:2], lines[2][:40]]))
    capsys.readouterr()
    assert headrace([*arguments, "--seeds", "4", "--keep", str(kept)]) == 0
    gone_on = capsys.readouterr()
    assert headrace([*arguments, "--seeds", "4"]) == 0
    at_once = json.loads(capsys.readouterr().out)
    told = json.loads(gone_on.out)
    assert {name: told[name] for name in ("runs", "steps", "markers")} == {
        name: at_once[name] for name in ("runs", "steps", "markers")
    }
    assert gone_on.err.startswith("2 runs kept, made by ")
    assert [json.loads(line)["seed"] for line in kept.read_text().splitlines()] == [700, 701, 702, 703]


@pytest.mark.parametrize("text", ["dear diary\n", "dear diary", '{"level": 3}\n'])
def test_another_file_is_not_taken_for_kept_runs(tmp_path: Path, text: str) -> None:
    """B78: nothing is written to it."""
    other = tmp_path / "notes.txt"
    other.write_text(text)
    with pytest.raises(OperatorError, match=r"notes\.txt, line 1: no run of `headrace sim --keep`; name another file"):
        headrace(["sim", "--level", "quorum", "--seconds", "1", "--keep", str(other)])
    assert other.read_text() == text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--faults", "earthquake"],
        ["--suite", "ci", "--brokers", "3"],
        ["--suite", "ci", "--level", "quorum"],
        ["--suite", "ci", "--seeds", "1"],
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str]) -> None:
    """B78: what is wrong, and what would be right."""
    with pytest.raises(OperatorError):
        headrace(["sim", *arguments])


def test_shrinking_keeps_what_the_failure_needs() -> None:
    """Of many faults the two that together make a failure are left."""
    plans = (RunKey(level="quorum", seed=seed).plan() for seed in range(1, 100))
    faults = next(plan.faults for plan in plans if len(plan.faults) > 8)
    needed = {faults[2], faults[7]}
    assert set(shrink(faults, lambda some: needed <= set(some), tries=500)) == needed
    assert shrink(faults, lambda some: True) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"level": "quorum"}', '{"level": "x", "seed": 1, "options": {}, "faults": [], "invariant": "R1"}'],
)
def test_another_file_is_no_failure(text: str) -> None:
    """B78: said in one line."""
    with pytest.raises(
        OperatorError, match=r"file is neither a failure that `headrace sim --save` wrote|level 'x' is not"
    ):
        parse_failure(text, path="file")


def test_a_saved_failure_happens_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seed, faults and the id that broke are enough; a run that holds now says so."""
    key = RunKey(level="quorum", seed=3, options={"controllers": 3, "seconds": 2})
    plan = key.plan()
    saved = tmp_path / "failure.json"
    data = {
        "format": 1,
        "level": key.level,
        "seed": key.seed,
        "options": dict(key.options),
        "invariant": "R1",
        "faults": [fault.as_json() for fault in plan.faults],
    }
    saved.write_text(json.dumps(data, indent=1))
    found, faults, invariant = parse_failure(saved.read_text(), path=str(saved))
    assert (found, faults, invariant) == (key, plan.faults, "R1")
    assert replayed(found, faults).digest == run(key).digest
    assert headrace(["debug", "replay", str(saved)]) == 1
    assert "R1 holds now" in capsys.readouterr().out
