"""Does a server.properties mean here what it means to Apache Kafka 4.3.1, and is a bad one refused with what to change?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config.node_settings import parse_node_config
from headrace.config.project_keys import ALIASES
from headrace.core.errors import OperatorError
from headrace.core.listener import HostPort, Listener, QuorumVoter, SecurityProtocol

OUTCOMES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden/config/kafka-4.3.1-outcomes.json").read_text()
)["node"]
PLAIN: dict[str, str] = OUTCOMES[0]["properties"]

# Where this project is stricter or kinder than Kafka, and why.
DIFFERENT = {
    "port too big": "cannot be bound",
    "negative port": "cannot be bound",
    "controller name in lower case": "listener names are the same in any case",
    "voter twice": "contradicts itself",
    "map name twice": "contradicts itself",
    "unknown key": "B75: refused with the nearest real name",
}
# What Kafka says in other words, or without saying what to change.
OTHER_WORDS = {
    "role twice", "broker id differs", "node id too big", "node id no number", "listener unmapped", "same port", "same name",
    "two ipv4 on one port", "port no number", "no scheme", "controller name not a listener", "bad bootstrap server",
    "bad voter", "voter without port", "voter with bad port", "voter on 0.0.0.0", "not a voter", "broker in voters",
    "broker with unmapped controller name", "controller with inter broker name", "advertised without inter broker", "bad map",
    "map without controller", "no cleaner threads", "bad override", "bad override count",
}  # fmt: skip


def config(**changes: str | None) -> dict[str, str]:
    """The plain configuration with changes; `__` stands for a dot, None takes a key out."""
    named = {name.replace("__", "."): text for name, text in changes.items()}
    return {name: text for name, text in {**PLAIN, **named}.items() if text is not None}


@pytest.mark.parametrize("case", OUTCOMES, ids=[case["title"] for case in OUTCOMES])
def test_kafka_says_the_same(case: dict[str, Any]) -> None:
    """S1-05..S1-12, S1-24..S1-27, B75: what Kafka takes is taken, what it refuses is refused."""
    refusal = None
    try:
        parse_node_config(case["properties"])
    except OperatorError as error:
        refusal = str(error)
    if case["title"] in DIFFERENT:
        assert (refusal is None) != (case["outcome"] is None)
        return
    assert (refusal is None) == (case["outcome"] is None), refusal
    if refusal is not None and case["title"] not in OTHER_WORDS:
        assert refusal.startswith(case["outcome"].split(": ", 1)[1].removeprefix("requirement failed: "))


@pytest.mark.parametrize("roles", ["broker", "controller", "broker,controller", " broker , controller "])
def test_each_role_is_known(roles: str) -> None:
    """S1-05: spaces are allowed."""
    only = roles.strip()
    changes: dict[str, str | None] = {"process.roles": roles}
    if only == "broker":
        changes |= {"listeners": "PLAINTEXT://:9092", "controller.quorum.voters": "9@host:1"}
    if only == "controller":
        changes |= {"listeners": "CONTROLLER://:9093", "advertised.listeners": None}
    parsed = parse_node_config({name: text for name, text in {**PLAIN, **changes}.items() if text is not None})
    assert parsed.is_broker == ("broker" in only)
    assert parsed.is_controller == ("controller" in only)


@pytest.mark.parametrize("roles", [None, "", "boss", "broker,broker"])
def test_no_unknown_or_repeated_role(roles: str | None) -> None:
    """S1-05, S1-27: a node without roles is refused, and so is one with a role twice."""
    with pytest.raises(OperatorError, match=r"process\.roles"):
        parse_node_config(config(process__roles=roles))


def test_the_seeds_three_listeners_with_blanks() -> None:
    """S1-06, S1-08: blanks after commas; the first controller listener name is the one to dial."""
    parsed = parse_node_config(
        config(
            listeners="CLIENT://:9092, INTERNAL://:9094, CTRL1://:9093, CTRL2://:9095",
            controller__listener__names="CTRL2, CTRL1",
            inter__broker__listener__name="INTERNAL",
            advertised__listeners="CLIENT://h:1,INTERNAL://h:2",
            listener__security__protocol__map="CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CTRL1:PLAINTEXT,CTRL2:PLAINTEXT",
        )
    )
    assert parsed.controller_listener_names == ("CTRL2", "CTRL1")
    assert [one.name for one in parsed.broker_listeners] == ["CLIENT", "INTERNAL"]
    assert [one.name for one in parsed.controller_listeners] == ["CTRL1", "CTRL2"]
    assert parsed.advertised_listeners[0] == Listener("CLIENT", "h", 1, SecurityProtocol.PLAINTEXT)
    assert [one.name for one in parsed.advertised_controller_listeners] == ["CTRL1", "CTRL2"]


def test_listeners_must_be_given() -> None:
    """S1-08: an extra of this project, Kafka has a default."""
    with pytest.raises(OperatorError, match='required configuration "listeners"'):
        parse_node_config(config(listeners=None))


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ({"process.roles": "broker"}, {"listeners": "PLAINTEXT://:9092"}),
        ({"process.roles": "controller"}, {"listeners": "CONTROLLER://:9093"}),
        ({}, {"process.roles": "broker,controller", "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
        ({"process.roles": "controller,broker", "listeners": "A://h:1,B://h:2"}, {"controller.listener.names": "B"}),
    ],
)
def test_who_follows_the_examples_of_refusals_comes_to_a_node(given: dict[str, str], end: dict[str, str]) -> None:
    """S1-05, S1-08, B78: each missing key is told with a value that fits the role; a broker was told to have a controller's listener."""
    settings = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    settings |= {"inter.broker.listener.name": "A"} if "listeners" in given else {}
    settings |= given
    for _ in range(6):
        try:
            parse_node_config(settings)
            break
        except OperatorError as refusal:
            name, _, value = str(refusal).rpartition("For example: ")[2].partition("=")
            assert name not in settings
            settings[name] = value
    assert parse_node_config(settings).node_id == 1
    assert settings | end == settings


