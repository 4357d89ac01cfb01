"""The benchmarks of the metadata quorum run, and their figures are about what they say."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import metadata_load
from benchmarks.scale import machine, wire
from benchmarks.scale.load import Shape


def test_metadata_changes_under_load_beside_a_write_for_each_path(tmp_path: Path) -> None:
    """S4-64, S4-65: the same creations on controllers, on combined nodes and on the baseline; the comparison itself needs a quiet machine."""
    load = metadata_load.Load(operations=12, partitions=3, clients=4)
    ours, baseline = metadata_load.compare(load)
    assert list(ours) == ["controllers", "combined nodes"]
    for found in ours.values():
        assert list(found) == ["create topics", "ISRs shrink", "reassign", "delete topics"]
    for figures in (*(each for found in ours.values() for each in found.values()), baseline):
        assert figures.per_s > 0
        assert 0 < figures.p50_ms <= figures.p99_ms
    kept = json.loads(metadata_load.write(load, ours, baseline, tmp_path).read_text())
    assert kept["load"]["operations"] == 12
    assert kept["figures"]["combined nodes"]["reassign"] == ours["combined nodes"]["reassign"]._asdict()


def test_what_counts_as_faster() -> None:
    """S4-65: operations a second and p99, both."""
    slow = metadata_load.Figures(per_s=10.0, p50_ms=5.0, p99_ms=50.0)
    assert metadata_load.is_faster(slow._replace(per_s=11.0, p99_ms=49.0), slow)
    assert not metadata_load.is_faster(slow._replace(per_s=11.0), slow)
    assert not metadata_load.is_faster(slow._replace(p99_ms=49.0), slow)


def test_the_cost_of_partitions_on_the_machine_alone() -> None:
    """inv:C2, B-C22: a third of all partitions is led by the broker that goes, and the log says each change once."""
    found = machine.measure(Shape(partitions=600, per_topic=20, brokers=6))
    assert found["loss_records"] >= 600 // 3 + 1
    assert 30 <= found["log_bytes_per_change"] <= 60
    assert 100 <= found["log_bytes_per_new_partition"] <= 130


def test_the_cost_of_partitions_on_a_controller_process(tmp_path: Path) -> None:
    """S2-31, B-C24: created, lost, restarted, through the wire."""
    found = wire.measure(Shape(partitions=600, per_topic=20, brokers=6), wire.headrace, tmp_path)
    assert found["loss_log_bytes"] > 0
    assert found["restart_to_first_decision_s"] > 0
    assert list(tmp_path.iterdir()) == []
