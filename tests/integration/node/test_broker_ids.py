"""Is a process kept out whose broker id another one has?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.testing.cluster import Cluster
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tests.support.raw import RawConnection
from tests.support.roles import unfenced, until

OURS, OTHER = 101, 102


def registration(cluster_id: str) -> BrokerRegistrationRequest:
    """A process of another host that is to be broker OTHER."""
    features = tuple(
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
        if name != "kraft.version"
    )
    return BrokerRegistrationRequest(
        broker_id=OTHER,
        cluster_id=cluster_id,
        incarnation_id=Uuid.from_numbers(7, 7),
        listeners=(Listener(name="PLAINTEXT", host="elsewhere", port=9_092, security_protocol=0),),
        features=features,
        rack=None,
        log_dirs=(Uuid.from_numbers(8, 8),),
    )


def test_a_process_is_kept_out_while_another_with_its_id_starts() -> None:
    """S0-06, S1-29: the one that came first is fenced, for it has not caught up yet, and is heard from. When it was told to stop the id is free at once."""
    properties = {"broker.session.timeout.ms": "3600000", "initial.broker.registration.timeout.ms": "2000"}
    with Cluster(controllers=1, brokers=2, properties=properties) as cluster:
        until(lambda: unfenced(cluster.members[OURS]) == {OURS, OTHER})
        cluster.stop(OTHER)
        with RawConnection(cluster.controllers[0].controller_port) as first:
            registered = first.ask(registration(cluster.cluster_id), 4)
            assert registered.error_code == 0

            def beat(**wants: Any) -> Any:
                own = {"broker_id": OTHER, "broker_epoch": registered.broker_epoch}
                return first.ask(BrokerHeartbeatRequest(**own, **wants), 1)

            assert beat(current_metadata_offset=0).is_fenced
            with pytest.raises(OperatorError, match=f"another process that is alive is registered as broker {OTHER}"):
                cluster.start(OTHER)
            assert beat(current_metadata_offset=0, want_shut_down=True).should_shut_down
        cluster.start(OTHER)
        until(lambda: unfenced(cluster.members[OURS]) == {OURS, OTHER})
