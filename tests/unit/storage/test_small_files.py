"""Names, checkpoints, indexes and snapshots: what is written, and what a damaged one means."""

from __future__ import annotations

import random

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import AbortedTransaction
from headrace.log.producers import ProducerEntry, SequencedBatch
from headrace.sim.disk import LossyFiles
from headrace.storage import checkpoints, layout
from headrace.storage.index_file import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from headrace.storage.producer_snapshot import decode_snapshot, encode_snapshot

OFFSETS = {TopicPartition("a.b_c-d", 3): 17, TopicPartition("x", 0): 2**62}


def test_checkpoints_have_kafkas_text() -> None:
    """B-P01, S3-20: version, count, one line each."""
    assert checkpoints.offsets_text(OFFSETS) == b"0\n2\na.b_c-d 3 17\nx 0 4611686018427387904\n"
    assert checkpoints.parse_offsets(checkpoints.offsets_text(OFFSETS)) == OFFSETS
    entries = [OffsetAndEpoch(0, 1), OffsetAndEpoch(9, 4)]
    assert checkpoints.epochs_text(entries) == b"0\n2\n1 0\n4 9\n"
    assert checkpoints.parse_epochs(b"0\n2\n1 0\n4 9\n") == entries
    assert checkpoints.topic_id_text(Uuid(bytes(15) + b"\x05")) == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nx 0 1\n",
        b"0\nx\n",
        b"0\n1\nx 0\n",
        b"0\n1\nx y 1\n",
        b"\xff\xfe",
        b"0\n1\nx 0 1\n\x00\x00",
    ],
)
def test_damaged_checkpoints_are_not_used(data: bytes) -> None:
    """B77, inv:D8: None stands for a file that says nothing certain."""
    assert checkpoints.parse_offsets(data) is None
    assert checkpoints.parse_epochs(data) is None


@pytest.mark.parametrize("rows", ["1 5\n1 9", "2 5\n1 9", "1 9\n2 5", "-1 0\n1 5"])
def test_an_epoch_table_that_does_not_rise_is_damaged(rows: str) -> None:
    """B77, inv:P11."""
    assert checkpoints.parse_epochs(f"0\n2\n{rows}\n".encode()) is None


def test_every_truncation_of_a_checkpoint_is_noticed_or_harmless() -> None:
    """B77: a cut-off checkpoint is damaged, or lacks no more than its last line's end."""
    whole = checkpoints.offsets_text(OFFSETS)
    for size in range(len(whole)):
        found = checkpoints.parse_offsets(whole[:size])
        assert found is None or (set(found) == set(OFFSETS) and size > len(whole) - 20)


def test_clean_shutdown_mark() -> None:
    """inv:D4, KIP-966: written whole and durable, with the broker epoch; removed durably."""
    files = LossyFiles()
    files.mkdir("/data")
    assert checkpoints.read_clean_shutdown(files, "/data") is None
    checkpoints.write_clean_shutdown(files, "/data", 41)
    assert files.read_file("/data/.kafka_cleanshutdown") == b'{"version": 0, "brokerEpoch": 41}'
    assert checkpoints.read_clean_shutdown(files, "/data") == 41
    checkpoints.remove_clean_shutdown(files, "/data")
    assert [op.kind for op in files.ops[-2:]] == ["unlink", "syncdir"]
    assert checkpoints.read_clean_shutdown(files, "/data") is None


