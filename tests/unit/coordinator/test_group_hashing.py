"""Java's hashes, and the order of its maps. The expected values are from a JDK."""

from __future__ import annotations

from headrace.coordinator.hashing import hash_map_order, java_string_hash, partition_for


def test_the_partition_of_a_group_is_the_same_on_every_broker() -> None:
    """B-P06: abs(String.hashCode()) modulo the partitions; the smallest int counts as 0."""
    names = {"grüße-Ω-😀": 1456798077, "my-group": -1906497762, "": 0, "polygenelubricants": -2147483648}
    assert {name: java_string_hash(name) for name in names} == names
    assert [partition_for(name, 50) for name in names] == [27, 12, 0, 0]


def test_protocols_come_in_the_order_of_a_java_map() -> None:
    """B-P06: by bucket, in a table that doubles when it is three quarters full."""
    names = ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "a", "b", "c", "x1", "x2", "x3", "x4"]
    assert hash_map_order(names) == [
        "uniform",
        "a",
        "b",
        "c",
        "sticky",
        "range",
        "x1",
        "roundrobin",
        "x2",
        "x3",
        "x4",
        "cooperative-sticky",
    ]
    assert hash_map_order([*names, "more"]) == [
        "a",
        "b",
        "c",
        "more",
        "range",
        "roundrobin",
        "cooperative-sticky",
        "uniform",
        "sticky",
        "x1",
        "x2",
        "x3",
        "x4",
    ]
