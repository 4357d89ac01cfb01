"""Do our quorum, features and metadata-shell commands say what Kafka's tools say, of the same Kafka?"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers import kafka
from tests.support.commands import headrace

pytestmark = pytest.mark.java

NOBODY = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Kafka]:
    """A Kafka that is a dynamic quorum of its own, with something to see in its metadata."""
    port, controller_port = kafka.free_ports(2)
    quorum = {
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    }
    running = kafka.Kafka(
        tmp_path_factory.mktemp("dynamic"),
        port,
        quorum,
        format_arguments=("--standalone",),
        heap=("-Xms128m", "-Xmx384m"),
        controller_port=controller_port,
    )
    with running:
        server = ["--bootstrap-server", running.bootstrap]
        assert headrace("topics", *server, "--create", "--topic", "shell.a", "--partitions", "3").code == 0
        settings = ["--create", "--topic", "shell.b", "--config", "retention.ms=1000"]
        assert headrace("topics", *server, *settings).code == 0
        yield running


def targets(running: kafka.Kafka) -> list[list[str]]:
    """Both doors of the cluster."""
    return [
        ["--bootstrap-server", running.bootstrap],
        ["--bootstrap-controller", f"127.0.0.1:{running.controller_port}"],
    ]


def numbers_gone(text: str) -> str:
    """Offsets and times move on between two questions, and with them the width of their columns."""
    return re.sub(r" +", " ", re.sub(r"\b\d{2,}\b|\d+(?= ms ago)", "N", text))


@pytest.mark.parametrize(
    "arguments",
    [["describe", "--status"], ["describe", "--replication"], ["describe", "--replication", "--human-readable"]],
    ids=" ".join,
)
def test_the_quorum_is_described_alike(dynamic: kafka.Kafka, arguments: list[str]) -> None:
    """S4-54, B-T06: through a broker and through a controller."""
    for target in targets(dynamic):
        theirs = kafka.run_tool("kafka-metadata-quorum", *target, *arguments)
        ours = headrace("quorum", *target, *arguments)
        assert (ours.code, theirs.returncode) == (0, 0), ours.err
        assert numbers_gone(ours.out) == numbers_gone(theirs.stdout)


def test_a_quorum_of_static_voters_is_described_alike(shared_kafka: kafka.Kafka) -> None:
    """S4-54, B-T06: without directory ids."""
    for arguments in (["describe", "--status"], ["describe", "--replication"]):
        for target in targets(shared_kafka):
            theirs = kafka.run_tool("kafka-metadata-quorum", *target, *arguments)
            ours = headrace("quorum", *target, *arguments)
            assert numbers_gone(ours.out) == numbers_gone(theirs.stdout)


def test_a_voter_that_is_none_cannot_be_removed(dynamic: kafka.Kafka) -> None:
    """B-T07: exit code 1 and the leader's words; a dry run asks nobody."""
    remove = ["remove-controller", "-i", "7", "-d", NOBODY]
    for target in targets(dynamic):
        theirs = kafka.run_tool("kafka-metadata-quorum", *target, *remove)
        ours = headrace("quorum", *target, *remove)
        assert (ours.code, theirs.returncode) == (1, 1)
        assert ours.err.strip()
        assert ours.err.strip() in theirs.stderr
    dry = [*targets(dynamic)[0], *remove, "--dry-run"]
    assert headrace("quorum", *dry).out == kafka.run_tool("kafka-metadata-quorum", *dry).stdout


def test_a_new_controller_is_read_from_its_configuration(dynamic: kafka.Kafka, tmp_path: Path) -> None:
    """B-T07: add-controller --dry-run of a formatted directory, and what is wrong with one that is not."""
    config = tmp_path / "new.properties"
    config.write_text(
        "process.roles=controller\nnode.id=3\nlisteners=CONTROLLER://127.0.0.1:1234\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={tmp_path}/new\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{dynamic.controller_port}\n"
    )
    asked = [*targets(dynamic)[0], "--command-config", str(config), "add-controller", "--dry-run"]
    ours, theirs = headrace("quorum", *asked), kafka.run_tool("kafka-metadata-quorum", *asked)
    assert (ours.code, theirs.returncode) == (1, 1)
    assert ours.err.strip() in theirs.stderr
    formatted = headrace("storage", "format", "-c", str(config), "-t", kafka.CLUSTER_ID, "-N")
    assert formatted.code == 0, formatted.err
    ours, theirs = headrace("quorum", *asked), kafka.run_tool("kafka-metadata-quorum", *asked)
    assert (ours.code, ours.out) == (theirs.returncode, theirs.stdout)
    assert ours.code == 0


SHELL = [
    ["tree", "/image"],
    ["find", "/image/topics"],
    ["ls"],
    ["ls", "/image", "/image/features"],
    ["ls", "/image/topics/byName/{shell.a,*b}"],
    ["cat", "/image/features/metadataVersion", "/image/cluster/brokers/1"],
    ["cat", "/image"],
    ["ls", "/nope"],
    ["pwd"],
]


def from_kafkas_shell(wanted: str, *arguments: str, stdin: str | None = None) -> str:
    """What Kafka's shell prints. It begins when the file's first batch is loaded, now and then too early: asked again then."""
    out = ""
    for _ in range(6):
        out = kafka.run_tool("kafka-metadata-shell", *arguments, stdin=stdin).stdout
        if out == wanted:
            break
    return out


