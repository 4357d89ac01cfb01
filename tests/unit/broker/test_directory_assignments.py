"""What does the controller hear of the directories of replicas: when, in how large pieces, and after which failures again (KIP-858)?"""

from __future__ import annotations

import random
from dataclasses import replace

from immutables import Map

from headrace.broker.directory_assignments import MAX_ASSIGNMENTS, DirectoryAssignments
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition, Uuid
from headrace.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage, PartitionRegistration, TopicImage
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)

TOPIC = Uuid(b"topic-of-a-tests")
DIR_A, DIR_B = Uuid(b"directory-of-a-a"), Uuid(b"directory-of-b-b")


def image(partitions: int, *, level: int = 17, replicas: tuple[int, ...] = (1,)) -> MetadataImage:
    """Metadata with one topic."""
    found = {number: PartitionRegistration(replicas=replicas, isr=replicas, leader=1) for number in range(partitions)}
    topic = TopicImage(name="t", id=TOPIC, partitions=Map(found))
    topics = replace(EMPTY_IMAGE.topics, by_id=Map({TOPIC: topic}), by_name=Map({"t": topic}))
    features = replace(EMPTY_IMAGE.features, levels=Map({METADATA_VERSION: level}))
    return replace(EMPTY_IMAGE, topics=topics, features=features)


class Setting:
    """The machine with its controller, which answers when told."""

    def __init__(self, metadata: MetadataImage) -> None:
        self.image = metadata
        self.now = 1_000
        self.asked: list[tuple[AssignReplicasToDirsRequest, Deferred]] = []
        self.machine = DirectoryAssignments(
            broker_id=1, controller=self, image=lambda: self.image, now_ms=lambda: self.now, rng=random.Random(1)
        )
        self.machine.broker_epoch = 7

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """As the port's."""
        assert isinstance(request, AssignReplicasToDirsRequest)
        deferred = Deferred()
        self.asked.append((request, deferred))
        return deferred

    def sleep(self) -> int:
        """Until the machine's next deadline; how long."""
        at_ms = self.machine.next_deadline_ms()
        assert at_ms is not None
        waited, self.now = at_ms - self.now, at_ms
        self.machine.tick(self.now)
        return waited

    def answer(self, error: int = 0, of_all: int = 0) -> dict[int, Uuid]:
        """Answer the oldest request; what it said."""
        request, deferred = self.asked.pop(0)
        assert (request.broker_id, request.broker_epoch) == (1, 7)
        said = {
            each.partition_index: directory.id
            for directory in request.directories
            for topic in directory.topics
            for each in topic.partitions
        }
        answers = tuple(ResponsePartitionData(partition_index=number, error_code=error) for number in said)
        directory = ResponseDirectoryData(id=DIR_A, topics=(ResponseTopicData(topic_id=TOPIC, partitions=answers),))
        response = AssignReplicasToDirsResponse(error_code=of_all, directories=() if of_all else (directory,))
        deferred.complete(Reply(response))
        return said


def place(number: int) -> TopicIdPartition:
    """A partition of the topic."""
    return TopicIdPartition(TOPIC, number)


def test_what_comes_within_a_moment_goes_in_one_request() -> None:
    """KIP-858: 100 ms, as Kafka's AssignmentsManager waits."""
    setting = Setting(image(3))
    for number, directory in enumerate((DIR_A, DIR_B, DIR_A)):
        setting.machine.assign(place(number), directory)
    assert (len(setting.machine), setting.asked) == (3, [])
    assert setting.sleep() == 100
    assert setting.answer() == {0: DIR_A, 1: DIR_B, 2: DIR_A}
    assert (len(setting.machine), setting.machine.next_deadline_ms()) == (0, None)


def test_a_request_has_as_many_as_kafkas_at_most_and_one_is_under_way() -> None:
    """KIP-858: 2,250; the next goes when that is answered, at once while there are so many."""
    count = 2 * MAX_ASSIGNMENTS + 5
    setting = Setting(image(count))
    for number in range(count):
        setting.machine.assign(place(number), DIR_A)
    waits, sizes = [], []
    while setting.machine.next_deadline_ms() is not None:
        waits.append(setting.sleep())
        assert (len(setting.asked), setting.machine.next_deadline_ms()) == (1, None)
        sizes.append(len(setting.answer()))
    assert (waits, sizes) == ([0, 0, 100], [MAX_ASSIGNMENTS, MAX_ASSIGNMENTS, 5])


def test_the_newest_word_about_a_replica_holds() -> None:
    """KIP-858: before it is sent, and while an older one is under way; then that one's error or success counts for nothing."""
    heard: list[str] = []
    setting = Setting(image(1))
    setting.machine.assign(place(0), DIR_A, accepted=lambda: heard.append("never sent"))
    setting.machine.assign(place(0), DIR_B, accepted=lambda: heard.append("overtaken"))
    setting.sleep()
    setting.machine.assign(place(0), DIR_A, accepted=lambda: heard.append("newest"))
    assert setting.machine.word_of(place(0)) == DIR_A
    assert setting.answer() == {0: DIR_B}
    setting.sleep()
    assert (setting.answer(), heard) == ({0: DIR_A}, ["newest"])


def test_what_failed_is_sent_again_after_pauses_that_double() -> None:
    """KIP-858: from 100 ms to 10 s, with a fiftieth of chance; what is refused alone is no failure of all."""
    setting = Setting(image(2))
    setting.machine.assign(place(0), DIR_A)
    pauses = [setting.sleep()]
    for _ in range(9):
        setting.answer(of_all=ErrorCode.NOT_CONTROLLER)
        pauses.append(setting.sleep())
    for pause, wanted in zip(pauses, (100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000), strict=True):
        assert abs(pause - wanted) <= wanted * 0.02
    assert setting.answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == {0: DIR_A}
    assert setting.sleep() == 100
    assert setting.answer() == {0: DIR_A}
    assert len(setting.machine) == 0


def test_a_replica_that_is_not_ours_any_more_is_not_spoken_of() -> None:
    """KIP-858: the topic is gone, or the replica is another broker's."""
    setting = Setting(image(2))
    setting.machine.assign(place(0), DIR_A)
    setting.image = image(2, replicas=(2,))
    setting.sleep()
    assert (setting.asked, len(setting.machine)) == ([], 0)


def test_below_3_7_nothing_is_sent_and_all_is_as_if_it_were_known() -> None:
    """KIP-858: the controller would refuse it."""
    heard: list[str] = []
    setting = Setting(image(1, level=16))
    setting.machine.assign(place(0), DIR_A, accepted=lambda: heard.append("accepted"))
    assert (heard, setting.machine.next_deadline_ms()) == (["accepted"], None)
