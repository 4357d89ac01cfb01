"""The runtime under a coordinator of the test's own: load, append, wait for the commit, drop, resign, deadlines, changes."""

from __future__ import annotations

import pytest

from headrace.coordinator.runtime.events import (
    AppendFailed,
    ImageChanged,
    LoadFailed,
    LoadFinished,
    LogRecord,
    RecordsCommitted,
    TimePassed,
    TransactionEnded,
)
from headrace.coordinator.runtime.shard import BATCH_BYTES, Status
from headrace.core.error_code import ErrorCode
from tests.unit.coordinator.counter_bench import TIMEOUT_MS, Add, Counted, CounterBench, CounterRules, Read, Remind


def log(*counted: Counted) -> list[LogRecord]:
    return [CounterRules().written(each) for each in counted]


# ---- loading


def test_what_the_log_says_is_loaded() -> None:
    """G4: in the order of the log, however it is cut into turns, with what was deleted gone."""
    records = log(Counted("a", 1), Counted("b", 5), Counted("a", 2), Counted("b", None))
    for cut in range(len(records) + 1):
        bench = CounterBench(load=False)
        bench.load(records[:cut])
        bench.load(records[cut:], offset=cut)
        assert bench.status is Status.LOADING
        bench.step(LoadFinished(next_offset=4, now_ms=0))
        assert (bench.status, dict(bench.shard.committed)) == (Status.ACTIVE, {"a": 3})
        assert bench.coordinator.told == [("loaded", ErrorCode.NONE)]


def test_nothing_is_committed_before_the_load_is_over() -> None:
    """G4: half a state is shown to nobody."""
    bench = CounterBench(load=False)
    bench.load(log(Counted("a", 1)))
    assert dict(bench.shard.committed) == {}


def test_transactions_of_the_log_count_when_they_end() -> None:
    """KIP-98: committed ones from their marker on, aborted ones never."""
    bench = CounterBench(load=False)
    bench.load(log(Counted("a", 1)), producer_id=7)
    bench.load(log(Counted("b", 1)), producer_id=8)
    bench.step(TransactionEnded(producer_id=7, is_committed=True))
    bench.step(TransactionEnded(producer_id=8, is_committed=False))
    bench.step(LoadFinished(next_offset=4, now_ms=0))
    assert dict(bench.shard.committed) == {"a": 1}


def test_records_of_unknown_types_are_left_alone() -> None:
    """B-P06: they may be left from a newer release, as in Kafka; how many there were is known."""
    bench = CounterBench([LogRecord(b"x", b"?"), *log(Counted("a", 1)), LogRecord(b"y", None)])
    assert (bench.status, bench.shard.skipped_records, dict(bench.shard.state)) == (Status.ACTIVE, 2, {"a": 1})


@pytest.mark.parametrize("damaged", [LogRecord(b"ca", b"?"), LogRecord(b"c\xff", b"1"), None])
def test_a_damaged_record_is_a_failed_load(damaged: LogRecord | None) -> None:
    """B28: half a state is none; where it lies is said, and nothing that comes later is listened to."""
    bench = CounterBench(load=False)
    bench.load(log(Counted("a", 1)))
    bench.load([damaged or LogRecord(None, b"1")], offset=41)  # type: ignore[arg-type]
    assert bench.shard.failure is not None
    assert bench.shard.failure.startswith("the record at offset 41: ")
    bench.load(log(Counted("b", 1)))
    bench.step(LoadFinished(next_offset=3, now_ms=0))
    seen = [bench.status]
    bench.resign()
    seen.append(bench.status)
    assert (seen, dict(bench.shard.state), bench.answers) == ([Status.FAILED, Status.RESIGNED], {}, {})


def test_a_log_that_cannot_be_read_is_a_failed_load() -> None:
    """B28: the reason is kept."""
    bench = CounterBench(load=False)
    bench.step(LoadFailed(reason="no disk"))
    assert (bench.status, bench.shard.failure) == (Status.FAILED, "no disk")


def test_what_is_derived_is_made_in_turns() -> None:
    """M6: requests wait until all of it is there."""
    bench = CounterBench(load=False)
    bench.coordinator.restore_turns = 3
    bench.step(LoadFinished(next_offset=0, now_ms=0))
    for _ in range(2):
        assert bench.status is Status.LOADING
        bench.step(TimePassed(now_ms=0))
    assert bench.status is Status.ACTIVE


