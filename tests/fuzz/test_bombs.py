"""Does a batch of a few bytes ever cost more memory than it may open to?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_bombs_are_refused_in_bounded_memory() -> None:
    """input:B51, inv:M3, defect:K46: 2 GiB in a few MiB, forged sizes and windows; the codecs' own memory is capped as well."""
    done = subprocess.run(
        [sys.executable, "tests/fuzz/bombs.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        **dict.fromkeys(("gzip", "gzip, forged length", "lz4", "zstd", "snappy"), "MESSAGE_TOO_LARGE"),
        **dict.fromkeys(
            (
                "lz4, forged length",
                "zstd, forged length",
                "zstd, forged window",
                "snappy, forged length",
                "snappy, forged chunk",
            ),
            "CORRUPT_MESSAGE",
        ),
    }
