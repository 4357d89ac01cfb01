"""Which lines and exit codes does `headrace storage` give?"""

from __future__ import annotations

import json
from pathlib import Path
from random import SystemRandom

import pytest

from headrace.cli.main import run
from headrace.cli.scram import parse_scram
from headrace.cli.storage import parse_cluster_id
from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.metadata.releases import feature_dependencies, parse_feature, parse_release, version_mapping

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
ALL_AT_THE_LATEST = [
    "metadata.version=30 (4.3-IV0)",
    "kraft.version=1",
    "transaction.version=2",
    "group.version=1",
    "eligible.leader.replicas.version=1",
    "share.version=1",
    "streams.version=1",
]


@pytest.fixture
def server_properties(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:2\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return file


def test_random_uuid_prints_another_one_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    """S1-03, S1-04, B-T04."""
    assert run(["storage", "random-uuid"]) == 0
    assert run(["storage", "random-uuid"]) == 0
    first, second = capsys.readouterr().out.split()
    assert first != second
    assert str(Uuid.parse(first)) == first


def test_a_dashed_id_is_taken_as_base64() -> None:
    """S1-04."""
    assert parse_cluster_id("e4beA0DE-74a1-4fe7-8c0a-d2bef97f3ab3".lower()) == str(
        Uuid.parse("e4bea0de74a14fe78c0ad2bef97f3ab3")
    )
    assert parse_cluster_id("any-word") == "any-word"
    for bad in ("", "two words", "line\nbreak"):
        with pytest.raises(OperatorError, match="cannot be a cluster id"):
            parse_cluster_id(bad)


def test_version_mapping_is_kafkas(capsys: pytest.CaptureFixture[str]) -> None:
    """B-T04."""
    assert run(["storage", "version-mapping"]) == 0
    assert capsys.readouterr().out.splitlines() == ALL_AT_THE_LATEST
    assert version_mapping("3.8") == [
        "metadata.version=20 (3.8)",
        *(f"{line.split('=')[0]}=0" for line in ALL_AT_THE_LATEST[1:]),
    ]


@pytest.mark.parametrize(
    ("text", "level"),
    [("3.3", 7), ("3.7", 19), ("3.8.1", 20), ("4.0", 25), ("4.0-IV1", 23), ("4.3", 30), ("4.3-IV0", 30)],
)
def test_releases(text: str, level: int) -> None:
    """B-T04: a release is its last metadata.version."""
    assert parse_release(text) == level


@pytest.mark.parametrize("text", ["2.8", "4", "4.0-IV9", "9.9", "", "4.3-IV0x"])
def test_unknown_releases(text: str) -> None:
    """B-T04."""
    with pytest.raises(
        OperatorError, match=f"Unknown metadata.version '{text}'. Supported metadata.version are: 3.3-IV3, "
    ):
        parse_release(text)


def test_feature_dependencies_are_kafkas() -> None:
    """B-T04."""
    assert feature_dependencies(
        {"eligible.leader.replicas.version": 1, "metadata.version": 30, "group.version": 1}
    ) == [
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
        "metadata.version=30 (4.3-IV0) has no dependencies.",
        "group.version=1 has no dependencies.",
    ]
    for features, said in (
        ({"foo": 1}, "Unknown feature: foo"),
        ({"group.version": 7}, "Feature level 7 is not supported for feature group.version"),
        ({"metadata.version": 99}, "Unknown metadata.version 99"),
    ):
        with pytest.raises(OperatorError, match=said):
            feature_dependencies(features)
    for text in ("group.version", "group.version=x", "group.version=99999999"):
        with pytest.raises(OperatorError, match=f"Can't parse feature=level string {text}"):
            parse_feature(text)


def test_info_and_format_tell_one_story(server_properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """B-T02, B-T03: missing, formatted, half formatted; exit code 1 when something is wrong."""
    where = server_properties.parent
    assert run(["storage", "info", "-c", str(server_properties)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "Found problems:", f"  {where}/a does not exist", f"  {where}/b does not exist", ""
    ]  # fmt: skip
    assert run(["storage", "format", "-t", CLUSTER, "--config", str(server_properties), "-r", "4.3"]) == 0
    assert "Formatting metadata directory" in capsys.readouterr().out
    assert run(["storage", "info", "-c", str(server_properties)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:4] == ["Found log directories:", f"  {where}/a", f"  {where}/b", ""]
    assert shown[4].startswith(f"Found metadata: {{cluster.id={CLUSTER}, directory.id=")
    assert run(["storage", "info", "-c", str(server_properties), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metadata"]["cluster.id"] == CLUSTER
    assert (document["directories"], document["problems"]) == ([f"{where}/a", f"{where}/b"], [])
    (where / "b/meta.properties").write_text("version=1\nnode.id=2\ncluster.id=other\n")
    (where / "a/x").touch()
    assert run(["storage", "info", "-c", str(server_properties)]) == 1
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "Found problems:",
        "  Mismatched cluster IDs between storage directories.",
        "  Mismatched node IDs between storage directories.",
        "",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["format", "-t", CLUSTER], "'-c' / '--config'"),
        (["format", "-c", "FILE"], "'-t' / '--cluster-id'"),
        (["format", "-c", "FILE", "-t", CLUSTER, "-s", "-N"], "not allowed with argument --standalone"),
        (["format", "-c", "FILE", "-t", CLUSTER, "-f", "metadata.version=30", "-r", "4.0"], "to avoid ambiguity"),
        (["format", "-c", "FILE", "-t", CLUSTER, "-S", "foo"], "Failed to find equals sign in SCRAM argument"),
        (["nonsense"], "No such command 'nonsense'"),
        (["info", "-c", "/none"], "No such file or directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_1(
    server_properties: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """B-T02, B-T03, B78: no stack trace, nothing is written."""
    given = [str(server_properties) if word == "FILE" else word for word in arguments]
    try:
        code, text = run(["storage", *given]), capsys.readouterr().err
    except OperatorError as error:
        code, text = 1, str(error)
    assert code == 1
    assert said in text
    assert "Traceback" not in text
    assert not (server_properties.parent / "a").exists()


def test_scram_credentials_are_those_of_rfc_5802() -> None:
    """B-T03, KIP-900: the numbers are what Kafka's tool made of the same argument."""
    given = 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
    credential = parse_scram(given, SystemRandom())
    assert (credential.mechanism, credential.iterations, credential.salt) == (2, 8192, bytes([55, 113]))
    assert list(credential.stored_key[:4]) == [113, 118, 256 - 93, 73]
    assert list(credential.server_key[:4]) == [76, 97, 124, 14]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SCRAM-SHA-256=[name=alice]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-255=[name=alice,password=x]", "The add-scram mechanism SCRAM-SHA-255 is not supported."),
        ("SCRAM-SHA-512=[name=a,iterations=100,password=x]", "must be >= 4096 for add-scram using SCRAM_SHA_512"),
        ("SCRAM-SHA-512=[name=a,iterations=99999,password=x]", "must be <= 16384"),
        ("SCRAM-SHA-512=name=a", r"Expected '\[' and '\]'"),
        ("SCRAM-SHA-512=[name=a,password=x,colour=red]", "'colour' is not a setting of add-scram"),
        ("SCRAM-SHA-512=[password=x]", "You must supply 'name'"),
        ("SCRAM-SHA-512=[name=a,saltedpassword=YCE=]", "You must supply 'salt'"),
        ("SCRAM-SHA-512=[name=a,password=x,saltedpassword=YCE=]", "only supply one of"),
        ("SCRAM-SHA-512=[name=a,password=x,salt=?]", "is not base64"),
    ],
)
def test_bad_scram_arguments(text: str, said: str) -> None:
    """B-T03."""
    with pytest.raises(OperatorError, match=said):
        parse_scram(text, SystemRandom())