def test_the_metadata_shell_shows_the_same_tree(dynamic: kafka.Kafka, tmp_path: Path) -> None:
    """B-T10: the same segment of the metadata log in both shells, asked in one session."""
    segment = shutil.copy(dynamic.data / "__cluster_metadata-0/00000000000000000000.log", tmp_path)
    typed = "".join(f"{' '.join(words)}\n" for words in [*SHELL, ["exit"]])
    ours = headrace("metadata-shell", "-s", str(segment), stdin=typed).out.replace("Headrace Meta", "Kafka Meta")
    assert ours.count(">> ") == len(SHELL) + 1
    assert ours == from_kafkas_shell(ours, "-s", str(segment), stdin=typed)


def test_the_metadata_shell_runs_one_command(dynamic: kafka.Kafka, tmp_path: Path) -> None:
    """B-T10: the same segment of the metadata log in both shells; ours ends with 1 where something is not there."""
    segment = shutil.copy(dynamic.data / "__cluster_metadata-0/00000000000000000000.log", tmp_path)
    for words, code in ((["tree", "/image"], 0), *((failing, 1) for failing in SHELL[-3:])):
        ours = headrace("metadata-shell", "--snapshot", str(segment), *words)
        assert ours.out == from_kafkas_shell(ours.out, "--snapshot", str(segment), *words), words
        assert ours.code == code


def test_the_metadata_shell_reads_a_checkpoint_as_kafkas(dynamic: kafka.Kafka) -> None:
    """B-T10, B-S10: the first records of a cluster, as they were formatted."""
    checkpoint = str(dynamic.data / "bootstrap.checkpoint")
    ours = headrace("metadata-shell", "--snapshot", checkpoint, "tree", "/image")
    assert ours.out == from_kafkas_shell(ours.out, "--snapshot", checkpoint, "tree", "/image")


def test_the_interactive_shells_answer_alike(dynamic: kafka.Kafka, tmp_path: Path) -> None:
    """B-T10: a session of every command, typed into both; only the name of the shell differs."""
    segment = shutil.copy(dynamic.data / "__cluster_metadata-0/00000000000000000000.log", tmp_path)
    typed = (
        "man ls\nman history\npwd\ncd image/topics\npwd\nls\ncd ..\nfind features\ncd provenance\ncd\ncat a b\nfoo\n"
    )
    typed += "cd a b\nhistory\nhistory 2\nexit\n"
    ours = headrace("metadata-shell", "-s", str(segment), stdin=typed).out.replace("Headrace Meta", "Kafka Meta")
    assert ours == from_kafkas_shell(ours, "-s", str(segment), stdin=typed)


def test_the_shell_follows_a_running_quorum(dynamic: kafka.Kafka) -> None:
    """B-T10, KIP-631: an observer without an id sees what is committed, also what comes while it runs."""
    controllers = f"1@127.0.0.1:{dynamic.controller_port}"
    once = headrace("metadata-shell", "--controllers", controllers, "ls", "/image/topics/byName")
    assert (once.code, once.out) == (0, "shell.a\nshell.b\n"), once.err
    by_config = headrace("metadata-shell", "--config", str(dynamic.config), "cat", "/image/features/metadataVersion")
    assert (by_config.code, by_config.out) == (0, "Optional[4.3-IV0]\n"), by_config.err
    command = [sys.executable, "-m", "headrace", "metadata-shell", "--controllers", controllers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert [shell.stdout.readline() for _ in range(2)] == ["Loading...\n", "Starting...\n"]
        assert headrace("topics", "--bootstrap-server", dynamic.bootstrap, "--create", "--topic", "shell.c").code == 0
        out, _ = shell.communicate("ls /image/topics/byName\n", timeout=60)
    assert out.split()[-4:] == ["shell.a", "shell.b", "shell.c", ">>"]


FEATURES = [
    ["describe"],
    ["describe", "--node-id", "1"],
    ["upgrade", "--release-version", "4.3"],
    ["upgrade", "--feature", "group.version=9"],
    ["upgrade", "--feature", "nope=1"],
    ["downgrade", "--feature", "group.version=0", "--dry-run"],
    ["downgrade", "--release-version", "4.2"],
    ["downgrade", "--metadata", "4.2"],
    ["downgrade", "--unsafe", "--feature", "metadata.version=22", "--dry-run"],
    ["disable", "--feature", "share.version", "--dry-run"],
    ["disable", "--feature", "metadata.version"],
    ["version-mapping", "--release-version", "3.9"],
    ["feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--feature", "metadata.version=30"],
]


@pytest.mark.parametrize("arguments", FEATURES, ids=" ".join)
def test_features_are_described_and_changed_alike(dynamic: kafka.Kafka, arguments: list[str]) -> None:
    """B-T08: output and exit code of kafka-features."""
    for target in targets(dynamic)[: 2 if arguments[0] == "describe" else 1]:
        theirs = kafka.run_tool("kafka-features", *target, *arguments)
        ours = headrace("features", *target, *arguments)
        assert numbers_gone(ours.out) == numbers_gone(theirs.stdout)
        assert ours.code == theirs.returncode


def test_what_one_tool_lowers_the_other_raises(dynamic: kafka.Kafka) -> None:
    """B-T08, B-U03: the commands that the guide gives for a Kafka that is to share a cluster, and back; done, not only tried."""
    (target, _) = targets(dynamic)
    down, up = ["downgrade", "--feature", "share.version=0"], ["upgrade", "--feature", "share.version=1"]
    lowered = headrace("features", *target, *down)
    raised = kafka.run_tool("kafka-features", *target, *up)
    assert (lowered.code, raised.returncode, raised.stdout) == (0, 0, "share.version was upgraded to 1.\n")
    again = kafka.run_tool("kafka-features", *target, *down)
    assert (lowered.out, again.stdout) == ("share.version was downgraded to 0.\n",) * 2
    assert headrace("features", *target, *up).out == raised.stdout
