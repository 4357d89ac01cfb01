"""The command `headrace metadata-shell`: a shell over the metadata of a snapshot file or a running quorum (kafka-metadata-shell)."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable

import click

from headrace.cli.metadata_shell_commands import Shell, completions, execute
from headrace.cli.output import is_terminal
from headrace.cli.shell import address_list, read_properties
from headrace.core.errors import OperatorError
from headrace.metadata.image import MetadataImage
from headrace.metadata.tree import Directory, directory, files, image_tree

Refresh = Callable[[], MetadataImage]


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"], "ignore_unknown_options": True, "allow_interspersed_args": False,
    },
    help="Look around in the metadata of a snapshot, a log segment, or a running quorum. Without COMMAND it reads commands.",
)  # fmt: skip
@click.option("--snapshot", "-s", type=click.Path(), metavar="FILE", help="A .checkpoint or .log file to read.")
@click.option(
    "--controllers",
    type=address_list,
    metavar="[ID@]HOST:PORT,...",
    help="Controllers of a quorum to follow, as an observer without id.",
)
@click.option(
    "--config", "config_file", type=click.Path(), metavar="FILE",
    help="Settings of the client; a node's configuration names the controllers too.",
)  # fmt: skip
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def command(snapshot: str | None, controllers: str | None, config_file: str | None, words: tuple[str, ...]) -> int:
    """One command, or a prompt, on a tree of the metadata (B-T10)."""
    with opened(snapshot, controllers, config_file) as refresh:
        if words:
            return _run_once(refresh, list(words))
        return _run_loop(refresh)


class opened:  # noqa: N801 - used as a function
    """The source of images that the options name: a file, read once, or a quorum, followed. Raises OperatorError."""

    def __init__(self, snapshot: str | None, controllers: str | None, config_file: str | None) -> None:
        if snapshot is not None and (controllers is not None or config_file is not None):
            raise OperatorError("Name either --snapshot, or --controllers and --config, not both.")
        if snapshot is None and controllers is None and config_file is None:
            raise OperatorError("Name a file with --snapshot, or a quorum with --controllers or --config.")
        self._snapshot = snapshot
        self._controllers = controllers
        self._config_file = config_file
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Refresh:
        if self._snapshot is not None:
            from headrace.cli.metadata_file import image_in

            image = image_in(self._snapshot)
            return lambda: image
        from headrace.cli.metadata_follower import QuorumFollower

        properties = read_properties(self._config_file) if self._config_file is not None else {}
        follower = QuorumFollower(self._controllers, properties)
        self._close = follower.close
        return follower.refresh

    def __exit__(self, *_: object) -> None:
        self._close()


def shell_root(image: MetadataImage) -> Directory:
    """`/`: the image, and what this shell is."""
    from headrace import __version__

    return directory(
        {
            "image": lambda: image_tree(image),
            "local": lambda: files({"version": __version__, "commitId": "unknown"}),
        }
    )


def _run_once(refresh: Refresh, words: list[str]) -> int:
    shell = Shell(root=shell_root(refresh()), width=_width())
    for line in execute(shell, words, is_interactive=False):
        print(line)
    return 1 if shell.has_failed else 0


def _run_loop(refresh: Refresh) -> int:
    """Read commands until `exit` or the end of the input."""
    print("Loading...", flush=True)
    shell = Shell(root=shell_root(refresh()), width=_width())
    print("Starting...")
    print("[ Headrace Metadata Shell ]", flush=True)
    _prepare_terminal(shell)
    while not shell.is_over:
        try:
            line = input(">> ")
        except EOFError:
            return 0
        except KeyboardInterrupt:
            print("^C")
            continue
        if line.strip():
            shell.history.append(line)
        shell.root = shell_root(refresh())
        for shown in execute(shell, words_of(line), is_interactive=True):
            print(shown)
        sys.stdout.flush()
    return 0


def words_of(line: str) -> list[str]:
    """The words of a line: quotes keep spaces, an open quote ends with the line."""
    splitter = shlex.shlex(line, posix=True, punctuation_chars=False)
    splitter.whitespace_split = True
    splitter.commenters = ""
    splitter.escape = ""
    try:
        return list(splitter)
    except ValueError:
        return line.split()


def _width() -> int | None:
    return shutil.get_terminal_size().columns if is_terminal() else None


def _prepare_terminal(shell: Shell) -> None:
    """Line editing and completion, where somebody types."""
    if not sys.stdin.isatty():
        return
    try:
        import readline
    except ImportError:
        return

    def complete(_: str, number: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_endidx()]
        words = words_of(line)
        found = completions(shell, [*words, ""] if line.endswith(" ") or not words else words)
        return found[number] if number < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
