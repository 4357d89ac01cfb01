"""Are the options of the commands taken as Kafka's tools take them, and wrong ones refused in one line?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete

from headrace import __version__
from headrace.cli import (
    broker_api_versions,
    configs,
    consumer_groups,
    features,
    get_offsets,
    group_offsets,
    log_dirs,
    producer_perf_test,
    topics,
)
from headrace.cli.completion import LazyGroup
from headrace.cli.console_consumer import parse_offset
from headrace.cli.console_producer import parse_acks
from headrace.cli.delete_records import parse_offsets
from headrace.cli.groups import is_wanted
from headrace.cli.java_dates import format_date
from headrace.cli.main import COMMANDS, run, usage
from headrace.cli.shell import compiled, connect, pairs
from headrace.cli.start import HELP
from headrace.client.admin_cluster import UpgradeType
from headrace.client.groups import GroupListing
from headrace.client.talk import Address
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.metadata.releases import FEATURES
from headrace.node.journal import FORMAT
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse


def refused(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(OperatorError) as caught:
        call(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_b_t11_assignments_list_the_brokers_of_each_partition() -> None:
    """B-T11: `--replica-assignment`."""
    assert topics.parse_assignment("1:2,2:1") == ((1, 2), (2, 1))
    assert topics.parse_assignment(None) is None
    assert "duplicate" in refused(topics.parse_assignment, "1:1")
    assert "different replication factor" in refused(topics.parse_assignment, "1:2,1")
    refused(topics.parse_assignment, "1:x")


def test_b_t11_settings_are_name_value_pairs() -> None:
    """B-T11: `--config`."""
    assert topics.parse_configs(("a = 1", "b=x=y")) == {"a": "1", "b": "x=y"}
    refused(topics.parse_configs, ("a",))
    refused(topics.parse_configs, ("=1",))


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("list", {"partitions": 1}),
        ("list", {"if_exists": True}),
        ("create", {"if_exists": True, "topic": "t"}),
        ("delete", {"if_not_exists": True, "topic": "t"}),
        ("create", {}),
        ("alter", {"topic": "t"}),
        ("create", {"topic": "t", "partitions": 1, "replica_assignment": "1"}),
        ("create", {"topic": "t", "replication_factor": 1, "replica_assignment": "1"}),
        ("describe", {"under_replicated_partitions": True, "unavailable_partitions": True}),
        ("list", {"topic_id": "x"}),
    ],
)
def test_b_t11_options_that_do_not_belong_together_are_refused(action: str, given: dict[str, Any]) -> None:
    """B-T11: as in kafka-topics."""
    options = dict.fromkeys((*topics._ONLY_WITH, "topic"), None) | given
    refused(topics.Wanted(action, options).check)


def test_b_t12_brackets_hold_values_with_commas() -> None:
    """B-T12: `--add-config`."""
    assert configs.parse_changes("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    refused(configs.parse_changes, "a=1,b")
    refused(configs.parse_changes, "")


def entity(**given: Any) -> configs.Entity:
    names = (*configs.SHORT_FORMS, *configs.QUOTA_FORMS, "broker_defaults", "entity_default")
    return configs.parse_entity(dict.fromkeys(names, None) | {"entity_type": (), "entity_name": ()} | given)


def test_b_t12_entities_have_two_spellings() -> None:
    """B-T12: `--topic t` is `--entity-type topics --entity-name t`."""
    assert entity(topic="t") == entity(entity_type=("topics",), entity_name=("t",)) == ("topics", "t")
    assert entity(broker_defaults=True) == entity(entity_type=("brokers",), entity_default=True) == ("brokers", "")
    assert entity(entity_type=("brokers",)) == ("brokers", None)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"topic": "t", "broker": "1"},
        {"broker": "one"},
        {"entity_type": ("towns",)},
        {"entity_type": ("topics",), "entity_default": True},
        {"user": "u"},
        {"entity_type": ("clients",)},
    ],
)
def test_b_t12_entities_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    """B-T12, B70."""
    refused(lambda: entity(**given))


def test_get_offsets_patterns_choose_topics_and_partitions() -> None:
    """B-T12: `--topic-partitions`, whose ranges end exclusively."""
    chosen = get_offsets.parse_choice(None, None, "a:1,b.*:2-4,c,:7-,d:-2")
    wanted = [("a", 1), ("bx", 2), ("bx", 3), ("c", 0), ("z", 7), ("z", 9), ("d", 1)]
    unwanted = [("a", 2), ("bx", 4), ("bx", 1), ("z", 6), ("d", 2)]
    assert all(chosen(*each) for each in wanted)
    assert not any(chosen(*each) for each in unwanted)
    by_options = get_offsets.parse_choice("t|u", "0,2", None)
    assert [by_options("t", 0), by_options("u", 2), by_options("t", 1), by_options("v", 0)] == [
        True,
        True,
        False,
        False,
    ]
    refused(get_offsets.parse_choice, "t", None, "a:1")
    refused(get_offsets.parse_choice, "t", "x", None)
    refused(get_offsets.parse_rule, "a:b")


def test_get_offsets_times_have_names() -> None:
    """B-T12: `--time`."""
    assert [get_offsets.parse_time(text) for text in ("latest", "earliest", "max-timestamp", "-4", "17")] == [
        -1,
        -2,
        -3,
        -4,
        17,
    ]
    refused(get_offsets.parse_time, "soon")


def test_reset_plans_understand_times_durations_and_topics() -> None:
    """B-T12: the strategies of `--reset-offsets`."""
    assert group_offsets.parse_datetime("1970-01-01T00:00:01.500") == 1_500
    assert group_offsets.parse_datetime("1970-01-01T02:00:00.000+02:00") == 0
    assert group_offsets.parse_duration("P1DT2H3M4.5S") == ((26 * 60 + 3) * 60 + 4) * 1000 + 500
    assert group_offsets.parse_duration("PT-1H") == -3_600_000
    assert group_offsets.parse_topic("t:0,2") == ("t", [0, 2])
    assert group_offsets.parse_topic("t") == ("t", None)
    for text in ("P", "PT", "1D", "P1H"):
        refused(group_offsets.parse_duration, text)
    for text in ("1970-01-01", "yesterday"):
        refused(group_offsets.parse_datetime, text)
    refused(group_offsets.parse_topic, "t:x")


def test_reset_plans_come_from_csv_with_and_without_groups() -> None:
    """B-T12: `--from-file`."""
    assert group_offsets.parse_csv("t,0,5\nt,1,6\n", "g") == {
        "g": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    }
    assert group_offsets.parse_csv('a,"t,x",0,5\nb,t,0,6', None) == {
        "a": {TopicPartition("t,x", 0): 5},
        "b": {TopicPartition("t", 0): 6},
    }
    for text in ("t,0", "t,x,5", "a,b,c,d,e"):
        refused(group_offsets.parse_csv, text, "g")
    refused(group_offsets.parse_csv, "t,0,5", None)


def test_group_filters_choose_by_type_and_protocol() -> None:
    """B-T12: kafka-groups `--consumer` takes classic groups of consumers and those with offsets only."""
    none: dict[str, Any] = {"consumer": False, "share": False, "streams": False, "group_type": None, "protocol": None}
    simple = GroupListing(group_id="s", protocol="", state="Empty", kind="Classic")
    connect = GroupListing(group_id="c", protocol="connect", state="Stable", kind="Classic")
    share = GroupListing(group_id="h", protocol="share", state="Stable", kind="Share")
    every = (simple, connect, share)
    assert [is_wanted(each, none) for each in every] == [True, True, True]
    assert [is_wanted(each, none | {"consumer": True}) for each in every] == [True, False, False]
    assert [is_wanted(each, none | {"share": True}) for each in every] == [False, False, True]
    assert [is_wanted(each, none | {"group_type": "CLASSIC", "protocol": "connect"}) for each in every] == [
        False,
        True,
        False,
    ]
    assert consumer_groups.parse_names("stable, EMPTY", consumer_groups.STATES, "states") == ["Stable", "Empty"]
    refused(consumer_groups.parse_names, "happy", consumer_groups.STATES, "states")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"version": 2, "partitions": []}',
        '{"version": 1}',
        '{"version": 1, "partitions": {}}',
        '{"version": 1, "partitions": [[]]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": "0", "offset": 1}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 99999999999999999999}]}',
        '{"version": 1, "version": 1, "partitions": []}',
        '{"version": 1, "partitions": [{"topic": "t", "topic": "u", "partition": 0, "offset": 1}]}',
        '{"version": 1, "partitions": [' + ",".join(['{"topic": "t", "partition": 0, "offset": 1}'] * 2) + "]}",
        '{"version": NaN, "partitions": []}',
        "[" * 200_000,
        '{"x": "' + "y" * (1 << 20),
    ],
    ids=lambda text: text[:40],
)
def test_b78_json_that_is_no_offset_file_is_refused_in_one_line(text: str) -> None:
    """B78: 1 MiB JSON, JSON that is a list, repeated keys, nesting without end."""
    assert len(refused(parse_offsets, text)) < 1_000


def test_delete_records_takes_kafkas_file() -> None:
    """B-T12: the format of kafka-delete-records."""
    text = '{"partitions": [{"topic": "t", "partition": 1, "offset": -1}], "version": 1}'
    assert parse_offsets(text) == {TopicPartition("t", 1): -1}


def test_log_dirs_refuses_brokers_that_do_not_exist() -> None:
    """B-T12: as kafka-log-dirs."""
    assert log_dirs.parse_brokers("", [2, 1]) == [1, 2]
    assert log_dirs.parse_brokers("2", [2, 1]) == [2]
    assert "9. Current existent brokers: 1,2" in refused(log_dirs.parse_brokers, "9", [2, 1])
    refused(log_dirs.parse_brokers, "x", [1])


def test_b_t08_levels_come_from_features_or_a_release() -> None:
    """B-T08: `--release-version` stands alone; a feature is named once."""
    up, down = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE
    assert features.wanted_levels(None, None, ("a.version=1", "metadata.version=30"), kind=up) == {
        "a.version": 1,
        "metadata.version": 30,
    }
    bad: list[tuple[str | None, tuple[str, ...]]] = [
        ("4.0-IV0", ("a=1",)), (None, ("a=1", "a=2")), (None, ("a",)), ("9.9", ()), (None, ("a=-1",)),
    ]  # fmt: skip
    for release, given in bad:
        refused(features.wanted_levels, None, release, given, kind=down)
    refused(features.wanted_levels, None, None, ("a=0",), kind=up)


def test_b_t08_an_upgrade_to_a_release_leaves_alone_what_the_release_has_not() -> None:
    """B-T08: a cluster that has a feature already, which the release has at 0, would refuse the whole upgrade."""
    wanted = features.wanted_levels(None, "3.9-IV0", (), kind=UpgradeType.UPGRADE)
    assert wanted == {"metadata.version": 21, "kraft.version": 1}
    lowered = features.wanted_levels(None, "3.9-IV0", (), kind=UpgradeType.SAFE_DOWNGRADE)
    assert lowered == {**dict.fromkeys(FEATURES, 0), **wanted}


def test_console_options_are_checked() -> None:
    """B-T12: offsets, acks, patterns and properties of the console tools."""
    assert [parse_offset(text) for text in ("earliest", "latest", "12", None)] == [-2, -1, 12, -1]
    assert [parse_acks(text) for text in ("all", "-1", "0", "1")] == [-1, -1, 0, 1]
    assert pairs(("a=b=c", "d=")) == {"a": "b=c", "d": ""}
    assert compiled("'a, b.*'").fullmatch("bx") is not None
    refused(parse_offset, "-5")
    refused(parse_acks, "2")
    refused(pairs, ("a",))
    refused(compiled, "(")


def test_dates_are_written_as_java_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--date-format` of the consumer's perf test."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert format_date(1.25, "yyyy-MM-dd HH:mm:ss:SSS") == "1970-01-01 00:00:01:250"
    assert format_date(1.25, "'at' HH'h'") == "at 00h"
    refused(format_date, 1.0, "qqq")


def test_api_versions_say_what_is_usable() -> None:
    """B-T12: KIP-35's tool; an API of the broker only has no name, one of ours only is unsupported."""
    keys = (
        ApiVersion(api_key=0, min_version=0, max_version=13),
        ApiVersion(api_key=32_000, min_version=2, max_version=2),
    )
    rows = {row[1]: row for row in broker_api_versions._rows(ApiVersionsResponse(api_keys=keys))}
    assert rows[0] == ("Produce", 0, "0 to 13", 13)
    assert rows[32_000] == ("UNKNOWN", 32_000, "2", None)
    assert rows[1] == ("Fetch", 1, "UNSUPPORTED", None)


