"""Rules about nodes that are down, cut off, slow, full, behind, or out of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from headrace.explain.causes import Cause, CauseKind
from headrace.explain.facts import CANDIDATES, Facts, is_failing, is_heard, is_working, names, size_of, span
from headrace.explain.replacing import replace_directory
from headrace.wire.messages.describe_quorum import NodeLink, NodeView

SLOW_FLUSH_MS = 500
REFUSING_MS = 2_500
"""A refusal is tried again at once; older ones were followed by none."""
STARTING_MS = 1_000
"""A node that came up less long before may not have listened yet."""
LOW_DISK_BYTES = 1 << 20
CLOCK_OFF_MS = 5_000
FAR_BEHIND_RECORDS = 100


def _of(ids: Sequence[int], one: str, several: str) -> str:
    """The words for one node, or for several."""
    return one if len(ids) == 1 else several


def majority_down(facts: Facts) -> Iterator[Cause]:
    """Too few voters answer for any decision; or, if enough do, some are missing."""
    gone = [voter_id for voter_id in facts.voter_ids if is_gone(facts, voter_id)]
    if not gone:
        return
    ids = tuple(gone)
    evidence = [line for voter_id in gone for line in _absence(facts, voter_id)]
    is_refused = all("refused" in failure for voter_id in gone for failure in facts.failures_of(voter_id))
    left = len(facts.voter_ids) - len(gone)
    if left < facts.majority:
        are = _of(ids, "is down", "are down") if is_refused else _of(ids, "does not answer", "do not answer")
        needed = f"{facts.majority} {'is' if facts.majority == 1 else 'are'} needed"
        yield Cause(
            kind=CauseKind.MAJORITY_DOWN,
            nodes=ids,
            headline=f"{len(gone)} of {len(facts.voter_ids)} voters {are} ({names(ids)}); {needed}",
            evidence=tuple(evidence),
            advice=(
                f"Start {names(ids)}: the quorum needs {facts.majority - left} more of them."
                if is_refused
                else f"Look whether {names(ids)} {_of(ids, 'hangs, is', 'hang, are')} paused or unplugged: the quorum needs {facts.majority - left} more of them.",
                "If disks are lost for good: copy the directory of each remaining voter before anything else, and start none of the lost ones on an "
                "empty directory. Empty voters could elect one another, and all metadata would be gone.",
            ),
            is_blocking=True,
        )
    else:
        is_or_does = _of(ids, "is down", "are down") if is_refused else _of(ids, "does not answer", "do not answer")
        more = f"until then {left - facts.majority or 'none'} more may fail"
        yield Cause(
            kind=CauseKind.VOTER_DOWN,
            nodes=ids,
            headline=f"{names(ids)} {is_or_does}; the quorum goes on with {left} of {len(facts.voter_ids)}",
            evidence=tuple(evidence),
            advice=(
                f"Start {names(ids)}, with the {_of(ids, 'directory that it', 'directories that they')} had; {more}."
                if is_refused
                else f"Look whether {names(ids)} {_of(ids, 'hangs, is', 'hang, are')} paused or unplugged; {more}.",
                *(line for voter_id in gone[:1] for line in _if_lost(facts, voter_id)),
            ),
        )


def _if_lost(facts: Facts, voter_id: int) -> Iterator[str]:
    yield f"If the disk of node {voter_id} is lost:"
    yield from replace_directory(facts, voter_id)


def is_gone(facts: Facts, voter_id: int) -> bool:
    """Neither we nor any node that answers reaches it."""
    if facts.is_reached(voter_id):
        return False
    links = [facts.link(view.node_id, voter_id) for view in facts.views.values()]
    return not any(is_working(link) or is_heard(link) for link in links)


def _absence(facts: Facts, voter_id: int) -> list[str]:
    lines = [f"node {voter_id} does not answer at {failure}" for failure in facts.failures_of(voter_id)]
    for view in facts.views.values():
        link = facts.link(view.node_id, voter_id)
        if link is not None and is_failing(link):
            since = f" for {span(link.failing_for_ms)}" if link.failing_for_ms > 0 else ""
            lines.append(f"node {view.node_id} cannot reach it either{since}: {link.failure}")
    words = facts.last_words(voter_id)
    if words is not None:
        lines.append(f"{span(words[1])} ago it told node {words[2]}: {words[0]}")
    return lines or [f"nobody has an address of node {voter_id}"]


def cut_links(facts: Facts) -> Iterator[Cause]:
    """A node that lives is not reached by another one: in one direction, or in both."""
    found: dict[CauseKind, list[tuple[int, int]]] = {CauseKind.ONE_WAY_CUT: [], CauseKind.CUT_LINK: []}
    for view in facts.views.values():
        for peer_id in facts.voter_ids:
            link = facts.link(view.node_id, peer_id)
            if peer_id == view.node_id or link is None or not _is_cut(link, facts.views.get(peer_id)):
                continue
            back = facts.link(peer_id, view.node_id)
            if not _lives(facts, peer_id, apart_from=view.node_id):
                continue
            if is_failing(back):
                if (peer_id, view.node_id) not in found[CauseKind.CUT_LINK]:
                    found[CauseKind.CUT_LINK].append((view.node_id, peer_id))
            elif facts.is_reached(peer_id):
                found[CauseKind.ONE_WAY_CUT].append((view.node_id, peer_id))
    for kind, pairs in found.items():
        for asker, peer in pairs:
            yield _cut(facts, kind, asker, peer)


def _is_cut(link: NodeLink, peer: NodeView | None) -> bool:
    """Silence or refusals that go on, of a peer that was up by then: before, no node listened at the other end."""
    if not is_failing(link) or (peer is not None and link.failed_age_ms > peer.uptime_ms - STARTING_MS):
        return False
    if link.failure == "REFUSED":
        return link.failed_age_ms <= REFUSING_MS
    return link.failure in ("TIMED_OUT", "DISCONNECTED")


def _lives(facts: Facts, node_id: int, *, apart_from: int) -> bool:
    if facts.is_reached(node_id):
        return True
    others = [view.node_id for view in facts.views.values() if view.node_id != apart_from]
    return any(is_working(facts.link(other, node_id)) for other in others)


def _cut(facts: Facts, kind: CauseKind, asker: int, peer: int) -> Cause:
    link, back = facts.link(asker, peer), facts.link(peer, asker)
    assert link is not None, "a cut is seen on a link"
    since = f" for {span(link.failing_for_ms)}" if link.failing_for_ms > 0 else ""
    evidence = [f"node {asker} -> node {peer} ({link.host}:{link.port}): {link.failure}{since}"]
    if is_working(back):
        assert back is not None, "it works"
        evidence.append(f"node {peer} -> node {asker}: answered {span(back.answered_age_ms)} ago")
    elif is_failing(back):
        assert back is not None, "it fails"
        evidence.append(f"node {peer} -> node {asker}: {back.failure}")
    else:
        evidence.append(
            f"node {peer} -> node {asker}: nothing was asked lately, so it is not known whether that way works"
        )
    if facts.is_reached(peer):
        evidence.append(f"node {peer} answers us at {', '.join(facts.addresses_of(peer))}")
    headline = f"node {asker} cannot reach node {peer}"
    if is_working(back):
        headline = f"the link is cut one way only: {headline}"
    elif is_failing(back):
        headline = f"the link between node {asker} and node {peer} is cut"
    return Cause(
        kind=kind,
        nodes=(asker, peer),
        headline=headline,
        evidence=tuple(evidence),
        advice=(
            f"Look at firewalls and routes from node {asker} to {link.host}:{link.port}"
            f"{'' if is_working(back) else ', and back'}.",
        ),
        is_blocking=not facts.has_leader or facts.is_stalled,
    )


def disks(facts: Facts) -> Iterator[Cause]:
    """A disk that is full or has failed, of a node that answers or of one that said so before it stopped."""
    for node_id in sorted({*facts.voter_ids, *facts.views}):
        view = facts.views.get(node_id)
        words = facts.last_words(node_id) if view is None else None
        said = view.disk_failure if view is not None else words[0] if words is not None else ""
        is_low = view is not None and 0 <= view.disk_free_bytes < LOW_DISK_BYTES
        if not is_low and not _is_disk_trouble(said):
            continue
        is_full = is_low or _is_full(said)
        evidence = []
        if view is not None and view.disk_total_bytes > 0:
            evidence.append(
                f"{view.log_directory} has {size_of(view.disk_free_bytes)} free of {size_of(view.disk_total_bytes)}"
            )
        if said and words is not None:
            evidence.append(f"{span(words[1])} ago node {node_id} told node {words[2]}, before it stopped: {said}")
        elif said:
            evidence.append(f"node {node_id} says: {said}")
        yield Cause(
            kind=CauseKind.FULL_DISK if is_full else CauseKind.FAILED_DISK,
            nodes=(node_id,),
            headline=f"the disk of node {node_id} {'is full' if is_full else 'has failed'}",
            evidence=tuple(evidence),
            advice=(
                f"Make room on the disk of node {node_id} (metadata.log.dir), but take nothing out of __cluster_metadata-0; then start it again.",
            )
            if is_full
            else (f"Replace the disk of node {node_id}.", *replace_directory(facts, node_id)),
            is_blocking=node_id in facts.voter_ids and (not facts.has_leader or facts.is_stalled),
        )


def _is_full(text: str) -> bool:
    return "No space left" in text or "disk is full" in text or "quota" in text.lower()


def _is_disk_trouble(text: str) -> bool:
    return bool(text) and (
        _is_full(text) or "disk" in text or "log directory" in text or "Input/output" in text or "metadata log" in text
    )


def slow_fsync(facts: Facts) -> Iterator[Cause]:
    """What is not on disk counts for nothing, so a slow sync holds back every commit or every vote (B-R14)."""
    for view in facts.views.values():
        if view.node_id not in facts.voter_ids:
            continue
        slow = max(view.flush_in_flight_ms, view.flush_average_ms)
        if slow < SLOW_FLUSH_MS:
            continue
        evidence = [
            f"syncs of {view.log_directory} take {span(view.flush_average_ms)} on average, {span(view.flush_max_ms)} at most"
        ]
        if view.flush_in_flight_ms >= SLOW_FLUSH_MS:
            evidence.append(f"one is running for {span(view.flush_in_flight_ms)}")
        if view.durable_end_offset < view.log_end_offset:
            evidence.append(
                f"its log goes to offset {view.log_end_offset}, but only {view.durable_end_offset} is on disk"
            )
        yield Cause(
            kind=CauseKind.SLOW_FSYNC,
            nodes=(view.node_id,),
            headline=f"the disk of node {view.node_id} syncs slowly",
            evidence=tuple(evidence),
            advice=(
                "Look who else writes to that disk, and whether it fails. To put metadata.log.dir on a disk of its own, stop the node and move the whole "
                "directory there, with __cluster_metadata-0 and meta.properties: a voter must not start without them.",
                "If it leads and all other voters are up, moving leadership helps at once: stop the node cleanly, and start it again.",
            ),
            is_blocking=facts.is_stalled or not facts.has_leader,
        )


def clock_jump(facts: Facts) -> Iterator[Cause]:
    """A wall clock that differs from the others', or that jumped while its node ran."""
    clocks = {
        each.view.node_id: each.clock_ms for each in facts.seen if each.view is not None and each.clock_ms is not None
    }
    middle = median(clocks.values()) if clocks else 0
    for view in facts.views.values():
        off = clocks.get(view.node_id, middle) - middle if len(clocks) > 2 else 0
        jumped = view.clock_jump_ms if view.clock_jump_age_ms >= 0 else 0
        if abs(off) < CLOCK_OFF_MS and abs(jumped) < CLOCK_OFF_MS:
            continue
        evidence = []
        if abs(off) >= CLOCK_OFF_MS:
            evidence.append(f"its wall clock is {span(int(off))} {'ahead of' if off > 0 else 'behind'} the others'")
        if abs(jumped) >= CLOCK_OFF_MS:
            evidence.append(
                f"its wall clock jumped {span(jumped)} {'forwards' if jumped > 0 else 'back'}, {span(view.clock_jump_age_ms)} ago"
            )
        yield Cause(
            kind=CauseKind.CLOCK_JUMP,
            nodes=(view.node_id,),
            headline=f"the clock of node {view.node_id} jumped or is wrong",
            evidence=tuple(evidence),
            advice=(
                "Set the clock right and let NTP or PTP keep it. Elections go by a monotonic clock and are not harmed; "
                "record times, retention and the ages that tools show are.",
            ),
        )


