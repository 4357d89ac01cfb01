"""The entry point: which command was meant, its exit code, and one line for what went wrong.

A command's module is imported only when it is called, so that `headrace start` pays for nothing it does not use.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from headrace.core.errors import OperatorError, PeerError, StorageFault
from headrace.core.nearest import nearest_name

COMMANDS: dict[str, str] = {
    "start": "run a node",
    "stop": "stop the node of a data directory",
    "storage": "format and inspect a node's directories",
    "topics": "create, delete, describe or change topics",
    "configs": "describe and change settings of topics, brokers and others",
    "console-producer": "send lines of standard input to a topic",
    "console-consumer": "print the records of topics",
    "consumer-groups": "list, describe and delete groups, or reset their offsets",
    "groups": "list groups of all types",
    "get-offsets": "print offsets of partitions",
    "delete-records": "delete records below given offsets",
    "reassign-partitions": "move replicas of partitions to other brokers or directories",
    "leader-election": "elect preferred or unclean leaders of partitions",
    "replica-verification": "compare the replicas of partitions, batch by batch",
    "plan": "foretell what a broker's end or a reassignment would do, and apply a plan",
    "export": "write the records of a topic as Parquet, Arrow, CSV or JSON",
    "log-dirs": "show how full the log directories are",
    "dump-log": "print what log, index and snapshot files hold",
    "cluster": "run a cluster for development; identify one, list its nodes, decommission a broker",
    "brokers": "show each broker's state, epoch, metadata lag, and what its shutdown waits for",
    "broker-api-versions": "show which API versions each broker speaks",
    "quorum": "describe the metadata quorum, change its voters, explain what is wrong with it",
    "metadata-shell": "look around in the metadata of a snapshot, or of a running quorum",
    "history": "tell what changed in a cluster, in which order, and why",
    "state-changes": "follow changes of replicas through the files of several nodes",
    "features": "describe, upgrade or downgrade feature levels",
    "producer-perf-test": "measure producing",
    "consumer-perf-test": "measure consuming",
    "sim": "run whole clusters on virtual time under faults",
    "debug": "replay the journal of a node, or a failure of the simulation",
    "pipeline": "make, check and run declarative pipelines from topics into tables, on Spark",
    "demo": "stream real data through a node and Spark into tables and a plot",
    "completion": "print the shell completion script for bash, zsh or fish",
}
"""Every command, with what it does. The module is its name with `_` for `-`."""

EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130


def usage() -> str:
    """The text of `headrace --help`."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return f"Usage: headrace COMMAND [ARGUMENTS]...\n\nAn event-streaming cluster that speaks the Apache Kafka protocol.\n\nCommands:\n{rows}\n\n`headrace COMMAND --help` tells more of each."


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if "_HEADRACE_COMPLETE" in os.environ:
        import_module("headrace.cli.completion").answer_shell()
    sys.exit(_guarded(given))


def _guarded(arguments: list[str]) -> int:
    """Run a command; what fails is one line on standard error (B78)."""
    try:
        code = run(arguments)
        sys.stdout.flush()
    except (OperatorError, PeerError, StorageFault) as error:
        return fail(" ".join(str(error).split()))
    except BrokenPipeError:
        return _silence(EXIT_BROKEN_PIPE)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return code


def run(arguments: list[str]) -> int:
    """Find the command and run it; its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 1
    name = arguments[0]
    if name == "--version" or (name in COMMANDS and arguments[1:] == ["--version"]):
        from headrace import __version__

        print(f"headrace {__version__}")
        return 0
    if name not in COMMANDS:
        near = nearest_name(name, COMMANDS)
        hint = "" if near is None else f" (did you mean {near!r}?)"
        raise OperatorError(f"Unknown command {name!r}{hint}: `headrace --help` lists them all")
    module = import_module(f"headrace.cli.{name.replace('-', '_')}")
    if hasattr(module, "main"):
        return int(module.main(arguments[1:]) or 0)
    from headrace.cli.shell import run_command

    return run_command(module.command, name, arguments[1:])


def fail(line: str) -> int:
    """Say on standard error what went wrong, which may be in the words of a node; the exit code 1."""
    from headrace.cli.output import visible

    print(visible(line), file=sys.stderr)
    return 1


def _silence(code: int) -> int:
    """Nobody reads standard output any more: let the interpreter's last flush not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code
