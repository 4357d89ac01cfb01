"""The name of each event of the controller, in metrics and in explanations.

Every change of the cluster comes from one of these and from nothing else (S2-02..S2-11). Kafka's names where it has them.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.rpc.apis import OF_CONTROLLER
from headrace.wire.versions import APIS, ApiKey

_NAMED_OTHERWISE: Final[dict[int, str]] = {
    ApiKey.ALTER_CONFIGS: "legacyAlterConfigs",
    ApiKey.BROKER_HEARTBEAT: "processBrokerHeartbeat",
    ApiKey.BROKER_REGISTRATION: "registerBroker",
    ApiKey.CONTROLLER_REGISTRATION: "registerController",
}

REQUEST_EVENTS: Final[dict[str, str]] = {
    f"{APIS[key].name}Request": _NAMED_OTHERWISE.get(key, APIS[key].name[0].lower() + APIS[key].name[1:])
    for key in sorted(OF_CONTROLLER)
}
"""By the class of the request: the API's name, unless Kafka's event has another one."""

COMPLETE_ACTIVATION: Final = "completeActivation"
RENOUNCE: Final = "renounce"
HANDLE_COMMIT: Final = "handleCommit"
FENCE_STALE_BROKERS: Final = "maybeFenceStaleBroker"
FENCE_UNREACHABLE_BROKER: Final = "fenceUnreachableBroker"
CONTINUE_MOVES: Final = "continueMoves"
BALANCE_LEADERS: Final = "maybeBalancePartitionLeaders"
ELECT_UNCLEAN: Final = "maybeElectUncleanLeaders"
WRITE_NO_OP: Final = "writeNoOpRecord"

TIMER_EVENTS: Final = (FENCE_STALE_BROKERS, BALANCE_LEADERS, ELECT_UNCLEAN, WRITE_NO_OP, CONTINUE_MOVES)
"""What time brings (S2-11): these are events too, they do not act by themselves."""


def event_name(request: Any) -> str:
    """The name of a request's event."""
    return REQUEST_EVENTS[type(request).__name__]