def diverged_log(facts: Facts) -> Iterator[Cause]:
    """Two nodes have different batches at the same committed offset."""
    blamed: dict[int, list[str]] = {}
    views = sorted(facts.views.values(), key=lambda view: view.node_id)
    for number, one in enumerate(views):
        for other in views[number + 1 :]:
            found = _difference(one, other)
            if found is not None and one.cluster_id == other.cluster_id:
                for view, rival in ((one, other), (other, one)):
                    blamed.setdefault(view.node_id, []).append(f"{found} (nodes {view.node_id} and {rival.node_id})")
    for view in views:
        if "diverg" in view.problem or "below the high watermark" in view.problem:
            blamed.setdefault(view.node_id, []).extend([view.problem] * len(views))
    if not blamed:
        return
    worst = max(len(lines) for lines in blamed.values())
    odd = sorted(node_id for node_id, lines in blamed.items() if len(lines) == worst)
    leader_id = -1 if facts.leader is None else facts.leader.node_id
    if len(odd) > 1 and leader_id in odd:
        odd.remove(leader_id)
    yield Cause(
        kind=CauseKind.DIVERGED_LOG,
        nodes=tuple(odd),
        headline=f"the metadata log of {names(odd)} has diverged from the others'",
        evidence=tuple(dict.fromkeys(line for node_id in odd for line in blamed[node_id]))[:4],
        advice=_advice_on_divergence(facts, odd),
        is_blocking=not facts.has_leader,
    )


