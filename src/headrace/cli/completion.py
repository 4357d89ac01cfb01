"""Completion of our commands and their options by the shell."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import get_completion_class, shell_complete

from headrace.cli.main import COMMANDS
from headrace.cli.shell import offered
from headrace.cli.start import LOG_LEVELS
from headrace.core.errors import OperatorError

SHELLS = ("bash", "zsh", "fish")


class LazyGroup(click.Group):
    """All commands of `headrace`, each imported when the shell asks about it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; for `start` and `stop`, which parse their arguments themselves, what they take."""
        if cmd_name not in COMMANDS:
            return None
        try:
            module: Any = import_module(f"headrace.cli.{cmd_name.replace('-', '_')}")
        except ImportError:
            return click.Command(cmd_name)
        found = getattr(module, "command", None)
        return found if isinstance(found, click.Command) else _hand_parsed(cmd_name)


def _hand_parsed(name: str) -> click.Command:
    """What `headrace start` takes, and `headrace stop` of it, in click's words."""
    parameters: list[click.Parameter] = [
        click.Argument(["file"], type=click.Path(), required=False),
        click.Option(["--override"], multiple=True, metavar="KEY=VALUE", help="A setting that wins over the file."),
    ]
    if name == "start":
        parameters += [
            click.Option(["--daemon"], is_flag=True, help="Run in the background."),
            click.Option(["--bootstrap"], is_flag=True, help="Format unformatted directories first."),
            click.Option(["--log-level"], shell_complete=offered(*LOG_LEVELS), help="How much is logged."),
            click.Option(["--data"], type=click.Path(file_okay=False), help="Keep the data there."),
            click.Option(["--metrics"], metavar="HOST:PORT", help="Answer Prometheus there, on /metrics."),
            click.Option(["--processes"], metavar="N", shell_complete=offered("auto"), help="Run that many brokers."),
            click.Option(["--pin"], is_flag=True, help="Keep each of them on one core."),
            click.Option(["--version"], is_flag=True, help="Print the version."),
        ]
    return click.Command(name, params=parameters, help=COMMANDS[name])


def answer_shell() -> None:
    """Answer the shell's question in the environment variable `_HEADRACE_COMPLETE`, and leave the process."""
    instruction = os.environ.pop("_HEADRACE_COMPLETE")
    sys.exit(shell_complete(LazyGroup("headrace"), {}, "headrace", "_HEADRACE_COMPLETE", instruction))


@click.command(
    help='Print the completion script of a shell. For bash: eval "$(headrace completion bash)" in ~/.bashrc.'
)
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def command(shell: str | None) -> int:
    """The shell in use when none is named."""
    name = shell or os.path.basename(os.environ.get("SHELL", "bash"))
    if name not in SHELLS:
        raise OperatorError(f"no completion for {name}: one of {', '.join(SHELLS)}")
    kind = get_completion_class(name)
    assert kind is not None
    print(kind(LazyGroup("headrace"), {}, "headrace", "_HEADRACE_COMPLETE").source())
    return 0
