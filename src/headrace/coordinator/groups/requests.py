"""Requests to a group coordinator that are no messages of the protocol."""

from __future__ import annotations

from headrace.core.ids import Uuid
from headrace.core.values import value_class


@value_class
class DeleteGroups:
    """The groups of a DeleteGroups request that this coordinator owns."""

    group_ids: tuple[str, ...]


@value_class
class FetchStableOffsets:
    """One group of an OffsetFetch with `require_stable`: answered after everything appended before it is committed, with `StoredPositions` or an error."""

    group_id: str


@value_class
class TopicsDeleted:
    """A change of the metadata: topics are gone, (name, topic id) of each."""

    topics: tuple[tuple[str, Uuid], ...]