def test_voters_are_parsed_with_ipv6() -> None:
    """S1-09."""
    parsed = parse_node_config(config(controller__quorum__voters="3@[::1]:9093, 1@host-a.example:9093"))
    assert parsed.controller_quorum_voters == (QuorumVoter(1, "host-a.example", 9093), QuorumVoter(3, "::1", 9093))
    assert parsed.has_static_voters


@pytest.mark.parametrize(
    "voters", ["1@0.0.0.0:9093", "1@[::]:9093", "1@h:0", "1@h:65536", "1@h", "h:1", "x@h:1", "1@:9093"]
)
def test_bad_voters_are_refused(voters: str) -> None:
    """S1-09: 0.0.0.0 rules, bad ports, no id."""
    with pytest.raises(OperatorError, match=r"controller\.quorum\.voters"):
        parse_node_config(config(controller__quorum__voters=voters))


def test_bootstrap_servers_make_a_dynamic_quorum() -> None:
    """S1-09, KIP-853."""
    parsed = parse_node_config(
        config(controller__quorum__voters=None, controller__quorum__bootstrap__servers="a:1,[::1]:2")
    )
    assert parsed.controller_quorum_bootstrap_servers == (HostPort("a", 1), HostPort("::1", 2))
    assert not parsed.has_static_voters


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_stands_for_todays_name(alias: str, name: str) -> None:
    """Ledger section 2, S1-09..S1-11, S0-43: the older name sets the key, and contradicts it if it says another thing."""
    value, other = {
        "controller.quorum.voters": ("1@localhost:9093", "1@localhost:9094"),
        "controller.quorum.bootstrap.servers": ("localhost:9093", "localhost:9094"),
        "node.id": ("1", "2"),
    }.get(name, ("9001", "9002"))
    without = {key: text for key, text in PLAIN.items() if key != name}
    parsed = parse_node_config({**without, alias: value})
    assert parsed.originals[name] == value
    assert parse_node_config({**without, alias: value, name: value}).originals[name] == value
    with pytest.raises(
        OperatorError, match=f"{alias}={value}.*{name}={other}.*contradict each other".replace(".", r"\.", 0)
    ):
        parse_node_config({**without, alias: value, name: other})


