"""How were the golden bytes of every message made? By Kafka's own classes, from arbitrary JSON.

    python tests/golden/wire/record_messages.py

Writes `messages.tsv.xz` (name, version, bytes as Kafka wrote them, Kafka's JSON of them), `defaults.tsv.xz` (the same for
messages whose fields are at their defaults) and `facts.tsv` (errors, apis and header versions). Needs Java and the jars
that `tests/peers/kafka.py install` fetches.
"""

from __future__ import annotations

import json
import lzma
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from headrace.wire.json_view import to_json  # noqa: E402
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest  # noqa: E402
from headrace.wire.schema import Message, fields_of  # noqa: E402
from tests.peers import kafka  # noqa: E402
from tests.support.messages import all_versions, sample  # noqa: E402

HERE = Path(__file__).parent
SEED = 431
SAMPLES = 2


def java(*arguments: str, stdin: str = "") -> str:
    """Run the program beside this file; its output."""
    command = ["java", "-Xmx512m", "-cp", f"{kafka.install()}/libs/*", str(HERE / "KafkaBytes.java"), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def _has_records(cls: type[Message]) -> bool:
    return any(spec.kind == "records" for spec in fields_of(cls))


def lines(*, defaults: bool) -> str:
    """What the Java program is asked for."""
    rng = random.Random(SEED)
    asked: list[str] = []
    for cls, version in all_versions():
        if defaults:
            asked.append(f"{cls.__name__}\t{version}\t")
            continue
        for _ in range(SAMPLES):
            message = sample(cls, version, rng, depth_limit=2)
            if isinstance(message, UnregisterBrokerRequest):  # Kafka does not know our own tagged fields
                message = UnregisterBrokerRequest(broker_id=message.broker_id)
            asked.append(f"{cls.__name__}\t{version}\t{json.dumps(to_json(message, version))}")
    return "\n".join(asked) + "\n"


def main() -> None:
    """Write the three files."""
    (HERE / "facts.tsv").write_text(java("facts"))
    for name, defaults in (("messages", False), ("defaults", True)):
        found = java(stdin=lines(defaults=defaults))
        (HERE / f"{name}.tsv.xz").write_bytes(lzma.compress(found.encode(), preset=9))


if __name__ == "__main__":
    main()
