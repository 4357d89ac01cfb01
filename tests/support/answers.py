"""The handler of an API whose answers a test gives: `target` is a function of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HotResult


def handle(request: Any, context: RequestContext, target: Callable[[Any, RequestContext], HotResult]) -> HotResult:
    """What the target says."""
    return target(request, context)