def _advice_on_divergence(facts: Facts, odd: list[int]) -> tuple[str, ...]:
    first = "Find out who wrote into that directory: a restored backup, a copied disk, another node."
    if len(odd) > 1:
        return (
            first,
            f"Which of {names(odd)} holds what was acknowledged cannot be told from here. Copy all their directories before anything else, compare them with "
            "`headrace dump-log`, and replace one voter at a time, while the others have a leader.",
        )
    leads = facts.leader is not None and facts.leader.node_id in odd
    hand_over = (f"Stop node {odd[0]} cleanly first, so that another voter leads.",) if leads else ()
    return (first, *hand_over, *replace_directory(facts, odd[0]))


def _difference(one: NodeView, other: NodeView) -> str | None:
    limit = min(one.high_watermark, other.high_watermark)
    theirs = {batch.base_offset: batch for batch in other.batches}
    for batch in one.batches:
        twin = theirs.get(batch.base_offset)
        if twin is None or max(batch.last_offset, twin.last_offset) >= limit:
            continue
        if (batch.crc, batch.epoch, batch.last_offset) != (twin.crc, twin.epoch, twin.last_offset):
            return f"different records at offset {batch.base_offset}, which both take for committed"
    starts = {each.start_offset: each.epoch for each in other.epoch_history}
    floor = max(one.log_start_offset, other.log_start_offset)
    for start in one.epoch_history:
        epoch = starts.get(start.start_offset)
        if floor < start.start_offset < limit and epoch is not None and epoch != start.epoch:
            return f"offset {start.start_offset} began epoch {start.epoch} on one and {epoch} on the other"
    return None