@pytest.mark.parametrize(
    "text", ["", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ", "version: 0\ntopic_id: x", "rubbish"]
)
def test_a_damaged_topic_id_is_a_fault(text: str) -> None:
    """B77, S1-35: whose log this is must not be guessed."""
    files = LossyFiles()
    files.mkdir("/p-0")
    files.open("/p-0/partition.metadata", create=True).pwrite(text.encode() or b"\n", 0)
    with pytest.raises(StorageFault):
        checkpoints.read_topic_id(files, "/p-0")


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("topic-0", TopicPartition("topic", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("topic", None),
        ("topic-x", None),
        ("topic-01", None),
        ("topic-10", TopicPartition("topic", 10)),
        ("-1", None),
        ("..-0", None),
        ("topic-99999999999", None),
        ("topic-0.0123456789abcdef0123456789abcdef-delete", None),
        ("a/b-0", None),
    ],
)
def test_partition_directories(name: str, partition: TopicPartition | None) -> None:
    """B26: only names that a topic can have; those that are going are told apart."""
    assert layout.parse_partition_directory(name) == partition


def test_directories_that_are_going_have_kafkas_names() -> None:
    """S1-37: at most 255 bytes, and parsed back."""
    long = TopicPartition("t" * 249, 7)
    name = layout.suffixed_directory(long, "0" * 32, "delete")
    assert len(name) == 255
    assert layout.parse_suffixed_directory(name) == (TopicPartition("t" * (255 - 42), 7), "delete")
    assert layout.parse_suffixed_directory("topic-0") is None


def test_offset_index_finds_the_entry_at_or_before() -> None:
    """B-P01: Kafka's entries: relative last offset and position, big-endian."""
    index = OffsetIndex(EntryFile(LossyFiles(), "/x.index"), 100)
    for last, position in ((110, 500), (120, 900), (130, 1500)):
        index.append(last, position, 0)
    assert bytes(index.file.data[:8]) == b"\x00\x00\x00\x0a\x00\x00\x01\xf4"
    assert [(index.entry_for(offset) or (0, 0))[1] for offset in (100, 109, 110, 119, 120, 129, 130, 999)] == [
        0,
        0,
        500,
        500,
        900,
        900,
        1500,
        1500,
    ]
    assert index.is_sane(1501)
    assert not index.is_sane(1500)
    index.cut_at(900)
    assert (len(index), index.last()) == (1, (110, 500))


def test_time_index_keeps_the_highest_so_far() -> None:
    """B-P10: timestamps and offsets rise; equal or lower ones are not noted."""
    index = TimeIndex(EntryFile(LossyFiles(), "/x.timeindex"), 100)
    for timestamp, offset in ((1000, 105), (900, 110), (1000, 111), (2000, 120)):
        index.maybe_append(timestamp, offset)
    assert (len(index), index.last()) == (2, (2000, 120))
    assert [index.entry_before(timestamp) for timestamp in (999, 1000, 1001, 2000, 2001)] == [
        None,
        None,
        (1000, 105),
        (1000, 105),
        (2000, 120),
    ]
    index.cut_at(120)
    assert index.last() == (1000, 105)


@pytest.mark.parametrize("data", [b"\x00" * 7, b"\x00" * 16, b"\xff" * 8, b"\x00\x00\x00\x05\x00\x00\x01\x00" * 2])
def test_index_bytes_that_make_no_sense(data: bytes) -> None:
    """B77, defect:K33: cut off, preallocated zeros, negative, not rising."""
    assert not OffsetIndex(EntryFile(LossyFiles(), "/x.index", data), 0).is_sane(10_000)


def test_entries_reach_the_file_when_stored() -> None:
    """inv:D7: written behind; a cut reaches the file at once, and says that it must be synced."""
    files = LossyFiles()
    index = OffsetIndex(EntryFile(files, "/x.index"), 0)
    index.append(1, 10, 0)
    assert files.read_file("/x.index") is None
    assert index.file.store()
    index.append(2, 20, 0)
    assert index.file.store()
    assert files.read_file("/x.index") == bytes(index.file.data)
    assert index.cut_at(20)
    assert files.read_file("/x.index") == bytes(index.file.data) != b""
    index.file.sync()
    assert files.ops[-1].kind == "sync"


def test_transaction_index() -> None:
    """inv:E8: Kafka's entries, cut by the marker's offset; no file while there are none."""
    files = LossyFiles()
    index = TransactionIndex(EntryFile(files, "/x.txnindex"))
    index.store()
    assert files.read_file("/x.txnindex") is None
    entries = [AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 3, 9, 10)]
    for entry in entries:
        index.append(entry)
    assert index.entries() == entries
    assert index.is_sane(0)
    assert not index.is_sane(6)
    index.cut_at(9)
    assert index.entries() == entries[:1]


def snapshot_entry() -> ProducerEntry:
    """A producer with everything set."""
    entry = ProducerEntry(7, 3)
    entry.batches = [SequencedBatch(2**31 - 2, 1, 100, 103, 55)]
    entry.last_timestamp, entry.coordinator_epoch, entry.transaction_start = 55, 4, 100
    return entry


def test_producer_snapshot_keeps_the_last_batch() -> None:
    """B-P04, inv:E4: also over the wrap of sequences."""
    read = decode_snapshot(encode_snapshot([snapshot_entry(), ProducerEntry(8)]))
    assert read is not None
    assert [entry.state() for entry in read] == [snapshot_entry().state(), ProducerEntry(8).state()]


def test_damaged_snapshots_are_noticed() -> None:
    """B77, inv:D7: every truncation and every flipped bit."""
    whole = encode_snapshot([snapshot_entry()])
    assert all(decode_snapshot(whole[:size]) is None for size in range(len(whole)))
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1 << random.Random(position).randrange(8)
        assert decode_snapshot(bytes(changed)) is None, position
