"""Settings of all brokers, changed while they run (KIP-226, KIP-339)."""

from __future__ import annotations

from typing import Final

from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw import RawConnection

SET, DELETE = 0, 1
BROKER: Final = 4


def alter(connection: RawConnection, name: str, operation: int, value: str | None = None) -> int:
    """Change a setting of all brokers; the error."""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(config,))
    error: int = connection.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code
    return error
