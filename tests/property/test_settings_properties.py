"""Whatever a configuration says, is the answer a configuration or one clear refusal?"""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from headrace.config.dynamic import check_broker_settings, effective_config
from headrace.config.node_settings import KEYS, parse_node_config
from headrace.config.project_keys import ALIASES
from headrace.config.properties import MalformedProperties, decode_properties, format_properties, parse_properties
from headrace.config.rules import ResourceType, apply_operation, check_resource_configs, keys_of
from headrace.config.topic_config import topic_config
from headrace.core.errors import OperatorError, PeerError

PLAIN = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}
NODE = parse_node_config(PLAIN)
names = st.sampled_from(sorted({*KEYS, *ALIASES})) | st.text(max_size=12)
pieces = st.sampled_from(
    ["PLAINTEXT", "SSL", "CONTROLLER", "://", ":", ",", "9092", "0", "-1", "1@h:1", "[::1]", "true", "broker", "*", " ", "99999999999", "1e5", "é", "\0"]
)  # fmt: skip
values = st.lists(pieces, max_size=5).map("".join) | st.text(max_size=20) | st.integers().map(str)
settings = st.dictionaries(names, values, max_size=4)
topic_settings = st.dictionaries(
    st.sampled_from(sorted(keys_of(ResourceType.TOPIC))) | st.text(max_size=8), values, max_size=4
)


@given(settings)
def test_any_file_is_a_configuration_or_a_refusal(given_settings: dict[str, str]) -> None:
    """input:B75: no other exception."""
    with suppress(OperatorError):
        parse_node_config({**PLAIN, **given_settings})


@given(st.binary(max_size=200))
def test_any_bytes_are_properties_or_a_refusal(data: bytes) -> None:
    """input:B75, input:B77: bad encodings too."""
    try:
        found = parse_properties(decode_properties(data))
    except MalformedProperties:
        return
    assert parse_properties(format_properties(found, comment="again")) == found


@given(topic_settings)
def test_any_topic_settings_are_taken_or_refused(given_settings: dict[str, str]) -> None:
    """input:B70: what is taken makes a topic's configuration; what is refused says why."""
    with suppress(PeerError):
        check_resource_configs(ResourceType.TOPIC, "t", given_settings, node=NODE)
    topic_config(given_settings)


@given(settings, settings)
def test_any_stored_settings_leave_a_working_node(cluster: dict[str, str], own: dict[str, str]) -> None:
    """input:B70: what cannot be applied is left out; the check before it is stored refuses with INVALID_REQUEST or not at all."""
    assert effective_config(NODE, cluster, own).node_id == 1
    for is_default in (True, False):
        with suppress(PeerError):
            check_broker_settings(NODE, NODE, cluster=cluster, own=own, is_default=is_default)


@given(names, st.none() | values, st.integers(-2, 5), st.none() | values)
def test_any_operation_gives_a_text_or_a_refusal(
    name: str, current: str | None, operation: int, value: str | None
) -> None:
    """input:B70: incremental changes of any key."""
    for kind in ResourceType:
        try:
            changed = apply_operation(kind, name, current, operation=operation, value=value)
        except PeerError:
            continue
        assert changed is None or isinstance(changed, str)
