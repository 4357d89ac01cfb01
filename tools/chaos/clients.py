"""A client of a cluster that is being broken: `python -m tools.chaos.clients ROLE`, until SIGTERM. librdkafka does what it would for anybody.

writer   an idempotent producer with acks=all; each value comes once
reader   a consumer of all partitions from their beginning, assigned by hand
member   a consumer of a group, which commits what it has got, and leaves and comes again now and then
admin    creates, grows and deletes topics, and asks each broker for them; reads the group's positions
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace.core.ids import Uuid
from headrace.sim.anomalies.history import NOWHERE, Outcome
from headrace.testing.asking import ask
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tools.chaos.recorder import Recorder, digest, now_ms

TOPIC: Final = "chaos"
GROUP: Final = "chaos-group"
FLUSH_S: Final = 120
MAX_IN_QUEUE: Final = 2_000
POLL_S: Final = 0.2
QUIET: Final = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500}
_ASK_S = 5.0
_COMMIT_EVERY_S = 0.3
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TOLD_BY_THE_CONTROLLER = {
    KafkaError.TOPIC_ALREADY_EXISTS: "TOPIC_ALREADY_EXISTS",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.INVALID_PARTITIONS: "INVALID_PARTITIONS",
}
_TOO_FEW_BROKERS = (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a client has to know."""

    name: str
    bootstrap: str
    brokers: tuple[int, ...]
    partitions: int
    per_second: int
    rng: random.Random
    recorder: Recorder
    stopped: threading.Event


# -- records ----------------------------------------------------------------------------------------------------------


def write(job: Job) -> None:
    """Send until stopped, and wait until the fate of all of it is known."""
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "client.id": job.name,
            "enable.idempotence": True,
            "compression.type": job.rng.choice(_CODECS),
            "linger.ms": 5,
            "message.timeout.ms": 300_000,
            **QUIET,
        }
    )
    began, sent = time.monotonic(), 0
    while not job.stopped.is_set():
        due = int((time.monotonic() - began) * job.per_second)
        while sent < due and len(producer) < MAX_IN_QUEUE:
            _send(job, producer)
            sent += 1
        sent = max(sent, due - job.per_second)  # what could not be sent for long is not made up for
        producer.poll(0.01)
    if producer.flush(FLUSH_S):
        job.recorder.see("fatal", rule="PR7", error=f"{len(producer)} records without an answer after {FLUSH_S} s")


def _send(job: Job, producer: Producer) -> None:
    partition = job.rng.randrange(job.partitions)
    timestamp = int(time.time() * 1_000)
    filler = bytes(job.rng.choices(b"abcdef", k=job.rng.choice((10, 100, 1_000))))
    value = f"{job.name}-{job.rng.getrandbits(48):012x}"
    data, key, headers = value.encode() + b" " + filler, value[-4:].encode(), [("h", filler[:5])]
    number = job.recorder.call(
        "send", topic=TOPIC, partition=partition, value=value, digest=digest(key, data, headers, timestamp)
    )

    def told(error: KafkaError | None, message: Any) -> None:
        if error is None:
            job.recorder.end(number, Outcome.OK, offset=offset_told(message))
            return
        job.recorder.end(number, Outcome.UNKNOWN)
        if error.fatal() or error.code() != KafkaError._MSG_TIMED_OUT:  # noqa: SLF001 (its public name)
            job.recorder.see("fatal", rule="PR4", error=str(error))

    producer.produce(TOPIC, data, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=told)


def offset_told(message: Any) -> int:
    """Where an acknowledged record lies; `NOWHERE` where librdkafka concludes from the acknowledgement of a later batch that it was stored."""
    offset: int | None = message.offset()
    return NOWHERE if offset is None else offset


def seen(message: Any) -> list[Any]:
    """A record as a line of a history tells it: partition, offset, value, digest."""
    value: bytes = message.value()
    made = digest(message.key(), value, message.headers() or [], message.timestamp()[1])
    return [message.partition(), message.offset(), value.partition(b" ")[0].decode(errors="replace"), made]


def note_poll(recorder: Recorder, messages: list[Any]) -> dict[int, int]:
    """Write down what a consumer got; what follows it, by partition."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(seen(message))
        elif error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            recorder.see("fatal", rule="PR2", error=str(error))
    if records:
        recorder.see("poll", topic=TOPIC, records=records)
    return {partition: offset + 1 for partition, offset, _, _ in records}


def read(job: Job) -> None:
    """Read everything as it comes, until stopped."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "client.id": job.name,
            "group.id": f"{GROUP}-{job.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(job.partitions)])
        job.recorder.see("assigned", topic=TOPIC, positions=[[number, 0] for number in range(job.partitions)])
        while not job.stopped.is_set():
            note_poll(job.recorder, consumer.consume(500, POLL_S))
    finally:
        consumer.close()


# -- groups -----------------------------------------------------------------------------------------------------------


def take_part(job: Job) -> None:
    """Be a member again and again until stopped."""
    while not job.stopped.is_set():
        _be_member(job, time.monotonic() + job.rng.uniform(5, 20))


