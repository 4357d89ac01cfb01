"""Does kcat find what it expects? Listing, producing, consuming and queries from a shell."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.kcat

Name = Callable[[str], str]


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """Run kcat to its end; its standard output."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments], input=stdin, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lines_go_in_and_come_out(bootstrap: str, new_name: Name) -> None:
    """B-W06: keys, headers and the end of the partition."""
    topic = new_name("kcat")
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-H", "h=1", stdin="a:1\nb:2\nc:3\n")
    out = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %s %h\n")
    assert out == "0 a 1 h=1\n1 b 2 h=1\n2 c 3 h=1\n"
    assert kcat(bootstrap, "-C", "-t", topic, "-o", "-1", "-e", "-q") == "3\n"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_compressed_lines_come_out_whole(bootstrap: str, new_name: Name, codec: str) -> None:
    """B-W06: the codecs that kcat was built with."""
    topic = new_name("kcat-z")
    lines = "".join(f"line {index}\n" for index in range(1000))
    kcat(bootstrap, "-P", "-t", topic, "-z", codec, stdin=lines)
    assert kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q") == lines


def test_the_cluster_is_listed(bootstrap: str, new_name: Name) -> None:
    """B-W06: brokers and topics as JSON."""
    topic = new_name("kcat-list")
    kcat(bootstrap, "-P", "-t", topic, stdin="x\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    assert [(each["topic"], len(each["partitions"])) for each in listed["topics"]] == [(topic, 1)]


def test_an_offset_is_found_by_time(bootstrap: str, new_name: Name) -> None:
    """B-P10: the query mode."""
    topic = new_name("kcat-time")
    kcat(bootstrap, "-P", "-t", topic, stdin="x\ny\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:0") == f"{topic} [0] offset 0\n"


def test_a_balanced_consumer_reads_a_group(bootstrap: str, new_name: Name) -> None:
    """B-P06: kcat -G joins a group."""
    topic, group = new_name("kcat-group"), new_name("group")
    kcat(bootstrap, "-P", "-t", topic, stdin="1\n2\n3\n")
    out = kcat(bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-c", "3", "-q", topic)
    assert out == "1\n2\n3\n"