# ---- appends and commits


def test_an_answer_leaves_when_the_append_is_committed() -> None:
    """G4: decisions count it at once, readers and the client from its commit on."""
    bench = CounterBench()
    token = bench.send(Add(("a",)))
    assert (dict(bench.shard.state), dict(bench.shard.committed), bench.answers) == ({"a": 1}, {}, {})
    bench.commit()
    assert (dict(bench.shard.committed), bench.answers) == ({"a": 1}, {token: (1,)})
    assert bench.runtime.next_deadline_ms is None
    assert bench.coordinator.told[-1] == (("added", ("a",)), ErrorCode.NONE)


def test_an_answer_that_rests_on_an_append_waits_for_it() -> None:
    """KIP-447: and only for it; with nothing on its way there is nothing to wait for."""
    bench = CounterBench(log(Counted("a", 4)))
    assert bench.answers[bench.send(Read("a"))] == 4
    bench.send(Add(("a",)))
    read = bench.send(Read("a"))
    bench.send(Add(("a",)))
    assert read not in bench.answers
    bench.commit()
    assert bench.answers[read] == 5


def test_everything_before_a_committed_append_is_committed() -> None:
    """P10: the high watermark passes offsets in their order, whoever is told first."""
    bench = CounterBench()
    tokens = [bench.send(Add(("a",))) for _ in range(3)]
    base_offset, append = bench.appends[1]
    bench.step(RecordsCommitted(append_id=append.append_id, base_offset=base_offset, now_ms=0))
    assert bench.answers == {tokens[0]: (1,), tokens[1]: (2,)}
    bench.commit(3)
    assert (bench.answers[tokens[2]], dict(bench.shard.committed)) == ((3,), {"a": 3})


