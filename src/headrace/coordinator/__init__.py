"""Coordinators: deciders whose state is the log of a partition.

`runtime/` is what they share: one shard a partition, loaded from the log, changed by records alone, with answers that wait for the commit. `groups/` is its first
user: the coordinator of one partition of `__consumer_offsets`. `broker/coordinators/` drives them.
"""
