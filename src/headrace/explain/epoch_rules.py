"""A voter whose epoch no election could have brought it to."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.explain.causes import Cause, CauseKind
from headrace.explain.facts import Facts
from headrace.explain.replacing import replace_directory

EPOCH_OUT_OF_REACH = (1 << 31) - (1 << 20)
"""Beyond it the voters believe nobody's epoch but a majority's, so that the epochs (int32) are not used up by one rotten disk."""


def epoch_out_of_reach(facts: Facts) -> Iterator[Cause]:
    """promise PR8: one voter stands near the end of all epochs, and the others do not go there with it."""
    voters = [view for view in facts.views.values() if view.node_id in facts.voter_ids]
    far = [view for view in voters if view.epoch > EPOCH_OUT_OF_REACH]
    if not far or len(far) >= facts.majority:
        return
    for view in far:
        yield Cause(
            kind=CauseKind.EPOCH_OUT_OF_REACH,
            nodes=(view.node_id,),
            headline=f"node {view.node_id} is in epoch {view.epoch}, where no election can have brought it",
            evidence=tuple(f"node {each.node_id} is in epoch {each.epoch}" for each in voters),
            advice=(
                f"The file quorum-state of node {view.node_id} is rotten, or was written by hand; the node takes part in nothing any more.",
                *replace_directory(facts, view.node_id),
            ),
            is_blocking=not facts.has_leader,
        )
