"""Fill a topic with the reports of 336,776 flights, some of them damaged, and lay out the pipeline's project.

    python examples/flights/prepare.py --bootstrap-server 127.0.0.1:9092 --project flights-pipeline [--flights 20000]
    headrace pipeline run --project flights-pipeline --picture flights-pipeline/graph.svg
    python examples/flights/check.py --project flights-pipeline

Needs: pip install 'headrace[demo]'
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.spark.demo.flights import PARTITIONS, write_tables
from headrace.spark.demo.replay import Replayer
from headrace.spark.demo.run import load_inputs

REPORTS, DELAYS = "flights", "flight-delays"
DAMAGED_EVERY = 1009
SPEC = """\
name: flights
storage: {root}/storage
database: default
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "2"
  spark.sql.session.timeZone: UTC
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--flights", type=int, help="only the first N of the year")
    parser.add_argument("--reports-per-batch", default="28000")
    options = parser.parse_args()
    project = options.project.resolve()
    inputs = load_inputs(options.flights)
    values = damaged(inputs.replay.values)
    with BlockingClient(options.bootstrap_server) as client:
        new = [
            admin_topics.NewTopic(name=REPORTS, partitions=PARTITIONS),
            admin_topics.NewTopic(name=DELAYS, partitions=1),
        ]
        made = client.run(admin_topics.create_topics, new)
        if refused := [each for each in made.values() if isinstance(each, Exception)]:
            raise SystemExit(f"topics were not made: {refused[0]}")
    replay = type(inputs.replay)(
        reports=inputs.replay.reports, values=values, flights=inputs.replay.flights, held_up=inputs.replay.held_up
    )
    sender = Replayer(replay, servers=options.bootstrap_server, topic=REPORTS, reports_per_s=1_000_000)
    sender.run()
    if sender.error is not None:
        raise sender.error
    lay_out(project, options, inputs)
    print(f"{len(values):,} records in topic {REPORTS}; the project is {project}")


def damaged(values: pa.Array) -> pa.Array:
    """One report in a thousand is cut off in the middle; marks at the end stay."""
    texts = values.to_pylist()
    for number in np.arange(DAMAGED_EVERY // 2, len(texts) - PARTITIONS, DAMAGED_EVERY):
        texts[number] = texts[number][: len(texts[number]) // 2]
    return pa.array(texts, type=pa.binary())


def lay_out(project: Path, options: argparse.Namespace, inputs: object) -> None:
    """The files of the project, with where things are in settings.json."""
    shutil.copytree(Path(__file__).with_name("transformations"), project / "transformations", dirs_exist_ok=True)
    (project / "spark-pipeline.yml").write_text(SPEC.format(root=project.as_uri()))
    write_tables(inputs.airlines, inputs.weather, project / "tables")  # type: ignore[attr-defined]
    settings = {
        "servers": options.bootstrap_server, "reports_topic": REPORTS, "delays_topic": DELAYS, "reports_per_batch": options.reports_per_batch,
        "tables": str(project / "tables"), "flights": options.flights, "damaged_every": DAMAGED_EVERY,
    }  # fmt: skip
    (project / "settings.json").write_text(json.dumps(settings, indent=1) + "\n")


if __name__ == "__main__":
    main()
