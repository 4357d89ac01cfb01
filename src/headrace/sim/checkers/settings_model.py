"""What records say about settings, ACLs, credentials, quotas and tokens, as plain sets and maps.  C17"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.ids import Uuid
from headrace.metadata.image import RESOURCE_TOPIC, MetadataImage
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from headrace.wire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    Entity = frozenset[tuple[str, str | None]]


class SettingsModel:
    """Dictionaries moved by the records alone, to be compared with the image after each batch."""

    def __init__(self) -> None:
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self._names: dict[Uuid, str] = {}
        self._held: list[Any] = []

    @property
    def held(self) -> int:
        """How many records of an open metadata transaction wait."""
        return len(self._held)

    def hold(self, records: Sequence[Any]) -> None:
        """Records that are not visible yet."""
        self._held += records

    def take(self, records: Sequence[Any], image: MetadataImage) -> str:
        """Apply the records; what `image` says otherwise, "" when nothing."""
        every, self._held = _without_aborted([*self._held, *records]), []
        touched: set[str] = set()
        for record in every:
            what = self._apply(record)
            if what:
                touched.add(what)
        return next((wrong for what in sorted(touched) if (wrong := self._compare(what, image))), "")

    def _apply(self, record: Any) -> str:
        match record:
            case ConfigRecord():
                settings = self.configs.setdefault((record.resource_type, record.resource_name), {})
                settings.pop(record.name, None)
                if record.value is not None:
                    settings[record.name] = record.value
                if not settings:
                    del self.configs[record.resource_type, record.resource_name]
                return "configs"
            case TopicRecord():
                self._names[record.topic_id] = record.name
                return ""
            case RemoveTopicRecord():
                name = self._names.pop(record.topic_id, None)
                return "" if name is None or self.configs.pop((RESOURCE_TOPIC, name), None) is None else "configs"
            case ClientQuotaRecord():
                return self._quota(record)
            case _:
                return self._access(record)

    def _quota(self, record: ClientQuotaRecord) -> str:
        entity = frozenset((each.entity_type, each.entity_name) for each in record.entity)
        quotas = self.quotas.setdefault(entity, {})
        quotas.pop(record.key, None)
        if not record.remove:
            quotas[record.key] = record.value
        if not quotas:
            del self.quotas[entity]
        return "quotas"

    def _access(self, record: Any) -> str:
        match record:
            case AccessControlEntryRecord():
                self.acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case UserScramCredentialRecord():
                self.scram[record.name, record.mechanism] = record
            case RemoveUserScramCredentialRecord():
                self.scram.pop((record.name, record.mechanism), None)
            case DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case _:
                return ""
        return "access"

    def _compare(self, what: str, image: MetadataImage) -> str:
        if what == "configs":
            said = {tuple(key): dict(value) for key, value in image.configs.by_resource.items()}
            return "" if said == self.configs else f"configs are {said}, the records say {self.configs}"
        if what == "quotas":
            quotas = {frozenset(map(tuple, key)): dict(value) for key, value in image.client_quotas.items()}
            return "" if quotas == self.quotas else f"quotas are {quotas}, the records say {self.quotas}"
        for name, shown, known in (
            ("ACLs", set(image.acls), set(self.acls)),
            ("SCRAM credentials", set(image.scram), set(self.scram)),
            ("tokens", set(image.delegation_tokens), set(self.tokens)),
        ):
            if shown != known:
                return f"{name} {sorted(map(str, shown ^ known))} are there or gone against the records"
        return self._contents(image)

    def _contents(self, image: MetadataImage) -> str:
        for key, entry in self.acls.items():
            shown = image.acls[key]
            fields = (
                "resource_type",
                "resource_name",
                "pattern_type",
                "principal",
                "host",
                "operation",
                "permission_type",
            )
            if any(getattr(shown, each) != getattr(entry, each) for each in fields):
                return f"the ACL {key} is {shown}, the records say {entry}"
        for name, credential in self.scram.items():
            if image.scram[name].stored_key != credential.stored_key:
                return f"the credential of {name[0]} is another one than the records say"
        return ""


def _without_aborted(records: list[Any]) -> list[Any]:
    """The records but those between the begin and the abort of a metadata transaction."""
    kept: list[Any] = []
    mark = 0
    for record in records:
        if isinstance(record, BeginTransactionRecord):
            mark = len(kept)
        elif isinstance(record, AbortTransactionRecord):
            del kept[mark:]
        else:
            kept.append(record)
    return kept