def test_b_t01_every_command_is_listed_and_a_wrong_word_is_refused_with_the_nearest() -> None:
    """B-T01: `headrace` and its help; a typing error is one line and exit code 1."""
    assert all(f"  {name} " in usage() for name in COMMANDS)
    assert "did you mean 'topics'" in refused(run, ["topcis"])


def test_without_an_address_it_is_the_node_that_start_starts(tmp_path: Path) -> None:
    """B-T01: the listener of the quick start; what a properties file or the command line says goes before."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=elsewhere:1\n")
    for given, properties, expected in (
        (None, None, ("127.0.0.1", 9092)),
        (None, str(file), ("elsewhere", 1)),
        ("here:2", str(file), ("here", 2)),
    ):
        with connect(given, properties) as client:
            assert client.session.settings.bootstrap == (Address(host=expected[0], port=expected[1]),)


def test_completion_knows_all_commands_and_their_options() -> None:
    """Shell completion imports a command only when it is asked about."""
    group = LazyGroup("headrace")
    context = click.Context(group)
    assert group.list_commands(context) == list(COMMANDS)
    for name in ("topics", "configs", "consumer-groups", "console-consumer", "cluster"):
        found = group.get_command(context, name)
        assert found is not None
        assert found.params or isinstance(found, click.Group)
    assert group.get_command(context, "nothing") is None


def test_completion_knows_what_start_and_stop_take() -> None:
    """B-T01: commands without click are completed too, with every option that their help names."""
    group = LazyGroup("headrace")
    context = click.Context(group)
    start = group.get_command(context, "start")
    assert start is not None
    offered = {word for parameter in start.params for word in parameter.opts} | {"--help"}
    assert set(re.findall(r"--[a-z-]+", HELP)) <= offered
    stop = group.get_command(context, "stop")
    assert stop is not None
    assert [parameter.name for parameter in stop.params] == ["file", "override"]


def test_completion_offers_files_and_the_values_that_an_option_takes() -> None:
    """B-T01: `headrace storage info -c <TAB>` lists files, `--entity-type <TAB>` the types."""
    completion = BashComplete(LazyGroup("headrace"), {}, "headrace", "_HEADRACE_COMPLETE")

    def answers(*words: str) -> list[tuple[str, str]]:
        *before, begun = words
        return [(each.type, each.value) for each in completion.get_completions(before, begun)]

    assert answers("start", "serv") == [("file", "serv")]
    assert answers("storage", "info", "-c", "") == [("file", "")]
    assert answers("dump-log", "--files", "") == [("file", "")]
    assert answers("configs", "--entity-type", "brokers") == [("plain", "brokers")]
    assert answers("console-producer", "--compression-codec", "l") == [("plain", "lz4")]


def test_b_t12_the_delimiter_of_payloads_may_be_an_escape_or_any_text() -> None:
    """B-T12, B78: what is none is refused in one line."""
    cases = {"\\n": "\n", "\\t|": "\t|", "§": "§", "\\u00a7": "§", "ж,": "ж,"}
    assert {text: producer_perf_test.parse_delimiter(text) for text in cases} == cases
    for text in ("", "\\", "a\\x1"):
        assert "--payload-delimiter" in refused(producer_perf_test.parse_delimiter, text)


def test_b_t12_a_warm_up_leaves_something_to_measure() -> None:
    """B-T12: Kafka's words."""
    asked = ["producer-perf-test", "--topic", "t", "--num-records", "3", "--record-size", "1", "--throughput", "-1"]
    assert "strictly fewer than" in refused(run, [*asked, "--warmup-records", "3"])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's tools do, too."""
    assert run([name, "--version"]) == 0
    assert capsys.readouterr().out == f"headrace {__version__}\n"


