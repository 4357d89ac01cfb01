"""What do the commands of the metadata shell print over a small tree?"""

from __future__ import annotations

import pytest

from headrace.cli.metadata_shell import words_of
from headrace.cli.metadata_shell_commands import Shell, columns, completions, execute, glob_pattern
from headrace.metadata.tree import Directory, directory, files

TREE = directory(
    {
        "image": lambda: directory(
            {
                "topics": lambda: directory({name: lambda: files({"id": "x", "0": "P0"}) for name in ("a", "bb", "b")}),
                "empty": lambda: files({}),
                "note": lambda: files({"n": "1"}),
            }
        ),
        "local": lambda: files({"version": "1.0"}),
    }
)


def run(*lines: str, shell: Shell | None = None, is_interactive: bool = True) -> list[str]:
    used = shell or Shell(root=TREE)
    return [out for line in lines for out in execute(used, line.split(" "), is_interactive=is_interactive)]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ls", ["image", "local"]),
        ("ls /image /local", ["image:", "empty", "note", "topics", "", "local:", "version"]),
        ("ls /local/version /image/note", ["version", "", "note:", "n"]),
        ("ls /image/topics/{a,b*}/id", ["id", "id", "id"]),
        ("ls /image/topics/b?", ["0", "id"]),
        ("ls /image/empty", []),
        ("ls nope", ["ls: nope: no such file or directory."]),
        ("cat /local/version", ["1.0"]),
        ("cat /image", ["cat: /image: Is a directory"]),
        ("cat /nope", ["cat: /nope: No such file or directory."]),
        ("cat /local/version/x", ["cat: /local/version/x: No such file or directory."]),
        ("cat", ["too few arguments"]),
        ("cd a b", ["unrecognized arguments: 'b'"]),
        ("cd nope", ["cd: nope: no such directory."]),
        ("cd local/version", ["cd: local/version: not a directory."]),
        ("find image/note", ["image/note", "image/note/n"]),
        ("find /local", ["/local", "/local/version"]),
        ("find nope", ["find: nope: no such file or directory."]),
        ("tree image/note", ["n:", "  1"]),
        ("tree /local/version", ["1.0"]),
        ("tree nope", ["tree: nope: No such file or directory."]),
        ("pwd", ["/"]),
        ("l", ["invalid choice: 'l': did you mean 'ls'?"]),
        ("man nope", ["man: unknown command nope. Type help to get a list of commands."]),
        ("history x", ["argument numEntriesToShow: could not convert 'x' to Integer (x)"]),
        ("", []),
    ],
)
def test_a_command_prints_what_kafkas_shell_prints(line: str, shown: list[str]) -> None:
    """B-T10: the lines are those of Kafka 4.3.1's shell over a tree of the same shape."""
    assert run(line) == shown


def test_cd_moves_and_paths_follow() -> None:
    """B-T10."""
    assert run("cd image", "pwd", "ls topics/a", "cd ..", "pwd", "cd ../..", "pwd", "cd image/topics", "cd", "pwd") == [
        "/image", "0", "id", "/", "/", "/",
    ]  # fmt: skip


def test_only_four_commands_work_outside_the_shell() -> None:
    """B-T10: one-shot there is nothing to stand in."""
    assert run("pwd", is_interactive=False) == ["invalid choice: 'pwd' (choose from 'cat', 'find', 'ls', 'tree')"]


def test_history_shows_the_last_lines_with_their_numbers() -> None:
    """B-T10."""
    shell = Shell(root=TREE, history=["ls", "pwd", "history 2"])
    assert run("history 2", shell=shell) == ["    1  pwd", "    2  history 2"]
    assert run("history", shell=shell)[0] == "    0  ls"
    assert run("history -3", shell=shell) == []


def test_what_is_not_there_makes_a_one_shot_fail() -> None:
    """B-T10: Kafka's ends with 0; ours says it with the exit code too."""
    shell = Shell(root=TREE)
    run("ls", shell=shell)
    assert not shell.has_failed
    run("ls /nope", shell=shell)
    assert shell.has_failed


def test_help_names_every_command_and_man_its_arguments() -> None:
    """B-T10."""
    shown = run("help")
    assert [line.split()[0] for line in shown if line.startswith("    ") and not line.startswith("     ")] == [
        "cat", "cd", "exit", "find", "help", "history", "ls", "man", "pwd", "tree",
    ]  # fmt: skip
    assert run("man ls") == [
        "ls: List metadata nodes.", "", "usage: ls [targets [targets ...]]", "", "positional arguments:",
        "  targets                The metadata node paths to list.",
    ]  # fmt: skip
    assert run("man cat")[2] == "usage: cat targets [targets ...]"
    assert run("man history")[2] == "usage: history [numEntriesToShow]"
    assert run("man pwd") == ["pwd: Print the current working directory.", "", "usage: pwd"]


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("a*c", "abc", "abd"),
        ("a?c", "a.c", "ac"),
        ("{x,yy}z", "yyz", "yz"),
        ("a.*", "a.b", "ab"),
        (r"\*\?*", "*?x", "xx"),
    ],
)
def test_globs(glob: str, yes: str, no: str) -> None:
    """B-T10."""
    pattern = glob_pattern(glob)
    assert pattern is not None
    assert pattern.fullmatch(yes)
    assert not pattern.fullmatch(no)


def test_a_malformed_glob_or_one_without_signs_stands_for_itself() -> None:
    """B-T10."""
    assert [glob_pattern(text) for text in ("plain", "a{b", "{a{b}}", r"\*", "a,b}")] == [None] * 5


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([], ["cat", "cd", "exit", "find", "help", "history", "ls", "man", "pwd", "tree"]),
        (["h"], ["help", "history"]),
        (["man", "t"], ["tree"]),
        (["ls", ""], ["image/", "local/"]),
        (["ls", "/im"], ["/image/"]),
        (["cat", "local/v"], ["local/version"]),
        (["cat", "nope/v"], []),
        (["pwd", ""], []),
    ],
)
def test_completion(words: list[str], offered: list[str]) -> None:
    """B-T10."""
    assert completions(Shell(root=TREE), words) == offered


def test_names_go_down_in_columns_on_a_terminal() -> None:
    """B-T10."""
    names = [f"n{number}" for number in range(7)]
    assert columns(names, 20) == ["n0  n2  n4  n6", "n1  n3  n5"]
    assert columns(names, None) == names
    assert columns(["x" * 50], 20) == ["x" * 50]
    assert columns([], 80) == []


def test_words_keep_quoted_spaces() -> None:
    """B-T10."""
    assert words_of("cat 'a b' \"c d\" e\\f") == ["cat", "a b", "c d", "e\\f"]
    assert words_of("cat 'a") == ["cat", "'a"]


def test_a_directory_is_made_when_it_is_looked_into() -> None:
    """B-T10: one topic of a million costs one topic."""
    made: list[str] = []

    def child(name: str) -> Directory:
        made.append(name)
        return files({"id": name})

    shell = Shell(root=directory({"t": lambda: Directory(lambda: map(str, range(10**6)), child)}))
    assert run("cat /t/777/id", shell=shell) == ["777"]
    assert made == ["777"]
