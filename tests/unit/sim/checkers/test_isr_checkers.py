"""A leader of a healthy cluster whose picture is spoilt behind its back: each rule that is broken so is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.log.producers import ProducerEntry
from headrace.sim.checkers.client_history import ClientHistory
from headrace.sim.checkers.isr_rules import IsrRules
from headrace.sim.observation import CallEnded, Outcome
from headrace.wire.messages import produce
from tests.support.histories import breaks
from tests.support.spoilt_copies import Copies


@pytest.fixture(scope="module")
def shared() -> Copies[IsrRules]:
    """One run for all; each test puts back what it spoils."""
    return Copies(IsrRules)


@pytest.fixture
def copies(shared: Copies[IsrRules]) -> Iterator[Copies[IsrRules]]:
    """A cluster in which all is well, before and after."""
    leader = shared.hosted(shared.leader()).leader
    kept = (leader.isr, leader.epoch_start, leader.min_insync_replicas, leader.log.high_watermark)
    shared.group.now_and_then(shared.cluster)
    yield shared
    leader.isr, leader.epoch_start, leader.min_insync_replicas = kept[:3]
    leader.log.set_high_watermark(kept[3])
    shared.group.now_and_then(shared.cluster)


def leader_of(copies: Copies[IsrRules]) -> Any:
    """Its picture of the partition."""
    return copies.hosted(copies.leader()).leader


def test_a_leader_counts_all_that_the_controller_has_in_sync(copies: Copies[IsrRules]) -> None:
    """inv:P5, defect:K17: one that it proposed counts too."""
    leader = leader_of(copies)
    copies.group._superset(copies.place, copies.partition, leader)
    leader.isr = leader.isr[:-1]
    with breaks("P5"):
        copies.group._superset(copies.place, copies.partition, leader)


def test_who_joins_is_past_the_start_of_the_leaders_epoch(copies: Copies[IsrRules]) -> None:
    """inv:P8, defect:K18: it may be just there."""
    leader, member = leader_of(copies), copies.follower()
    leader.epoch_start = copies.log(member).log_end_offset
    copies.group._joined(copies.place, leader, member)
    leader.epoch_start += 1
    with breaks("P8"):
        copies.group._joined(copies.place, leader, member)


def test_a_high_watermark_is_where_all_in_sync_are_known_to_be(copies: Copies[IsrRules]) -> None:
    """inv:P6, defect:K22: it is looked at again when a smaller ISR is confirmed."""
    log = leader_of(copies).log
    log.set_high_watermark(log.high_watermark - 1)
    with breaks("P6"):
        copies.group.now_and_then(copies.cluster)


def test_what_is_told_of_producers_lies_in_the_log(copies: Copies[IsrRules]) -> None:
    """inv:E4, defect:K35: the last batch of a producer ends where the log does, at the latest."""
    log = leader_of(copies).log
    entry = ProducerEntry(7_777, 0)
    log.producers._by_id[entry.producer_id] = entry
    entry.add(0, 0, log.log_end_offset - 1, 0)
    copies.group.now_and_then(copies.cluster)
    entry.add(1, 0, log.log_end_offset, 0)
    with breaks("E4"):
        copies.group.now_and_then(copies.cluster)
    del log.producers._by_id[entry.producer_id]


def test_acks_all_is_acknowledged_with_enough_in_sync(copies: Copies[IsrRules]) -> None:
    """inv:P10: where the ISR was another one meanwhile, enough may have been."""
    told = produce.PartitionProduceResponse(index=copies.place[1], error_code=ErrorCode.NONE)
    response = produce.ProduceResponse(responses=(produce.TopicProduceResponse(partition_responses=(told,)),))
    ended = CallEnded(call_id=1, client_id=1, request=None, response=response, outcome=Outcome.OK)
    epoch = copies.partition.partition_epoch
    copies.group._begun[1] = (copies.place, epoch - 1)
    copies.group.called(ended)
    copies.group._begun[1] = (copies.place, epoch)
    with breaks("P10"):
        copies.group.called(ended)


def test_no_copy_in_sync_ends_below_the_high_watermark() -> None:
    """inv:P6: those that count, as they really are."""
    copies = Copies(IsrRules)
    log = copies.log(copies.follower())
    log.truncate_to(leader_of(copies).log.high_watermark - 1)
    with breaks("P6"):
        copies.group.now_and_then(copies.cluster)


def test_a_run_is_judged_by_what_its_clients_were_told() -> None:
    """inv:H1 inv:H3: what was acknowledged is read in the end, and a record that lies elsewhere is seen."""
    copies = Copies(ClientHistory)
    copies.group.over(copies.cluster)
    told = copies.group._told[copies.place]
    value, send = next((value, send) for value, send in told.sends.items() if send.outcome == "ok")
    told.sends[value] = type(send)(
        client=send.client, number=send.number, part=send.part, value="never stored", digest="", outcome=send.outcome
    )
    with breaks("H15"):
        copies.group.over(copies.cluster)
