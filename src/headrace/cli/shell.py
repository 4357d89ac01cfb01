"""What commands made with click share: options, errors in one line, Kafka's exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.client.blocking import BlockingClient
from headrace.config.properties import MalformedProperties, decode_properties, parse_properties
from headrace.core.errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])


class Group(click.Group):
    """A command of commands whose help says each one's first sentence in full."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click cuts them to what is left of the line."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, each.get_short_help_str(10_000))
            for name, each in found.items()
            if each is not None and not each.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


DEFAULT_SERVER = "127.0.0.1:9092"
"""Where `headrace start` listens when nothing else is said; Kafka's tools have no default."""
BOOTSTRAP_SERVER_HELP = f"The brokers to connect to.  [default: {DEFAULT_SERVER}]"


def address_list(value: str) -> str:
    """The type of options that say where a cluster is: `host:port`, or several with commas, which the client takes apart.

    Raises click.BadParameter for an empty value (a variable of the shell that is not set).
    """
    if not value.strip():
        raise click.BadParameter("it is empty: give host:port")
    return value


def run_command(command: click.Command, name: str, arguments: list[str]) -> int:
    """Run a click command; a mistake on the command line is one line and exit code 1, as with Kafka's tools."""
    try:
        # Not by click's `main`, which makes a broken pipe an exit of its own.
        with command.make_context(f"headrace {name}", list(arguments)) as context:
            result = command.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 1
    except click.ClickException as error:
        place = _place(error) if isinstance(error, click.NoSuchOption) else ""
        print(" ".join(error.format_message().split()) + place, file=sys.stderr)
        return 1
    except click.Abort:
        return 130
    except click.exceptions.Exit as end:
        return end.exit_code
    return result if isinstance(result, int) else 0


def _place(error: click.NoSuchOption) -> str:
    """Where an option belongs that the command does not have, but the one around it, or one below it."""
    inner = error.ctx
    while inner is not None and inner.parent is not None:
        outer = inner.parent
        if _has(outer.command, error.option_name):
            return (
                f" It belongs before {inner.info_name}: {outer.command_path} {error.option_name} ... {inner.info_name}"
            )
        inner = outer
    group = error.ctx.command if error.ctx is not None else None
    if not isinstance(group, click.Group):
        return ""
    names = sorted(name for name, each in group.commands.items() if _has(each, error.option_name))
    return f" It belongs behind one of these: {', '.join(names)}" if names else ""


def _has(command: click.Command, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def connection_options(*, controller: bool = False, config_name: str = "--command-config") -> Callable[[F], F]:
    """`--bootstrap-server`, the properties file, and `--bootstrap-controller` where a command may ask the quorum."""

    def decorate(function: F) -> F:
        function = click.option(
            config_name,
            "command_config",
            type=click.Path(),
            metavar="FILE",
            help="A properties file with settings of the client.",
        )(function)
        if controller:
            function = click.option(
                "--bootstrap-controller",
                type=address_list,
                metavar="HOST:PORT,...",
                help="The controllers to connect to.",
            )(function)
        return click.option(
            "--bootstrap-server", type=address_list, metavar="HOST:PORT,...", help=BOOTSTRAP_SERVER_HELP
        )(function)

    return decorate


def json_option(function: F) -> F:
    """`--json` for machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def offered(*values: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What the shell completes an option's value with; other values stay possible."""
    return lambda _context, _parameter, begun: [value for value in values if value.startswith(begun)]


def read_properties(path: str) -> dict[str, str]:
    """The properties in a file. Raises OperatorError when it cannot be read."""
    try:
        return parse_properties(decode_properties(Path(path).read_bytes()))
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    except (MalformedProperties, ValueError) as error:
        raise OperatorError(f"{path}: {error}") from None


def pairs(texts: tuple[str, ...], what: str = "property") -> dict[str, str]:
    """`key=value` texts as a mapping. Raises OperatorError for one without `=`."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OperatorError(f"Invalid {what} {text!r}: expected key=value")
        found[key.strip()] = value
    return found


FIRST_CONTACT_MS = 5_000
"""How long a tool tries to reach the cluster before it says which addresses it tried; longer where `request.timeout.ms` is. Kafka's own tools take a minute."""


def first_contact_ms(properties: Mapping[str, str]) -> int:
    """How long the first contact of a tool with these properties may take."""
    given = properties.get("request.timeout.ms", "").strip()
    return max(FIRST_CONTACT_MS, int(given) if given.isdecimal() else 0)


def connect(
    bootstrap_server: str | None,
    command_config: str | None = None,
    *,
    bootstrap_controller: str | None = None,
    overrides: dict[str, str] | None = None,
    client_id: str = "headrace-tools",
) -> BlockingClient:
    """A client of the cluster named on the command line, in the properties, or else at `DEFAULT_SERVER`. Raises OperatorError for both kinds of address."""
    properties = read_properties(command_config) if command_config else {}
    properties.update(overrides or {})
    if bootstrap_server and bootstrap_controller:
        raise OperatorError("You cannot specify both --bootstrap-server and --bootstrap-controller.")
    if not bootstrap_server and not bootstrap_controller:
        bootstrap_server = properties.get("bootstrap.servers", DEFAULT_SERVER)
    name = properties.get("client.id", client_id)
    return BlockingClient(
        bootstrap_controller or bootstrap_server or "",
        properties=properties,
        client_id=name,
        is_controller=bool(bootstrap_controller),
        first_contact_ms=first_contact_ms(properties),
    )


def connect_by(options: Mapping[str, Any]) -> BlockingClient:
    """`connect` with the options of `connection_options(controller=True)`, as a group keeps them for its sub-commands."""
    return connect(
        options["bootstrap_server"], options["command_config"], bootstrap_controller=options["bootstrap_controller"]
    )


def compiled(pattern: str) -> re.Pattern[str]:
    """A topic pattern as Kafka's tools take it: commas separate alternatives. Raises OperatorError for a bad one."""
    try:
        return re.compile(pattern.strip().strip("\"'").replace(",", "|").replace(" ", ""))
    except re.error as error:
        raise OperatorError(f"{pattern} is an invalid regex: {error}") from None


def exactly_one(actions: dict[str, bool], said: str) -> str:
    """The one action that was chosen. Raises OperatorError otherwise."""
    chosen = [name for name, is_set in actions.items() if is_set]
    if len(chosen) != 1:
        raise OperatorError(f"Command must include exactly one action: {said}")
    return chosen[0]
