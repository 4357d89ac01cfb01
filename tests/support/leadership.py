"""How is the leadership of a quorum of three moved to the node that a test wants?

The bystander is paused while two changes are acknowledged by the leader and the node that is wanted. So the bystander lacks
the last of them, and with the leader gone nobody may vote for it: only the wanted node can be elected.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.support.metadata_load import Changer, wait_until


class Loss(Enum):
    """How a leader goes."""

    TERMINATED = "SIGTERM"
    KILLED = "SIGKILL"
    PAUSED = "SIGSTOP"


def move_leadership(cluster: Cluster, wanted: Member, changer: Changer, loss: Loss) -> None:
    """Make `wanted` the leader; the node that led is up again at the end. Three controllers must be running."""
    while (leader := cluster.leader()).node_id != wanted.node_id:
        _push(cluster, leader, wanted, changer, loss)


def _push(cluster: Cluster, leader: Member, wanted: Member, changer: Changer, loss: Loss) -> None:
    """Lose the leader once; another leads afterwards. Seldom it is the bystander, when its fetch was under way with everything."""
    (bystander,) = (each for each in cluster.controllers if each.node_id not in (leader.node_id, wanted.node_id))
    epoch = cluster.quorum().leader_epoch
    changer.change()
    bystander.pause()
    try:
        changer.change()
        changer.change()
        _lose(leader, loss)
    finally:
        bystander.resume()
    _wait_for_another_leader(cluster, leader, epoch)
    if loss is Loss.PAUSED:
        leader.resume()
    else:
        leader.wait_until_ended()
        cluster.start(leader.node_id)


def _lose(leader: Member, loss: Loss) -> None:
    actions: dict[Loss, Callable[[], None]] = {
        Loss.TERMINATED: leader.terminate,
        Loss.KILLED: leader.kill,
        Loss.PAUSED: leader.pause,
    }
    actions[loss]()


def _wait_for_another_leader(cluster: Cluster, former: Member, epoch: int) -> None:
    def another_leads() -> bool:
        views = (cluster.describe(each.node_id) for each in cluster.controllers if each.node_id != former.node_id)
        return any(view is not None and view.leader_epoch > epoch for view in views)

    wait_until(another_leads)
