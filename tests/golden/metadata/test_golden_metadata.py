"""Logs and snapshots of Apache Kafka 4.3.1 are replayed, and what we write of them is what Kafka wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.bootstrap import read_bootstrap_records
from headrace.metadata.image import MetadataImage, MetadataProvenance
from headrace.metadata.loader import MetadataLoader
from headrace.metadata.snapshot import snapshot_content
from headrace.raft.quorum_state import decode_quorum_state, encode_quorum_state
from headrace.raft.snapshots import BOOTSTRAP_ID, build_snapshot, read_snapshot
from headrace.raft.voters import decode_voters, encode_voters
from headrace.records.control import ControlType, control_type
from headrace.records.record import read_all_records
from headrace.sim.checkers.committed_log import CommittedBatch
from headrace.storage.meta_properties import MetaProperties, meta_properties_text, parse_meta_properties
from headrace.wire.metadata_records.frame import decode_record_with_version, encode_record
from tests.support.metadata_disk import batches_in

HERE = Path(__file__).parent
SNAPSHOT_END = 51


def batches(path: Path, upto: int = 2**62) -> list[CommittedBatch]:
    """The batches of a log file below an offset."""
    return [each for each in batches_in(path.read_bytes()) if each.base_offset < upto]


def image_of_log(upto: int) -> MetadataImage:
    """Kafka's log, replayed up to an offset."""
    loader = MetadataLoader()
    loader.load_batches(batches(HERE / "00000000000000000000.log", upto))
    return loader.image


def checkpoint() -> bytes:
    """Kafka's snapshot of that log."""
    return (HERE / f"{SNAPSHOT_END:020d}-0000000001.checkpoint").read_bytes()


@pytest.mark.parametrize("log", ["00000000000000000000.log", "standalone/00000000000000000000.log"])
def test_every_record_of_kafka_is_written_back_to_its_bytes(log: str) -> None:
    """B-C00..B-C08, B-C11, B-C13, B-C14, B-C16: read and written again, byte for byte."""
    types = set()
    for batch in batches(HERE / log):
        for data in batch.records:
            record, version = decode_record_with_version(data)
            assert encode_record(record, version) == data
            types.add(record.SCHEMA.api_key)
    assert types >= {0, 12, 17, 20, 23, 24, 27}


def test_the_log_holds_what_it_is_here_for() -> None:
    """The golden file must go on covering these record types."""
    found = {
        decode_record_with_version(data)[0].SCHEMA.api_key
        for batch in batches(HERE / "00000000000000000000.log")
        for data in batch.records
    }
    assert found == {0, 2, 3, 4, 5, 9, 11, 12, 14, 15, 17, 18, 19, 20, 22, 23, 24, 27}


def test_log_and_snapshot_tell_the_same() -> None:
    """C2, B-S09: Kafka's snapshot loads to the image of Kafka's log up to there."""
    snapshot = read_snapshot(checkpoint(), name="golden")
    replayed = image_of_log(SNAPSHOT_END)
    loader = MetadataLoader()
    provenance = MetadataProvenance(
        last_contained_offset=SNAPSHOT_END - 1,
        last_contained_epoch=1,
        last_contained_log_time_ms=snapshot.last_contained_log_timestamp,
    )
    loader.load_snapshot(snapshot.records, provenance)
    assert loader.image == replayed
    assert sorted(replayed.topics.by_name) == ["flights"]
    assert len(replayed.topics.by_name["flights"].partitions) == 5


def normal(data: bytes) -> str:
    """A record as text, its version with it; parts that have no order sorted."""
    record, version = decode_record_with_version(data)
    for name in ("features", "entity"):
        if hasattr(record, name):
            record = replace(record, **{name: tuple(sorted(getattr(record, name), key=repr))})
    return f"v{version} {record!r}"


def test_our_snapshot_of_the_log_holds_the_records_of_kafkas() -> None:
    """B-S03: the same records in the same versions; only the order of topics, settings, features is our own."""
    snapshot = read_snapshot(checkpoint(), name="golden")
    ours = list(snapshot_content(image_of_log(SNAPSHOT_END)))
    assert sorted(map(normal, ours)) == sorted(map(normal, snapshot.records))
    assert ours[0] == snapshot.records[0]


def test_our_snapshot_file_differs_from_kafkas_in_times_only() -> None:
    """B-S02, B-S03: header, records and footer in the same batches with the same offsets."""
    kafka = [(h.base_offset, h.last_offset, h.is_control, h.leader_epoch) for h, _ in read_all_records(checkpoint())]
    snapshot = read_snapshot(checkpoint(), name="golden")
    written = build_snapshot(
        snapshot.records,
        snapshot_id=OffsetAndEpoch(SNAPSHOT_END, 1),
        last_contained_log_timestamp=snapshot.last_contained_log_timestamp,
        now_ms=1,
    )
    ours = [
        (h.base_offset, h.last_offset, h.is_control, h.leader_epoch)
        for h, _ in read_all_records(b"".join(bytes(batch) for batch in written))
    ]
    assert ours == kafka


def test_the_zero_snapshot_of_a_standalone_directory() -> None:
    """B-S10, KIP-853: level and voters, written back to Kafka's bytes; the first batch of the log repeats them."""
    data = (HERE / "standalone/00000000000000000000-0000000000.checkpoint").read_bytes()
    snapshot = read_snapshot(data, name="golden")
    assert (snapshot.kraft_version, snapshot.records) == (1, ())
    assert snapshot.voters is not None
    assert [(voter.voter_id, voter.end_points[0].port) for voter in snapshot.voters.voters] == [(3, 29593)]
    log = (HERE / "standalone/00000000000000000000.log").read_bytes()
    header, records = next(read_all_records(log))
    assert header.is_control
    kinds = [control_type(record.key) for record in records]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    value = records[2].value or b""
    assert decode_voters(value) == snapshot.voters
    assert encode_voters(snapshot.voters) == value
    batches_ = list(read_all_records(data))
    ours = build_snapshot(
        (),
        snapshot_id=BOOTSTRAP_ID,
        last_contained_log_timestamp=snapshot.last_contained_log_timestamp,
        now_ms=batches_[0][1][0].timestamp,
        voters=snapshot.voters,
    )
    first = bytes(next(ours))
    assert data.startswith(first)


def test_bootstrap_checkpoint() -> None:
    """B-S10: metadata.version and a SCRAM user."""
    data = (HERE / "bootstrap.checkpoint").read_bytes()
    records = read_snapshot(data, name="bootstrap.checkpoint").records
    assert [each.encode() for each in read_bootstrap_records(records)] == list(records)


def test_meta_properties() -> None:
    """S1-01, S1-02: the same lines but for the date."""
    text = (HERE / "meta.properties").read_text()
    properties = parse_meta_properties(text, path="golden")
    assert properties.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert (properties.node_id, properties.version) == (1, 1)
    assert isinstance(properties.directory_id, Uuid)
    date = text.splitlines()[1].removeprefix("#")
    assert meta_properties_text(properties, date=date) == text
    assert properties == MetaProperties(
        cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=1, directory_id=properties.directory_id
    )


@pytest.mark.parametrize(("name", "kraft_version", "voter"), [("quorum-state-v0", 0, 1), ("quorum-state-v1", 1, 3)])
def test_quorum_state(name: str, kraft_version: int, voter: int) -> None:
    """B-R03: byte for byte."""
    data = (HERE / name).read_bytes()
    state = decode_quorum_state(data, path=name)
    assert encode_quorum_state(state, kraft_version=kraft_version, voter_ids=(voter,)) == data
