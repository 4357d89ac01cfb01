"""How many files and sockets a node may have open, and how many of these its clients may take.

A new descriptor is always the lowest free number, so the number of a client's socket says how many are taken. Beyond a bound a client is refused:
what is left is for segments, checkpoints, snapshots and the links of the quorum, and for the controllers' listener half of it.
"""

from __future__ import annotations

import resource
from typing import Final

_MOST_KEPT: Final = 1_024
"""As many as a node with a few hundred active partitions has segments open."""


def raise_descriptor_limit() -> None:
    """Take what the system allows this process, as Kafka's JVM does; the usual soft limit of 1,024 is for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # some systems say "unlimited" and mean less
            return


def descriptors_for(*, is_quorums: bool) -> int:
    """Sockets of a listener's peers have numbers below this one. A quarter of the limit is kept from clients, half of that from other nodes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    kept = min(soft // 4, _MOST_KEPT)
    return soft - (kept // 2 if is_quorums else kept)
