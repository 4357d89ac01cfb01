"""Histories of appends, commits, refusals and failovers: the state is always what a replay of the log says."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.coordinator.runtime.events import LogRecord
from headrace.core.error_code import ErrorCode
from tests.unit.coordinator.counter_bench import Add, CounterBench, CounterRules, Counters, Read, Remind

NAMES = st.sampled_from(["a", "b", "c"])


def replayed(log: list[LogRecord]) -> Counters:
    """The slow twin: everything from the first record on."""
    rules = CounterRules()
    state = rules.empty()
    for record in log:
        read = rules.read(record)
        assert read is not None
        state = rules.replay(state, [read])
    return state


class RuntimeUnderFaults(RuleBasedStateMachine):
    """Requests and faults; after each the books must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = CounterBench()

    @rule(names=st.lists(NAMES, min_size=1, max_size=3), by=st.integers(1, 9), is_atomic=st.booleans())
    def add(self, names: list[str], by: int, is_atomic: bool) -> None:
        self.bench.send(Add(tuple(names), by, is_atomic))

    @rule(name=NAMES)
    def read(self, name: str) -> None:
        self.bench.send(Read(name))

    @rule(name=NAMES, in_ms=st.integers(0, 50))
    def remind(self, name: str, in_ms: int) -> None:
        if name not in self.bench.coordinator.reminders:
            self.bench.send(Remind(name, self.bench.now_ms + in_ms))

    @rule(by_ms=st.sampled_from([1, 20, 6_000]))
    def pass_time(self, by_ms: int) -> None:
        self.bench.pass_time(by_ms)

    @rule(count=st.integers(1, 4))
    def commit(self, count: int) -> None:
        self.bench.commit(min(count, len(self.bench.appends)))

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def log_refuses(self, error: ErrorCode) -> None:
        self.bench.refuses = error

    @rule(survive=st.integers(0, 3))
    def fail_over(self, survive: int) -> None:
        """Another coordinator loads what was committed, and perhaps some of what was not."""
        before = self.bench
        before.resign()
        kept = before.committed_log() + [record for _, each in before.appends[:survive] for record in each.records]
        self.bench = CounterBench(kept)

    @invariant()
    def the_state_is_what_the_log_says(self) -> None:
        """G4: what is committed, and with it what is on its way."""
        assert self.bench.shard.state == replayed(self.bench.log)
        assert self.bench.shard.committed == replayed(self.bench.committed_log())
        assert self.bench.shard.next_offset == len(self.bench.log)
        assert self.bench.reloads == []


RuntimeUnderFaults.TestCase.settings = settings(stateful_step_count=40, max_examples=60, deadline=None)
TestRuntimeUnderFaults = RuntimeUnderFaults.TestCase
