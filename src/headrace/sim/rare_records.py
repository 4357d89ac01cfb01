"""Metadata records of the kinds that no request of this version writes: ACLs, credentials, quotas, delegation tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.ids import Uuid
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from headrace.wire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from headrace.wire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from headrace.wire.schema import Message


def rare_records() -> tuple[Message, ...]:
    """Two of each kind, of which one goes again, and one that is changed."""
    acls = [
        AccessControlEntryRecord(
            id=Uuid(b"acl-of-a-run--0" + bytes([48 + number])),
            resource_type=2,
            resource_name=f"topic-{number}",
            pattern_type=3,
            principal="User:somebody",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(2)
    ]
    credentials = [
        UserScramCredentialRecord(
            name=name, mechanism=1, salt=b"salt", stored_key=key, server_key=b"server key", iterations=4_096
        )
        for name, key in (("alice", b"key"), ("bob", b"key"), ("alice", b"another key"))
    ]
    tokens = [
        DelegationTokenRecord(owner="User:alice", requester="User:alice", token_id=f"token-{number}")
        for number in range(2)
    ]
    quotas = [
        ClientQuotaRecord(
            entity=(EntityData(entity_type="user", entity_name=name),),
            key="producer_byte_rate",
            value=rate,
            remove=gone,
        )
        for name, rate, gone in (("alice", 1_000.0, False), (None, 500.0, False), ("alice", 0.0, True))
    ]
    return (
        *acls,
        RemoveAccessControlEntryRecord(id=acls[0].id),
        *credentials,
        RemoveUserScramCredentialRecord(name="bob", mechanism=1),
        *tokens,
        RemoveDelegationTokenRecord(token_id="token-0"),
        *quotas,
    )
