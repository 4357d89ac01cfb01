"""Is JSON that is no message refused?"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from headrace.core.errors import DecodeError, EncodeError
from headrace.core.ids import ONE_UUID
from headrace.wire.json_view import from_json, to_json
from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.raft_records.quorum_state_data import QuorumStateData
from tests.support.messages import all_versions, sample


def test_there_and_back() -> None:
    """Every message and version without record batches survives JSON text."""
    rng = random.Random(9)
    for cls, version in all_versions():
        if "records" not in str(cls.__module__).rpartition(".")[2] and cls.__name__ not in RECORDS:
            message = sample(cls, version, rng, depth_limit=2)
            assert from_json(cls, json.loads(json.dumps(to_json(message, version))), version) == message


RECORDS = {"ProduceRequest", "FetchResponse", "FetchSnapshotResponse", "ShareFetchResponse"}


def test_names_and_tagged_fields() -> None:
    """As Kafka's dump-log shows them: camel case, uuids in base64, tagged fields only when they are set."""
    assert to_json(TopicRecord(name="foo", topic_id=ONE_UUID), 0) == {
        "name": "foo",
        "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
    }
    change = PartitionChangeRecord(partition_id=1, topic_id=ONE_UUID, isr=(1, 2))
    assert to_json(change, 0) == {"partitionId": 1, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "isr": [1, 2]}
    assert from_json(PartitionChangeRecord, to_json(change, 0), 0) == change


def test_records_are_left_out_or_counted() -> None:
    """KIP-673: empty, or their size for a log of requests."""
    part = PartitionData(records=b"12345")
    answer = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(part,)),))

    def shown(*, records_as_size: bool) -> Any:
        return to_json(answer, 12, records_as_size=records_as_size)["responses"][0]["partitions"][0]

    assert shown(records_as_size=False)["records"] == ""
    assert shown(records_as_size=True)["recordsSizeInBytes"] == 5


QUORUM = {
    "clusterId": "", "leaderId": 1, "leaderEpoch": 5, "votedId": -1, "appliedOffset": 0, "currentVoters": [{"voterId": 1}],
}  # fmt: skip


def test_quorum_state_of_version_0() -> None:
    """KIP-595: what an older Kafka leaves in quorum-state."""
    assert from_json(QuorumStateData, QUORUM, 0).current_voters[0].voter_id == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"leaderId": "1"}, "no int32"),
        ({"leaderId": 1.5}, "no int32"),
        ({"leaderId": True}, "no int32"),
        ({"leaderId": 2**31}, "no int32"),
        ({"leaderId": None}, "null"),
        ({"clusterId": 5}, "no string"),
        ({"currentVoters": 5}, "a list is expected"),
        ({"currentVoters": [5]}, "an object is expected"),
        ({"currentVoters": [{}]}, "voterId is missing"),
        ({"surplus": 1}, "no field 'surplus'"),
        ({"votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA"}, "version 0 has no votedDirectoryId"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], says: str) -> None:
    """B77, B78: wrong types, out of range, missing, surplus, of another version."""
    with pytest.raises(DecodeError, match=says):
        from_json(QuorumStateData, QUORUM | change, 0)


def test_bad_texts_are_refused() -> None:
    """S1-02: a uuid that is none; numbers where text belongs; an object that is a list."""
    bads: tuple[object, ...] = ({"name": "a", "topicId": "xyz"}, {"name": "a", "topicId": 5}, [], "text", None)
    for bad in bads:
        with pytest.raises(DecodeError):
            from_json(TopicRecord, bad, 0)
    with pytest.raises(DecodeError, match="no version"):
        from_json(TopicRecord, {}, 9)


def test_what_a_version_cannot_say_is_not_shown() -> None:
    """As the encoder: a field that is set and does not exist, a null that is not allowed, an unknown version."""
    with pytest.raises(EncodeError, match="null"):
        to_json(MetadataRequest(topics=None), 0)
    with pytest.raises(EncodeError, match="is set"):
        to_json(MetadataRequest(allow_auto_topic_creation=False), 0)
    with pytest.raises(EncodeError, match="no version"):
        to_json(MetadataRequest(topics=(MetadataRequestTopic(),)), 99)


def test_numbers_with_a_point() -> None:
    """Quota values are floats; whole numbers are taken, too."""
    quota = {
        "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None,
        "entries": [{"entity": [], "values": [{"key": "k", "value": 5}]}],
    }  # fmt: skip
    found = from_json(DescribeClientQuotasResponse, quota, 0)
    assert found.entries is not None
    assert found.entries[0].values[0].value == 5.0
