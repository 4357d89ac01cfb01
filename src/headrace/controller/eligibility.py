"""The brokers that may lead a partition, for one decision.

A broker that is registered, neither fenced nor stopping nor just being fenced, and whose directory with the replica is online
(KIP-631, KIP-841, KIP-858; C7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.core.ids import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import ClusterImage, PartitionRegistration

NOBODY: Final = -1
_NOT_YET_KNOWN: Final = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


class Eligible:
    """The active brokers and their directories; looked up once, asked for every partition of a decision."""

    def __init__(
        self,
        cluster: ClusterImage,
        *,
        leaving: Collection[int] = (),
        losing: Mapping[int, Collection[Uuid]] | None = None,
        without: int = NOBODY,
        plus: int = NOBODY,
    ) -> None:
        """`leaving` are on their way to be fenced, but for those that are `losing` directories: these go on with the others that they have.

        `without` counts as gone, `plus` as unfenced.
        """
        self._losing = losing or {}
        self._directories: dict[int, tuple[Uuid, ...]] = {
            broker_id: broker.log_dirs
            for broker_id, broker in cluster.brokers.items()
            if broker_id != without
            and (broker_id not in leaving or broker_id in self._losing)
            and not broker.in_controlled_shutdown
            and (broker_id == plus or not broker.fenced)
        }
        for broker_id in self._losing.keys() & self._directories.keys():
            lost, directories = self._losing[broker_id], self._directories.pop(broker_id)
            left = tuple(each for each in directories if each not in lost)
            if left:
                self._directories[broker_id] = left

    def is_active(self, broker_id: int) -> bool:
        """The broker may hold new replicas, be in an ISR, and lead."""
        return broker_id in self._directories and broker_id not in self._losing

    def may_lead(self, partition: PartitionRegistration, broker_id: int) -> bool:
        """The broker is active, and its replica is in a directory that is not known to be offline."""
        directories = self._directories.get(broker_id)
        if directories is None:
            return False
        if broker_id not in partition.replicas:
            return True
        directory = partition.directory_of(broker_id)
        if not directories:  # registered before KIP-858: nothing else is known
            return directory != LOST_DIRECTORY
        return directory in directories or directory in _NOT_YET_KNOWN
