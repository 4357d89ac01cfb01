"""The requests and responses of ListTransactions (api key 66).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ListTransactionsRequest(Message, kind="request", api_key=66, versions="0-2", flexible="0+"):
    """Request of api key 66."""

    state_filters: tuple[str, ...] = field("[]string 0+", default=())
    producer_id_filters: tuple[int, ...] = field("[]int64 0+ entity=producerId", default=())
    duration_filter: int = field("int64 1+", default=-1)
    transactional_id_pattern: str | None = field("string 2+ nullable=2+", default=None)


class TransactionState(Struct):
    """Part of `ListTransactionsResponse`."""

    transactional_id: str = field("string 0+ entity=transactionalId", default="")
    producer_id: int = field("int64 0+ entity=producerId", default=0)
    transaction_state: str = field("string 0+", default="")


class ListTransactionsResponse(Message, kind="response", api_key=66, versions="0-2", flexible="0+"):
    """Response of api key 66."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    unknown_state_filters: tuple[str, ...] = field("[]string 0+", default=())
    transaction_states: tuple[TransactionState, ...] = field("[]TransactionState 0+", default=())
