"""Whole clusters under faults, on virtual time, decided by one seed.

`cluster` holds the nodes, the network, the disks and the clock; `faults` breaks them; `observation` is what checkers see; `markers`
counts which rare states were reached. Nothing here reads a clock, a file, the environment or the order of a set: the same seed gives
the same trace in another process.
"""
