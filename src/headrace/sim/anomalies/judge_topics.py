"""What an administrator would notice: changes of topics that no single order explains, and brokers that forget what they have shown (H13)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from headrace.sim.anomalies.history import Change, ChangeKind, History, Outcome, TopicRead

_EXISTS = "TOPIC_ALREADY_EXISTS"
_NOT_THERE = "UNKNOWN_TOPIC_OR_PARTITION"
_NOT_MORE = "INVALID_PARTITIONS"


def topic_anomalies(history: History) -> Iterator[str]:
    """One text for each topic whose changes have no order, and for each read that shows an older state than an earlier one there."""
    by_topic: dict[str, list[Change]] = defaultdict(list)
    for change in history.changes:
        by_topic[change.topic].append(change)
    for topic, changes in sorted(by_topic.items()):
        if not has_order(sorted(changes, key=lambda each: each.began)):
            told = ", ".join(f"{each.kind} {each.outcome} {each.error}".rstrip() for each in changes)
            yield f"no order explains what was told of topic {topic}: {told}"
    yield from _forgotten(history)


def has_order(changes: Sequence[Change]) -> bool:
    """Whether one order of the calls, none of them outside of its time, explains every answer: the topic begins as absent.

    The search remembers which sets of calls with which state led nowhere. Calls of unknown outcome may be left out.
    """
    seen: set[tuple[int, int]] = set()
    must = sum(1 << number for number, each in enumerate(changes) if each.outcome is not Outcome.UNKNOWN)
    stack = [(0, 0)]
    while stack:
        done, partitions = stack.pop()
        if done & must == must:
            return True
        if (done, partitions) in seen:
            continue
        seen.add((done, partitions))
        left = [number for number in range(len(changes)) if not done >> number & 1]
        first_end = min(changes[number].ended for number in left)
        for number in left:
            if changes[number].began <= first_end:
                stack += [(done | 1 << number, after) for after in _after(changes[number], partitions)]
    return False


def _after(change: Change, partitions: int) -> list[int]:
    """The numbers of partitions (0: no topic) that the topic may have after the call, if it was answered like that; none: it cannot be.

    A call that is forwarded again after its connection was lost may be refused for what it did itself; such refusals may have had the effect.
    """
    effect = _effect(change, partitions)
    match change.outcome, change.error:
        case ((Outcome.OK | Outcome.UNKNOWN), _):
            return [] if effect is None else [effect]
        case _, error if error == _EXISTS and change.kind is ChangeKind.CREATE:
            return [partitions] if effect is None else [effect]
        case _, error if error == _NOT_THERE and change.kind is ChangeKind.DELETE:
            return [0]
        case _, error if error == _NOT_THERE:
            return [0] if partitions == 0 else []
        case _, error if error == _NOT_MORE:
            return [] if partitions == 0 else [max(partitions, change.partitions)]
        case _:  # refused for what has nothing to do with the topic
            return [partitions]


def _effect(change: Change, partitions: int) -> int | None:
    """What the call makes of it; None where it does nothing."""
    match change.kind:
        case ChangeKind.CREATE:
            return change.partitions if partitions == 0 else None
        case ChangeKind.DELETE:
            return 0 if partitions > 0 else None
        case ChangeKind.GROW:
            return change.partitions if 0 < partitions < change.partitions else None


def _forgotten(history: History) -> Iterator[str]:
    """Reads at one process of a broker, one after another, that show a topic that was gone, or fewer partitions than before."""
    by_process: dict[tuple[int, int, str], list[TopicRead]] = defaultdict(list)
    for read in history.reads:
        starts = [each.at for each in history.starts if each.broker == read.broker]
        if not any(read.began <= at <= read.ended for at in starts):
            life = sum(at < read.began for at in starts)
            by_process[read.broker, life, read.topic].append(read)
    for (broker, _, topic), reads in sorted(by_process.items()):
        reads.sort(key=lambda each: each.began)
        for number, read in enumerate(reads):
            former = [each for each in reads[:number] if each.ended <= read.began]
            if read.topic_id and _is_older(read, former):
                yield f"broker {broker} showed a state of topic {topic} that it had left: {read.partitions} partitions, id {read.topic_id}"


def _is_older(read: TopicRead, former: Sequence[TopicRead]) -> bool:
    shown = [each for each in former if each.topic_id == read.topic_id]
    if any(each.partitions > read.partitions for each in shown):
        return True
    first = min((each.ended for each in shown), default=None)
    return first is not None and any(each.topic_id != read.topic_id and each.began >= first for each in former)
