"""A streaming query as a consumer group: how far it is, is committed as the group's offsets, for tools that show lag by group.

Only shown, never read: where a query goes on is in Spark's checkpoint. So a commit that fails costs the query nothing but a short wait; it is
logged, and tried again later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.core.errors import OperatorError, PeerError
from headrace.spark.cluster import open_client

if TYPE_CHECKING:
    from headrace.client.blocking import BlockingClient
    from headrace.core.ids import TopicPartition

PATIENCE_MS: Final = 5_000
"""So long a commit may keep the query waiting: a cluster's first group needs a moment, in which the topic of all groups is made."""
REST_S: Final = 60
"""So long nothing is committed after a commit that failed."""
RENEW_S: Final = 3_600
"""So often a query that stands still commits the same again: offsets of a group without members expire (`offsets.retention.minutes`)."""
_LOG: Final = logging.getLogger("headrace.spark")


class GroupView:
    """Commits the progress of one query for `group_id`, on a connection of its own; a copy of it has none."""

    def __init__(self, group_id: str, properties: Mapping[str, str]) -> None:
        self._group_id = group_id
        self._properties = {**properties, "default.api.timeout.ms": str(PATIENCE_MS)}
        self._client: BlockingClient | None = None
        self._shown: dict[TopicPartition, int] = {}
        self._due: float | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_client": None, "_shown": {}, "_due": None}

    def show(self, ends: Mapping[TopicPartition, int]) -> None:
        """Everything before these offsets has been processed."""
        now = time.monotonic()
        is_due = self._due is None or now >= self._due
        is_resting = self._due is not None and not self._shown and not is_due
        if is_resting or not ends or (ends == self._shown and not is_due):
            return
        try:
            refusal = self._commit(ends)
        except (PeerError, OperatorError) as error:
            refusal = str(error)
        self._shown, self._due = (dict(ends), now + RENEW_S) if refusal is None else ({}, now + REST_S)
        if refusal is not None:
            _LOG.warning(
                "the progress was not committed for group %s (%s); the query goes on, and tries again in %d s. The group must have no members, "
                "and the user needs Read on it; leave the option groupId out to commit nothing",
                self._group_id, " ".join(refusal.split()), REST_S,
            )  # fmt: skip

    def _commit(self, ends: Mapping[TopicPartition, int]) -> str | None:
        """Why the first partition was refused, if any was."""
        from headrace.client.offsets import CommittedOffset, commit_offsets

        if self._client is None:
            self._client = open_client(self._properties, is_cluster_known=True)
        committed = {each: CommittedOffset(offset=offset) for each, offset in ends.items()}
        done = self._client.run(commit_offsets, self._group_id, committed)
        return next((f"{at.topic}-{at.partition}: {error}" for at, error in done.items() if error is not None), None)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None