def test_two_aliases_may_not_contradict_each_other() -> None:
    """S1-10, S1-11."""
    with pytest.raises(OperatorError, match="contradict each other"):
        parse_node_config({**config(node__id=None), "broker.id": "1", "controller.id": "2"})


@pytest.mark.parametrize("text", ["-1", "2147483648", "1.5", "", "one"])
def test_a_node_id_is_a_number_from_0_on(text: str) -> None:
    """S1-10, S1-11: 32 bits, not negative; the message names key, value and range."""
    with pytest.raises(OperatorError, match=rf"Invalid value {text} for configuration node\.id: .*\[0,\.\.\.\]"):
        parse_node_config(config(node__id=text))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("initial_broker_registration_timeout_ms", 60_000),
        ("broker_heartbeat_interval_ms", 2_000),
        ("broker_session_timeout_ms", 9_000),
        ("controller_quorum_fetch_timeout_ms", 2_000),
        ("controller_quorum_election_timeout_ms", 1_000),
        ("controller_quorum_election_backoff_max_ms", 1_000),
        ("controller_quorum_request_timeout_ms", 2_000),
        ("controller_quorum_retry_backoff_ms", 20),
        ("controller_quorum_retry_backoff_max_ms", 1_000),
        ("broker_heartbeat_timeout_ms", 13_500),
    ],
)
def test_timeouts_of_the_quorum_and_of_registration(name: str, value: int) -> None:
    """S1-13..S1-15, S1-17..S1-23, S0-43, S0-44: the defaults, and each is its own key."""
    key = name.replace("_", ".")
    assert parse_node_config(PLAIN).values[key] == value
    assert parse_node_config({**PLAIN, key: str(value + 1)}).values[key] == value + 1


def test_the_metadata_log_lies_in_the_first_log_dir() -> None:
    """S1-16."""
    assert parse_node_config(config(log__dirs="/a,/b")).metadata_log_dir == "/a"
    assert parse_node_config(config(log__dirs="/a,/b", metadata__log__dir="/c")).metadata_log_dir == "/c"


def test_a_control_plane_listener_is_refused() -> None:
    """S1-07, S1-24."""
    with pytest.raises(OperatorError, match=r"control\.plane\.listener\.name is not supported"):
        parse_node_config({**PLAIN, "control.plane.listener.name": "CONTROLLER"})


def test_keys_of_the_past_are_accepted_and_listed_once() -> None:
    """S1-25, S1-26: without effect; so are keys that Kafka has and we do not need."""
    extra = {
        "zookeeper.connect": "z:2181",
        "broker.id.generation.enable": "true",
        "ssl.keystore.location": "/k",
        "listener.name.x.ssl.keystore.location": "/k",
        "config.providers.file.class": "X",
    }
    assert parse_node_config({**PLAIN, **extra}).without_effect == tuple(sorted(extra))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("log.retention.hour", "log.retention.hours"),
        ("listener", "listeners"),
        ("broker.session.timeout", "broker.session.timeout.ms"),
        ("headrace.validate.record", "headrace.validate.records"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    """B75."""
    with pytest.raises(OperatorError, match=f"^Unknown configuration {name}; did you mean {nearest}\\?$"):
        parse_node_config({**PLAIN, name: "1"})


def test_a_key_of_a_named_plugin_passes_and_a_slip_of_the_pen_does_not() -> None:
    """B75: plugin keys are excepted."""
    plugin = {**PLAIN, "client.quota.callback.class": "org.example.Quotas", "org.example.quota": "7"}
    assert "org.example.quota" in parse_node_config(plugin).without_effect
    with pytest.raises(OperatorError, match=r"log\.retention\.hours"):
        parse_node_config({**plugin, "log.retention.hour": "1"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"listeners": "SSL://:9092,CONTROLLER://:9093", "security.inter.broker.protocol": "SSL"}, "SSL"),
        ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "authorizer.class.name"),
    ],
)
def test_what_would_guard_the_node_is_not_left_out_quietly(changes: dict[str, str], said: str) -> None:
    """B75: a setting whose absence nobody would notice is refused."""
    extra = {"advertised.listeners": "SSL://h:1", "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT"}
    given = {**PLAIN, **(extra if "listeners" in changes else {}), **changes}
    with pytest.raises(OperatorError, match=f"{said}.*not supported yet"):
        parse_node_config(given)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("name", ["PLAINTEXT", "CONTROLLER"])
