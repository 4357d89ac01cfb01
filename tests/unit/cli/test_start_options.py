"""What does the command line of `headrace start` mean?"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.start import QUICK_START, load_config, main, parse_arguments, read_properties_file, remarks
from headrace.core.errors import OperatorError


def test_without_arguments_it_is_the_quick_start_node() -> None:
    """B-T01: broker and controller in one on 127.0.0.1:9092, controller on 9093, data in ./headrace-data; no key is idle."""
    config = load_config(parse_arguments([]))
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"]
    assert (config.is_broker, config.is_controller, config.log_dirs) == (True, True, ("./headrace-data",))
    assert remarks(config) == []


def test_the_quick_start_is_the_voter_where_its_listeners_are() -> None:
    """Other ports, another id: the address of its controller goes along, since tools that ask a broker go on there; what is said wins."""
    elsewhere = "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://:19093"
    config = load_config(parse_arguments(["--override", elsewhere, "--override", "node.id=7"]))
    assert config.controller_quorum_voters == ((7, "127.0.0.1", 19093),)
    said = load_config(parse_arguments(["--override", elsewhere, "--override", "controller.quorum.voters=1@c1:19093"]))
    assert said.controller_quorum_voters == ((1, "c1", 19093),)


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    """B-T01: `--override k=v`, also as `--override=k=v`, several times; the last wins."""
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in QUICK_START.items()) + "num.partitions=2\n")
    options = parse_arguments([str(file), "--override", "num.partitions=3", "--override=node.id=1", "-daemon"])
    assert options.is_daemon
    assert load_config(options).num_partitions == 3
    again = parse_arguments([str(file), "--override", "num.partitions=3", "--override", "num.partitions = 4"])
    assert load_config(again).num_partitions == 4


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("log.retention.hors=1", "--override: Unknown configuration log.retention.hors; did you mean"),
        ("log.retention.hours=a week", "--override: Invalid value a week for configuration log.retention.hours: "),
        ("listeners=XX://1", "--override: Invalid value XX://1 for configuration listeners: "),
    ],
)
def test_a_bad_override_is_not_blamed_on_the_file(tmp_path: Path, override: str, said: str) -> None:
    """B75: who reads the refusal looks where the setting was given; a bad value comes with the range."""
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in QUICK_START.items()))
    with pytest.raises(OperatorError) as refused:
        load_config(parse_arguments([str(file), "--override", override]))
    assert str(refused.value).startswith(said)
    if "hours" in override:
        assert str(refused.value).endswith("(valid: [-2147483648,...,2147483647])")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--override"], "--override needs a value"),
        (["--override", "x"], "write key=value"),
        (["--override", "=1"], "write key=value"),
        (["--nope"], "--nope is not an option"),
        (["a", "b"], "one properties file at most"),
        (["--processes", "some"], "--processes some: write how many, or auto"),
        (["--processes", "0"], "--processes 0: write how many, or auto"),
        (["--processes"], "--processes needs a value"),
        (["--log-level", "loud"], "valid are debug, info, warning, error"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], said: str) -> None:
    """B75: one line that says what to write."""
    with pytest.raises(OperatorError, match=said):
        parse_arguments(arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"a=1\nb=\\u00zz\n", "line 2: Malformed"),
        (b"\x7fELF\0\0", "line 1: a NUL byte"),
        (b"", 'Missing required configuration "process.roles"'),
        (
            b"process.roles=broker\nnode.id=1\nlog.dir=/x\nlog.retention.ms=1 day\n",
            "Invalid value 1 day for configuration",
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    """B75: missing, damaged, empty, a bad value; exit code 1, no stack trace."""
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"headrace: {file}")
    assert said in line


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """B75."""
    with pytest.raises(OperatorError, match="Is a directory"):
        read_properties_file(str(tmp_path))


def test_what_has_no_effect_is_said_once() -> None:
    """S1-25, S1-26: in one line."""
    options = parse_arguments(["--override", "zookeeper.connect=z", "--override", "ssl.protocol=TLSv1.3"])
    assert remarks(load_config(options)) == ["without effect here: ssl.protocol, zookeeper.connect"]


def test_help_and_version_start_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """B-T01."""
    assert main(["--help"]) == 0
    assert "usage: headrace start" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


def test_the_data_directory_may_be_named_on_the_command_line(tmp_path: Path) -> None:
    """B-T01, B75: `--data` is `log.dirs`, of the quick start and of a file; an override wins, an empty name is refused."""
    assert load_config(parse_arguments(["--data", "/somewhere"])).log_dirs == ("/somewhere",)
    file = tmp_path / "server.properties"
    settings = {key: text for key, text in QUICK_START.items() if key != "log.dirs"} | {"log.dir": "/elsewhere"}
    file.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    assert load_config(parse_arguments([str(file)])).log_dirs == ("/elsewhere",)
    assert load_config(parse_arguments([str(file), "--data=/a,/b"])).log_dirs == ("/a", "/b")
    assert load_config(parse_arguments(["--data", "/a", "--override", "log.dirs=/b"])).log_dirs == ("/b",)
    with pytest.raises(OperatorError, match="name a directory"):
        parse_arguments(["--data="])


def test_metrics_may_be_asked_for_on_the_command_line() -> None:
    """B-M01, B75: `--metrics` is the setting; a value that is no address is refused by that name, and a later option wins over the file."""
    assert load_config(parse_arguments(["--metrics", "127.0.0.1:9404"])).headrace_metrics_listener == "127.0.0.1:9404"
    assert load_config(parse_arguments(["--metrics=:0"])).headrace_metrics_listener == ":0"
    assert load_config(parse_arguments([])).headrace_metrics_listener == ""
    for wrong in ("9404", "127.0.0.1", "127.0.0.1:65536", "http://127.0.0.1:1", "a b:1", "[::1:5", "127.0.0.1:-1"):
        with pytest.raises(
            OperatorError, match=r"^--metrics: Invalid value .* headrace\.metrics\.listener: Value must be host:port"
        ):
            load_config(parse_arguments(["--metrics", wrong]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["FILE", "--pin"], "--pin goes with --processes"),
        (["--processes", "2"], "--processes multiplies the broker of a properties file: name the file"),
        (
            ["FILE", "--processes", "2"],
            "this file has the controller role: start the controller alone by a file of its own",
        ),
        (["FILE", "--processes", "2", "-daemon"], "-daemon does not go with --processes: let a service manager"),
        (
            ["FILE", "--processes=auto", "--bootstrap"],
            "--bootstrap does not go with --processes: it is for controllers",
        ),
    ],
)
def test_what_does_not_go_with_several_processes_is_refused(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """B75, B78: in one line, before anything is made."""
    file = tmp_path / "server.properties"
    file.write_text(
        "".join(f"{key}={text}\n" for key, text in {**QUICK_START, "log.dirs": str(tmp_path / "d")}.items())
    )
    assert main([str(file) if each == "FILE" else each for each in arguments]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
