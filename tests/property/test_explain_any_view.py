"""Does the diagnosis stand whatever nodes say of themselves?"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.quorum_explain import as_value, lines
from headrace.explain.causes import State
from headrace.explain.diagnose import RULES, diagnose
from headrace.explain.facts import Facts, Seen
from headrace.wire.messages.describe_quorum import DescribeQuorumResponse, NodeView
from tests.support.messages import sample

ROLES = ("Leader", "Follower", "Candidate", "Prospective", "Unattached", "Resigned", "", "?")


def made_up(seed: int, nodes: int) -> list[Seen]:
    """Answers of nodes that say anything at all; some are near to sense, so that rules look at them."""
    rng = random.Random(seed)
    found: list[Seen] = []
    for number in range(nodes):
        message = sample(DescribeQuorumResponse, 2, rng, tame=rng.random() < 0.5, depth_limit=4)
        views = message.node_views
        view: NodeView | None = rng.choice(views) if views else None
        if view is not None and rng.random() < 0.8:
            object.__setattr__(view, "role", rng.choice(ROLES))
            object.__setattr__(view, "node_id", rng.randrange(4))
        found.append(
            Seen(
                address=f"h{number}:1",
                expected_id=rng.randrange(-1, 4),
                view=view,
                failure=rng.choice(["", "connection refused", "timed out"]) if view is None else "",
                leader_id=rng.randrange(-1, 3),
                high_watermark=rng.choice([-1, 5]),
                clock_ms=rng.choice([None, rng.randrange(-(2**40), 2**40)]),
            )
        )
    return found


@given(seed=st.integers(0, 2**32), nodes=st.integers(0, 6))
def test_any_answers_have_a_diagnosis(seed: int, nodes: int) -> None:
    """B-W06: every rule ends without a fault, and what it found can be shown; nothing is found twice."""
    seen = made_up(seed, nodes)
    facts = Facts(seen)
    for rule in RULES:
        list(rule(facts))
    found = diagnose(seen)
    assert found.state in State
    assert found.summary
    shown = "\n".join(lines(found))
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert as_value(found)["state"] == found.state.value
    assert [cause.rank for cause in found.causes] == sorted((cause.rank for cause in found.causes), reverse=True)


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 5))
def test_the_order_of_answers_does_not_matter(seed: int, nodes: int) -> None:
    """S4-54: who answered first decides nothing, as long as node ids are not taken twice."""
    seen = [
        each for number, each in enumerate(made_up(seed, nodes)) if each.view is None or each.view.node_id == number
    ]
    ids = [each.view.node_id for each in seen if each.view is not None]
    if len(set(ids)) == len(ids):
        one, other = diagnose(seen), diagnose(seen[::-1])
        assert (one.state, {cause.kind for cause in one.causes}) == (
            other.state,
            {cause.kind for cause in other.causes},
        )