def lagging(facts: Facts) -> Iterator[Cause]:
    """A voter that answers is far behind the leader's log."""
    leader = facts.leader
    if leader is None:
        return
    for voter_id in facts.voter_ids:
        view = facts.views.get(voter_id)
        if view is None or view is leader or view.cluster_id != leader.cluster_id:
            continue
        behind = leader.log_end_offset - view.log_end_offset
        if behind < FAR_BEHIND_RECORDS:
            continue
        yield Cause(
            kind=CauseKind.LAGGING,
            nodes=(voter_id,),
            headline=f"the log of node {voter_id} is {behind} records behind the leader's",
            evidence=(
                f"node {voter_id} ends at {view.log_end_offset}, the leader at {leader.log_end_offset}; it is {view.role} in epoch {view.epoch}",
            ),
            advice=("Wait if it was started just now; else look at the other causes of that node.",),
            is_blocking=facts.is_stalled,
        )


def elections_fail(facts: Facts) -> Iterator[Cause]:
    """Enough voters live, but nobody wins."""
    if facts.has_leader or not facts.voter_ids:
        return
    alive = [voter_id for voter_id in facts.voter_ids if not is_gone(facts, voter_id)]
    if len(alive) < facts.majority:
        return
    trying = [view for view in facts.views.values() if view.role in CANDIDATES]
    ends = {
        view.node_id: (view.log_end_epoch, view.log_end_offset)
        for view in facts.views.values()
        if view.node_id in facts.voter_ids
    }
    best = max(ends, key=lambda node_id: ends[node_id], default=-1)
    evidence = [
        f"node {node_id} has the log up to offset {end} of epoch {epoch}"
        for node_id, (epoch, end) in sorted(ends.items())
    ]
    yield Cause(
        kind=CauseKind.ELECTIONS_FAIL,
        nodes=tuple(sorted(view.node_id for view in trying)),
        headline="nobody is elected, though enough voters are up",
        evidence=tuple(evidence),
        advice=(
            f"Only a voter whose log is at least as new as a majority's can win: node {best} can. Ask again in a few seconds.",
        ),
        is_blocking=True,
    )


def nobody_reached(facts: Facts) -> Iterator[Cause]:
    """No address answered."""
    if any(each.is_reached for each in facts.seen):
        return
    yield Cause(
        kind=CauseKind.NOBODY_REACHED,
        nodes=(),
        headline="no node answers at any address that was given",
        evidence=tuple(f"{each.address}: {each.failure}" for each in facts.seen),
        advice=(
            "Check the addresses and whether the nodes run. With the nodes' own addresses ask again, from a host that reaches them.",
        ),
        is_blocking=True,
    )
