"""The conversation that asks all nodes that can be reached about the quorum.

`collect` is a conversation of `headrace.client`: it asks the bootstrap addresses, learns from their answers where the voters are said to
be, and asks there too. A Headrace node answers with its own view, leader or not (decision 17). A Kafka controller skips the question
and is asked what Kafka's own tools ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.client.admin_quorum import METADATA_QUORUM, quorum_error
from headrace.client.session import Session
from headrace.client.talk import Address, Answered, Ask, AskAll, Conversation, Outcome
from headrace.core.values import value_class
from headrace.explain.facts import Seen
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, NodeView

MAX_ADDRESSES = 64


@value_class(kw_only=False)
class _Place:
    """An address, and who is said to be there (-1: nobody said)."""

    address: Address
    node_id: int


def collect(session: Session, *, timeout_ms: int = 3_000) -> Conversation[list[Seen]]:
    """One answer or failure for each address; each address is waited for `timeout_ms` at most."""
    todo = [_Place(address, -1) for address in session.settings.bootstrap]
    seen: dict[Address, Seen] = {}
    while todo:
        round_seen = yield from _ask_round(session, todo[:MAX_ADDRESSES], timeout_ms)
        seen.update(round_seen)
        todo = _unasked(seen, [each.view for each in round_seen.values() if each.view is not None])
        if len(seen) >= MAX_ADDRESSES:
            break
    return _with_ids(list(seen.values()))


def _ask_round(session: Session, places: list[_Place], timeout_ms: int) -> Conversation[dict[Address, Seen]]:
    found: dict[Address, Seen] = {}
    without_view: list[_Place] = []
    for place in places:  # one after the other, for the clocks
        before_ms = session.now_ms
        request = DescribeQuorumRequest(wants_node_view=True)
        outcome: Outcome = yield Ask(address=place.address, request=request, timeout_ms=timeout_ms)
        seen = _seen(place, outcome, (before_ms + session.now_ms) / 2)
        found[place.address] = seen
        if seen.is_reached and seen.view is None:
            without_view.append(place)
    if without_view:
        plain = DescribeQuorumRequest(topics=METADATA_QUORUM)
        asks = tuple(Ask(address=place.address, request=plain, timeout_ms=timeout_ms) for place in without_view)
        outcomes: list[Outcome] = yield AskAll(asks=asks)
        for place, outcome in zip(without_view, outcomes, strict=True):
            found[place.address] = _of_plain_response(found[place.address], outcome)
    return found


def _seen(place: _Place, outcome: Outcome, asked_ms: float) -> Seen:
    seen = Seen(address=str(place.address), expected_id=place.node_id)
    if not isinstance(outcome, Answered):
        return replace(seen, failure=outcome.reason)
    views: tuple[NodeView, ...] = outcome.response.node_views
    if not views:
        return seen
    return replace(seen, view=views[0], clock_ms=round(views[0].wall_clock_ms - asked_ms))


def _of_plain_response(seen: Seen, outcome: Outcome) -> Seen:
    """A node that gives no view: what it says of the quorum, if it leads."""
    if not isinstance(outcome, Answered):
        return seen
    response: Any = outcome.response
    if quorum_error(response) is not None:
        return seen
    part = response.topics[0].partitions[0]
    return replace(seen, leader_id=part.leader_id, epoch=part.leader_epoch, high_watermark=part.high_watermark)


def _unasked(seen: dict[Address, Seen], views: Iterable[NodeView]) -> list[_Place]:
    """Where the newest views say that controllers are, as far as nobody was asked there."""
    known = {each.view.node_id for each in seen.values() if each.view is not None}
    found: dict[Address, _Place] = {}
    for view in views:
        for voter in view.voters:
            for point in voter.end_points:
                if voter.voter_id not in known or view.node_id != voter.voter_id:
                    found.setdefault(
                        Address(host=point.host, port=point.port),
                        _Place(Address(host=point.host, port=point.port), voter.voter_id),
                    )
        for link in view.links:
            if link.host and 0 < link.port < 65536:
                found.setdefault(
                    Address(host=link.host, port=link.port),
                    _Place(Address(host=link.host, port=link.port), link.peer_id),
                )
    return [place for address, place in found.items() if address not in seen]


def _with_ids(seen: list[Seen]) -> list[Seen]:
    """Whoever answered without a view is who the others say lives there."""
    said: dict[str, int] = {}
    for each in seen:
        for view in [each.view] if each.view is not None else []:
            for voter in view.voters:
                for point in voter.end_points:
                    said.setdefault(str(Address(host=point.host, port=point.port)), voter.voter_id)
    return [
        replace(each, expected_id=said[each.address]) if each.expected_id < 0 and each.address in said else each
        for each in seen
    ]
