"""Does every decoder survive a great many spoilt frames, in bounded memory?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.volumes import volume

ROOT = Path(__file__).parents[2]
FRAMES = volume("HEADRACE_FUZZ_FRAMES", quick=16_000, ci=80_000)
MOST_MEMORY = 400 << 20


@pytest.mark.parametrize("part", [0, 1])
def test_spoilt_frames_are_read_or_refused(part: int) -> None:
    """B8, B9, B20-B23, B29, B30, B49, K45, M2: recorded and generated frames, spoilt; a message or a PeerError, nothing else.

    A failure names the seed: HEADRACE_FUZZ_SEED=... runs it again.
    """
    seed = int(os.environ.get("HEADRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1 << 30)))) + part
    done = subprocess.run(
        [sys.executable, "tests/fuzz/decoder_fuzz.py", str(seed), str(FRAMES)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"HEADRACE_FUZZ_SEED={seed - part}\n{done.stderr[-6000:]}"
    found = json.loads(done.stdout)
    assert sum(found["outcomes"].values()) == FRAMES
    assert min(found["outcomes"].values()) > FRAMES // 20
    assert found["peak_bytes"] < MOST_MEMORY