def _be_member(job: Job, until_s: float) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "client.id": job.name,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 1_000,
            "fetch.wait.max.ms": 100,
            **QUIET,
        }
    )

    def given(_: Consumer, partitions: list[TopicPartition]) -> None:
        job.recorder.see("assigned", topic=TOPIC, positions=[[each.partition, NOWHERE] for each in partitions])

    def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
        job.recorder.see("assigned", topic=TOPIC, positions=[])
        following.clear()

    following: dict[int, int] = {}
    last_s = time.monotonic()
    consumer.subscribe([TOPIC], on_assign=given, on_revoke=taken, on_lost=taken)
    try:
        while not job.stopped.is_set() and time.monotonic() < until_s:
            following.update(note_poll(job.recorder, consumer.consume(200, POLL_S)))
            if following and time.monotonic() - last_s > _COMMIT_EVERY_S:
                _commit(job, consumer, following)
                following.clear()
                last_s = time.monotonic()
    finally:
        consumer.close()


def _commit(job: Job, consumer: Consumer, following: dict[int, int]) -> None:
    number = job.recorder.call("commit", group=GROUP, topic=TOPIC, positions=sorted(following.items()))
    wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in following.items()]
    try:
        answers = consumer.commit(offsets=wanted, asynchronous=False)
    except KafkaException:
        job.recorder.end(number, Outcome.UNKNOWN)  # librdkafka may have tried before, and been stored
        return
    is_ok = all(each.error is None for each in answers)
    job.recorder.end(number, Outcome.OK if is_ok else Outcome.UNKNOWN)


def _read_positions(job: Job, consumer: Consumer) -> None:
    began = now_ms()
    try:
        found = consumer.committed([TopicPartition(TOPIC, number) for number in range(job.partitions)], timeout=_ASK_S)
    except KafkaException:
        return
    positions = [[each.partition, max(each.offset, NOWHERE)] for each in found if each.error is None]
    job.recorder.see("position", began=began, group=GROUP, topic=TOPIC, positions=positions)


# -- topics -----------------------------------------------------------------------------------------------------------


def administer(job: Job) -> None:
    """One change after another, and reads of each broker after it, until stopped."""
    admin = AdminClient({"bootstrap.servers": job.bootstrap, "client.id": job.name, **QUIET})
    looking = Consumer({"bootstrap.servers": job.bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET})
    names = [f"{job.name}-{number}" for number in range(3)]
    try:
        while not job.stopped.is_set():
            name = job.rng.choice(names)
            _change(job, admin, name)
            for broker, address in zip(job.brokers, job.bootstrap.split(","), strict=True):
                _read_topic(job, broker, address, name)
            _read_positions(job, looking)
            job.stopped.wait(0.2)
    finally:
        looking.close()


def _change(job: Job, admin: AdminClient, name: str) -> None:
    kind, partitions = job.rng.choice(("create", "create", "delete", "grow")), job.rng.randint(1, 4)
    how: Callable[..., Any]
    match kind:
        case "create":
            how, what = admin.create_topics, NewTopic(name, partitions, 3)
        case "delete":
            how, what = admin.delete_topics, name
        case _:
            how, what = admin.create_partitions, NewPartitions(name, partitions)
    number = job.recorder.call(kind, topic=name, partitions=partitions)
    future = how([what], operation_timeout=_ASK_S, request_timeout=2 * _ASK_S)[name]
    try:
        future.result(4 * _ASK_S)
    except KafkaException as failed:
        code = failed.args[0].code()
        if code in _TOLD_BY_THE_CONTROLLER:
            job.recorder.end(number, Outcome.FAILED, error=_TOLD_BY_THE_CONTROLLER[code])
        elif code in _TOO_FEW_BROKERS:
            job.recorder.end(number, Outcome.FAILED, error=failed.args[0].name())
        else:
            job.recorder.end(number, Outcome.UNKNOWN, error=failed.args[0].name())
    else:
        job.recorder.end(number, Outcome.OK)


def _read_topic(job: Job, broker: int, address: str, name: str) -> None:
    host, _, port = address.rpartition(":")
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    began = now_ms()
    try:
        (topic,) = ask(host, int(port), request, 12, timeout_s=1.0).topics
    except OSError:
        return
    is_there = topic.topic_id != Uuid(bytes(16))
    told = {"topic_id": str(topic.topic_id) if is_there else "", "partitions": len(topic.partitions)}
    job.recorder.see("topic", began=began, broker=broker, topic=name, **told)


ROLES: Final[dict[str, Callable[[Job], None]]] = {
    "writer": write,
    "reader": read,
    "member": take_part,
    "admin": administer,
}


def main(arguments: list[str]) -> None:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos.clients", description=__doc__)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--name", required=True, help="of this client, in the history and in what it writes")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--brokers", required=True, help="ids of those, in their order")
    parser.add_argument("--file", type=Path, required=True, help="of the history")
    parser.add_argument("--partitions", type=int, required=True, help="of the topic")
    parser.add_argument("--per-second", type=int, default=150, help="records that a writer sends")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with Recorder(options.file, options.name) as recorder:
        job = Job(
            name=options.name,
            bootstrap=options.bootstrap,
            brokers=tuple(map(int, options.brokers.split(","))),
            partitions=options.partitions,
            per_second=options.per_second,
            rng=random.Random(f"{options.seed} {options.name}"),
            recorder=recorder,
            stopped=stopped,
        )
        ROLES[options.role](job)


if __name__ == "__main__":
    main(sys.argv[1:])
