"""What a write that failed means to who runs the query, in one line with the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

_REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or lower kafka.batch.size if no single row is that large",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic, or lower kafka.batch.size",
    ErrorCode.INVALID_RECORD: "a compacted topic takes rows with a key only: give a column key without nulls",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "say another kafka.compression.type",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic was deleted meanwhile: make it again and run the query again",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow the user to write to the topic (operation Write)",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "allow the user IdempotentWrite, or say kafka.enable.idempotence=false",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for: start the brokers that are away",
    ErrorCode.REQUEST_TIMED_OUT: "look whether all brokers run and replicate",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "look at kafka.sasl.mechanism and kafka.sasl.jaas.config",
}


def explained(error: PeerError, where: TopicPartition | None) -> OperatorError:
    """The error of a write to `where` (None where no partition is to blame), with what can be done about it."""
    place = "" if where is None else f" to {where.topic}-{where.partition}"
    text = " ".join(error.message.split())
    named = error.code.name if text == error.code.name else f"{error.code.name}: {text}"
    remedy = _REMEDIES.get(error.code)
    advice = "" if remedy is None else f"; {remedy}"
    return OperatorError(f"the write{place} failed with {named}{advice}. Rows of this task may have been written")
