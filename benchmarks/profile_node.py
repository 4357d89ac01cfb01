"""Where does a node spend its time under one load? ``make profile WHAT=produce`` (or produce-small, fetch, fetch-small).

The node runs under cProfile in this process's child, the load in another; the 40 functions with most time of their own are printed.
"""

from __future__ import annotations

import json
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import SETTINGS, System
from headrace.testing import Node

LOADS = {
    "produce": ("produce", ["--records", "900"]),
    "produce-ten": ("produce", ["--records", "10"]),
    "produce-small": ("produce", ["--records", "1", "--record-size", "100"]),
    "fetch": ("fetch", []),
    "fetch-small": ("fetch", ["--partition-bytes", "65536"]),
    "session-small": ("session", ["--partition-bytes", "65536"]),
    "e2e": ("e2e", []),
}


def main(arguments: Sequence[str]) -> None:
    """Run one load against a profiled node and print the profile."""
    what = arguments[0] if arguments else "produce-small"
    if what not in LOADS:
        raise SystemExit(f"no load {what!r}: one of {', '.join(LOADS)}")
    mode, options = LOADS[what]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        profile = Path(directory) / "profile"
        node = Node(
            properties=SETTINGS,
            directory=Path(directory) / "node",
            python_arguments=("-m", "cProfile", "-o", str(profile)),
        )
        node.start()
        try:
            System("headrace", node.bootstrap_servers, node.pid, node.stop, 0.0).create_topic("profile")
            load = [sys.executable, "-m", "benchmarks.wire_load"]
            common = ["--bootstrap", node.bootstrap_servers, "--topic", "profile", "--seconds", "4"]
            if mode in ("fetch", "session"):
                subprocess.run([*load, "produce", *common, "--records", "10"], check=True, stdout=subprocess.DEVNULL)
            print(
                json.loads(
                    subprocess.run([*load, mode, *common, *options], check=True, capture_output=True, text=True).stdout
                )
            )
        finally:
            node.stop()
        pstats.Stats(str(profile)).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main(sys.argv[1:])