def test_a_file_that_is_no_journal_all_the_way_is_refused(tmp_path: Path) -> None:
    """B78: bytes that are no text behind a good beginning, and a value of another version."""
    file = tmp_path / "journal"
    file.write_bytes(b'{"level": "quorum",' + b" " * 9_000 + b"\xff}")
    assert "it is not text" in refused(run, ["debug", "replay", str(file)])
    file.write_text(json.dumps({"format": FORMAT, "start": {"object": "headrace.gone:Start", "of": {}}, "files": {}}))
    assert "is not known to this version" in refused(run, ["debug", "replay", str(file)])


def test_b_t11_an_option_that_lost_its_effect_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """B-T11: scripts that still give `--delete-config` go on, as with Kafka's tool."""
    refused(run, ["topics", "--list", "--delete-config", "retention.ms", "--bootstrap-server", "127.0.0.1:1"])
    assert "has no effect" in capsys.readouterr().err


def test_an_option_in_the_wrong_place_is_told_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the name of a command in a group, or behind it; one that nobody has is told as that and no more."""
    for arguments, said in (
        (
            ["plan", "apply", "p", "--bootstrap-server", "h:1"],
            "It belongs before apply: headrace plan --bootstrap-server",
        ),
        (
            ["quorum", "describe", "--bootstrap-server", "h:1"],
            "It belongs before describe: headrace quorum --bootstrap",
        ),
        (["cluster", "--id", "3", "decommission"], "It belongs behind one of these: decommission, unregister"),
        (["pipeline", "--project", "p", "run"], "It belongs behind one of these: run, status, validate"),
        (["plan", "apply", "p", "--nonsense"], "No such option '--nonsense'.\n"),
    ):
        assert run(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("No such option '--"), error
        assert said in error, error


def test_help_says_what_each_word_of_a_command_does_in_full() -> None:
    """B78: click cuts the sentences to the line."""
    groups = [
        each
        for name in COMMANDS
        if isinstance(
            each := getattr(import_module(f"headrace.cli.{name.replace('-', '_')}"), "command", None), click.Group
        )
    ]
    assert len(groups) > 6
    for group in groups:
        said = group.get_help(click.Context(group)).partition("Commands:")[2]
        assert said
        assert "..." not in said
