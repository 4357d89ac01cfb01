"""B-R03: the file quorum-state in Kafka's two versions; B76: damage is refused."""

from __future__ import annotations

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID
from headrace.raft.events import QuorumState
from headrace.raft.quorum_state import decode_quorum_state, encode_quorum_state
from tests.support.raft import DIRECTORY_ID

V0 = b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}'
V1 = b'{"leaderId":3,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


def test_the_bytes_are_those_of_kafka() -> None:
    """B-R03: both texts were written by Kafka 4.3.1."""
    assert encode_quorum_state(QuorumState(leader_epoch=1, leader_id=1), kraft_version=0, voter_ids=(1,)) == V0
    assert encode_quorum_state(QuorumState(leader_epoch=1, leader_id=3), kraft_version=1, voter_ids=(3,)) == V1
    assert decode_quorum_state(V0, path="p") == QuorumState(leader_epoch=1, leader_id=1)
    assert decode_quorum_state(V1, path="p") == QuorumState(leader_epoch=1, leader_id=3)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_vote_is_read_back(kraft_version: int) -> None:
    """B-R03: epoch, leader and vote survive."""
    directory_id = DIRECTORY_ID if kraft_version else None
    state = QuorumState(leader_epoch=7, leader_id=-1, voted_id=1, voted_directory_id=directory_id)
    data = encode_quorum_state(state, kraft_version=kraft_version, voter_ids=(1, 2, 3))
    assert decode_quorum_state(data, path="p") == state


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"null",
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1}',
        b'{"leaderId":1,"leaderEpoch":1,"votedIe":1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":2}',
        b'{"leaderId":"1","leaderEpoch":1,"votedId":1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":true,"votedId":1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":99999999999,"votedId":1,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-7,"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x","data_version":1}',
    ],
)
def test_a_damaged_file_is_refused_and_never_guessed(data: bytes) -> None:
    """B76, input:B77: a vote that cannot be read must not be given again."""
    with pytest.raises(StorageFault, match="p"):
        decode_quorum_state(data, path="p")


def test_every_truncation_is_refused() -> None:
    """input:B77: a file cut anywhere."""
    for end in range(len(V0)):
        with pytest.raises(StorageFault):
            decode_quorum_state(V0[:end], path="p")
    assert ZERO_UUID not in (DIRECTORY_ID,)