def test_a_refused_append_never_was() -> None:
    """B28: the client hears why, and the state is as if nobody had asked."""
    bench = CounterBench(log(Counted("a", 4)))
    bench.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    token = bench.send(Add(("a", "b")))
    assert bench.answers[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.coordinator.told[-1] == (("added", ("a", "b")), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (dict(bench.shard.state), bench.shard.pending) == ({"a": 4}, {})
    bench.refuses = ErrorCode.NONE
    bench.send(Add(("a",)))
    bench.commit()
    assert (dict(bench.shard.committed), bench.reloads) == ({"a": 5}, [])


def test_what_was_appended_behind_a_refused_append_counts_without_it() -> None:
    """B28: a deadline's append is refused while others are on their way."""
    bench = CounterBench()
    first = bench.send(Add(("a",)))
    bench.refuses = ErrorCode.MESSAGE_TOO_LARGE
    bench.send(Add(("a",), by=100))
    bench.refuses = ErrorCode.NONE
    bench.send(Add(("a",)))
    bench.commit(2)
    assert (bench.answers[first], dict(bench.shard.committed), bench.reloads) == ((1,), {"a": 2}, [])


def test_appends_of_one_step_fail_each_for_itself() -> None:
    """B28: what stands behind the failed one gets the place of it in the log."""
    bench = CounterBench()
    for name in ("a", "b"):
        bench.send(Remind(name, bench.now_ms + 5))
    effects = bench.runtime.step(TimePassed(now_ms=bench.now_ms + 5))
    ids = [effect.append_id for effect in effects if hasattr(effect, "append_id")]
    bench.step(AppendFailed(append_id=ids[0], error=ErrorCode.MESSAGE_TOO_LARGE, now_ms=0))
    bench.step(RecordsCommitted(append_id=ids[1], base_offset=0, now_ms=0))
    assert (dict(bench.shard.committed), bench.shard.next_offset, bench.reloads) == ({"b": 1}, 1, [])


def test_what_need_not_be_atomic_goes_in_several_batches() -> None:
    """B25: a batch is bounded. A part that is refused is the operation's failure, and the parts in the log still count."""
    names = tuple(f"{number}" + "x" * 1_000 for number in range(1_200))
    bench = CounterBench()
    bench.send(Add(names))
    assert [len(append.records) for _, append in bench.appends] == [1_200]
    bench = CounterBench()
    token = bench.send(Add(names, is_atomic=False))
    sizes = [sum(len(record.key) for record in append.records) for _, append in bench.appends]
    assert (len(sizes), max(sizes) < BATCH_BYTES, [each for _, a in bench.appends for each in a.records]) == (
        3,
        True,
        bench.log,
    )
    (_, first), (_, second), _ = bench.appends
    bench.step(AppendFailed(append_id=second.append_id, error=ErrorCode.NOT_ENOUGH_REPLICAS, now_ms=0))
    bench.step(RecordsCommitted(append_id=first.append_id, base_offset=0, now_ms=0))
    assert token not in bench.answers
    last_base = len(first.records)
    last_id = bench.appends[2][1].append_id
    bench.step(RecordsCommitted(append_id=last_id, base_offset=last_base, now_ms=0))
    assert bench.answers[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(bench.shard.committed) == len(names) - len(second.records)


def test_a_client_waits_no_longer_than_the_commit_timeout() -> None:
    """B28: it is told REQUEST_TIMED_OUT; the records may still be committed, and then they count."""
    bench = CounterBench()
    first = bench.send(Add(("a",)))
    bench.pass_time(TIMEOUT_MS - 1)
    second = bench.send(Add(("a",)))
    assert (bench.answers, bench.runtime.next_deadline_ms) == ({}, bench.now_ms + 1)
    bench.pass_time(1)
    assert bench.answers == {first: ErrorCode.REQUEST_TIMED_OUT}
    bench.pass_time(TIMEOUT_MS - 1)
    assert bench.answers[second] is ErrorCode.REQUEST_TIMED_OUT
    third = bench.send(Add(("a",)))
    bench.pass_time(TIMEOUT_MS)
    assert bench.answers[third] is ErrorCode.REQUEST_TIMED_OUT
    bench.commit(3)
    assert (dict(bench.shard.committed), bench.runtime.next_deadline_ms) == ({"a": 3}, None)


def test_a_log_that_somebody_else_wrote_into_is_read_anew() -> None:
    """G4: a record lies where another was expected, so the state may be wrong: everybody is sent away, and the driver is told."""
    bench = CounterBench()
    bench.log.append(LogRecord(b"ca", b"50"))
    tokens = [bench.send(Add(("a",))), bench.send(Read("a"))]
    bench.commit()
    assert [(each.expected_offset, each.found_offset) for each in bench.reloads] == [(0, 1)]
    assert bench.answers == dict.fromkeys(tokens, ErrorCode.NOT_COORDINATOR)
    assert bench.status is Status.RESIGNED
    assert dict(CounterBench(bench.log).shard.committed) == {"a": 51}


# ---- resignation, deadlines, changes


def test_a_resigned_coordinator_drops_what_is_not_committed() -> None:
    """B28: who waits is told NOT_COORDINATOR, and late outcomes of appends change nothing."""
    bench = CounterBench(log(Counted("a", 4)))
    tokens = [bench.send(Add(("a",))), bench.send(Read("a")), bench.send(Remind("b", 9_000))]
    bench.resign()
    assert bench.answers == dict.fromkeys(tokens, ErrorCode.NOT_COORDINATOR)
    assert bench.shard.pending == {}
    told = list(bench.coordinator.told)
    bench.commit()
    bench.step(AppendFailed(append_id=0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms=0))
    bench.send(Add(("a",)))
    assert (dict(bench.shard.state), bench.coordinator.told, bench.runtime.next_deadline_ms) == ({}, told, None)


def test_deadlines_ring_when_they_are_due() -> None:
    """GL1: by their time, not by being looked at."""
    bench = CounterBench()
    token = bench.send(Remind("a", bench.now_ms + 10))
    assert bench.runtime.next_deadline_ms == bench.now_ms + 10
    bench.pass_time(9)
    assert bench.answers == {}
    bench.pass_time(1)
    bench.commit()
    assert (bench.answers, dict(bench.shard.committed)) == ({token: "rung"}, {"a": 1})


def test_changes_of_the_metadata_are_operations() -> None:
    """PR6: written down like everything else; those that come while it loads are made when it has loaded."""
    bench = CounterBench(load=False)
    bench.step(ImageChanged(change="a", now_ms=0))
    bench.load(log(Counted("a", 1), Counted("b", 1)))
    assert bench.appends == []
    bench.step(LoadFinished(next_offset=0, now_ms=0))
    assert [append.records for _, append in bench.appends] == [(LogRecord(b"ca", None),)]
    bench.commit()
    bench.step(ImageChanged(change="b", now_ms=0))
    assert (dict(bench.shard.state), dict(bench.shard.committed)) == ({}, {"b": 1})
