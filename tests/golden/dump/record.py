"""Record what kafka-dump-log 4.3.1 prints for the files in data/: python tests/golden/dump/record.py LIBS"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
Z = "00000000000000000000"
CASES: list[str] = [
    f"--files plain-0/{Z}.log",
    f"--files plain-0/{Z}.log --print-data-log",
    f"--files plain-0/{Z}.log --deep-iteration",
    f"--files plain-0/{Z}.log --print-data-log --skip-record-metadata",
    f"--files plain-0/{Z}.log --deep-iteration --max-bytes 300",
    f"--files plain-0/{Z}.log --max-message-size 10",
    f"--files plain-0/{Z}.index",
    f"--files plain-0/{Z}.index --verify-index-only",
    f"--files plain-0/{Z}.index --index-sanity-check",
    f"--files plain-0/{Z}.timeindex",
    f"--files plain-0/{Z}.timeindex --verify-index-only",
    f"--files plain-0/{Z}.timeindex --index-sanity-check",
    f"--files plain-0/{Z}.log,plain-0/{Z}.index,plain-0/{Z}.timeindex",
    f"--files gz-0/{Z}.log",
    f"--files gz-0/{Z}.log --deep-iteration",
    f"--files gz-0/{Z}.log --print-data-log",
    "--files gz-0/00000000000000000035.snapshot",
    f"--files txn-0/{Z}.log --print-data-log",
    "--files txn-0/00000000000000000003.log --print-data-log",
    "--files txn-0/00000000000000000003.log --print-data-log --skip-record-metadata",
    "--files txn-0/00000000000000000003.txnindex",
    "--files txn-0/00000000000000000008.snapshot",
    f"--files lat-0/{Z}.log --print-data-log",
    f"--files __consumer_offsets-0/{Z}.log --offsets-decoder",
    f"--files __consumer_offsets-1/{Z}.log --offsets-decoder",
    f"--files __consumer_offsets-0/{Z}.log --offsets-decoder --skip-record-metadata",
    f"--files __transaction_state-0/{Z}.log --transaction-log-decoder",
    f"--files __transaction_state-0/{Z}.log --offsets-decoder",
    f"--files __cluster_metadata-0/{Z}.log",
    f"--files __cluster_metadata-0/{Z}.log --cluster-metadata-decoder",
    f"--files __cluster_metadata-0/{Z}.log --cluster-metadata-decoder --skip-record-metadata",
    f"--files __cluster_metadata-0/{Z}.index,__cluster_metadata-0/{Z}.timeindex",
    "--files __cluster_metadata-0/00000000000000000178-0000000002.checkpoint --cluster-metadata-decoder",
    "--files __cluster_metadata-0/00000000000000000178-0000000002.checkpoint --cluster-metadata-decoder --skip-record-metadata",
    "--files __cluster_metadata-0/00000000000000000178-0000000002.checkpoint",
    "--files bootstrap.checkpoint --cluster-metadata-decoder",
    f"--files voters/__cluster_metadata-0/{Z}-0000000000.checkpoint --cluster-metadata-decoder",
    f"--files crc-0/{Z}.log --print-data-log",
    "--files txn-0/00000000000000000003.log --deep-iteration",
    f"--files plain-0/{Z}.log --cluster-metadata-decoder",
    f"--files torn-0/{Z}.log --deep-iteration",
    f"--files torn-0/{Z}.log",
    f"--files crc-0/{Z}.log",
    f"--files crc-0/{Z}.log --deep-iteration",
    f"--files index-0/{Z}.index",
    f"--files index-0/{Z}.index --index-sanity-check",
    f"--files index-0/{Z}.timeindex",
    "--files plain-0/leader-epoch-checkpoint",
    f"--files __transaction_state-0/{Z}.log --print-data-log",
]


def main() -> None:
    """Run every case and write kafka-4.3.1.json."""
    libs = sys.argv[1]
    found = []
    for case in CASES:
        command = ["java", "-Xmx256m", "-cp", f"{libs}/*", "org.apache.kafka.tools.DumpLogSegments", *case.split()]
        run = subprocess.run(command, cwd=HERE / "data", capture_output=True, text=True, check=False, timeout=60)
        errors = [
            line.replace(f"{HERE}/data/", "")  # the tool names some files as the machine does
            for line in run.stderr.splitlines()
            if not line.startswith(("\tat ", "SLF4J", "WARNING", "\t..."))
        ]
        found.append({"arguments": case, "exit_code": run.returncode, "stdout": run.stdout, "stderr": errors})
    (HERE / "kafka-4.3.1.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
