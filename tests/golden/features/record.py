"""What does kafka-features say to each command, and how does it end? Prints the golden file: Apache Kafka answers Apache Kafka."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.peers import kafka

COMMANDS = """
downgrade --metadata 3.7-IV4 --dry-run
downgrade --metadata 3.7-IV4
downgrade --unsafe --feature metadata.version=18
upgrade --metadata 3.8
downgrade --release-version 3.7-IV3
downgrade --release-version 3.7-IV3
upgrade --release-version 3.8-IV0 --dry-run
upgrade --release-version 3.8-IV0
downgrade --metadata 3.7-IV1
downgrade --metadata 3.7-IV1 --dry-run
downgrade --unsafe --metadata 3.7-IV1
downgrade --unsafe --release-version 3.7-IV1
upgrade --release-version 3.7-IV0
downgrade --feature metadata.version=25
downgrade --feature metadata.version=6
upgrade --feature metadata.version=31
upgrade --feature metadata.version=-1
upgrade --feature metadata.version=x
upgrade --feature metadata.version
upgrade --feature metadata.version=20 --feature metadata.version=20
upgrade --metadata 3.8 --feature metadata.version=20
upgrade --release-version 3.8 --feature metadata.version=20
upgrade
disable
downgrade --dry-run
upgrade --metadata 9.9
downgrade --release-version 9.9
disable --feature group.version
disable --feature group.version --feature group.version
disable --unsafe --feature metadata.version
disable --unsafe --feature nope.version --dry-run
downgrade --feature kraft.version=0
upgrade --feature kraft.version=0
upgrade --feature kraft.version=2
upgrade --feature kraft.version=1 --dry-run
upgrade --feature kraft.version=1
version-mapping --release-version 3.2
feature-dependencies --feature metadata.version=99
feature-dependencies --feature nope=1
feature-dependencies --feature group.version=9
upgrade --release-version 3.9 --dry-run
upgrade --release-version 3.9
downgrade --feature kraft.version=0
downgrade --unsafe --feature kraft.version=0
downgrade --release-version 3.8
upgrade --feature kraft.version=1
"""


def block(command: str, code: int, out: str, error: str) -> str:
    """A command and what came of it, as the golden file has it."""
    lines = [f"$ {command}", *out.splitlines(), *(f"! {line}" for line in error.splitlines()), f"exit {code}"]
    return "\n".join(lines).replace(", 4.4-IV0", "") + "\n"


def main() -> None:
    """Start a Kafka and ask it everything."""
    with tempfile.TemporaryDirectory() as directory:
        older = ("--release-version", "3.8-IV0")
        with kafka.Kafka(Path(directory) / "kafka", format_arguments=older) as running:
            for command in COMMANDS.split("\n"):
                if command:
                    done = kafka.run_tool("kafka-features", "--bootstrap-server", running.bootstrap, *command.split())
                    sys.stdout.write(block(command, done.returncode, done.stdout, done.stderr))


if __name__ == "__main__":
    main()