def test_no_listener_can_ask_for_a_login(protocol: str, name: str) -> None:
    """input:B2: so there is no time before a login, which a smaller limit would have to guard; the limit's key has no effect, and that is said."""
    mapped = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", name: protocol}
    text = ",".join(f"{one}:{each}" for one, each in mapped.items())
    with pytest.raises(OperatorError, match=f"Listener {name} speaks {protocol}, which is not supported yet"):
        parse_node_config(config(listener__security__protocol__map=text))
    assert parse_node_config(config(sasl__server__max__receive__size="1000")).without_effect == (
        "sasl.server.max.receive.size",
    )


@pytest.mark.parametrize(("fencing", "is_taken"), [("0", True), ("9000", False), ("8999", False), ("9001", True)])
def test_self_fencing_comes_after_the_session_timeout(fencing: str, *, is_taken: bool) -> None:
    """S0-20: the broker's timeout is the longer one; 0 switches self-fencing off."""
    given = {**PLAIN, "broker.heartbeat.timeout.ms": fencing}
    if is_taken:
        assert parse_node_config(given).values["broker.heartbeat.timeout.ms"] == int(fencing)
        return
    with pytest.raises(OperatorError, match=r"broker\.heartbeat\.timeout\.ms \(\d+ ms\) must be greater"):
        parse_node_config(given)


def test_self_fencing_follows_a_longer_session_timeout() -> None:
    """S0-20, S0-44: one and a half sessions unless it is set, so that Kafka's own files stay valid."""
    assert (
        parse_node_config(config(broker__session__timeout__ms="18000")).values["broker.heartbeat.timeout.ms"] == 27_000
    )


def test_a_listener_has_its_own_limits_of_connections() -> None:
    """KIP-402, KIP-612: by the listener's name; a name that no listener has is remarked, a limit of nothing refused."""
    own = {
        "listener.name.plaintext.max.connections": "7",
        "listener.name.plaintext.max.connection.creation.rate": "3",
        "listener.name.plaintxt.max.connections": "9",
    }
    settings = parse_node_config({**PLAIN, **own})
    assert settings.max_connections_of_listeners == {"PLAINTEXT": 7, "PLAINTXT": 9}
    assert settings.creation_rates_of_listeners == {"PLAINTEXT": 3}
    assert settings.without_effect == ()
    (remark,) = settings.warnings
    assert remark.startswith("listener.name.plaintxt: a limit of connections has no effect")
    for text in ("0", "x", ""):
        with pytest.raises(OperatorError, match=r"listener\.name\.plaintext\.max\.connections"):
            parse_node_config({**PLAIN, "listener.name.plaintext.max.connections": text})


def test_a_lease_of_less_than_three_heartbeats_is_remarked() -> None:
    """S1-15: k x interval, k >= 3."""
    assert parse_node_config(PLAIN).warnings == ()
    (remark,) = parse_node_config(config(broker__heartbeat__interval__ms="3001")).warnings
    assert "broker.heartbeat.interval.ms (3001 ms) should be at most a third" in remark


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-7"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(given: dict[str, str], expected: int) -> None:
    """Kafka: ms over minutes over hours; negative is unlimited."""
    assert parse_node_config({**PLAIN, **given}).log_retention_ms == expected


def test_a_secret_is_not_shown() -> None:
    """B70, B75: the value of a password key appears in no representation."""
    parsed = parse_node_config({**PLAIN, "ssl.key.password": "s3cret"})
    assert "s3cret" not in repr(parsed)
    assert "s3cret" not in repr(parsed.values)
