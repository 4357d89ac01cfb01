"""Lay out the telemetry pipeline's project for a cluster.

    python examples/telemetry/lay_out.py --bootstrap-server 127.0.0.1:9092 --project telemetry

Needs: pip install 'headrace[spark]'
"""

import argparse
import json
import shutil
from pathlib import Path

SPEC = """\
name: telemetry
storage: {root}/storage
database: default
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "1"
  spark.sql.session.timeZone: UTC
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--project", type=Path, required=True)
    options = parser.parse_args()
    project = options.project.resolve()
    shutil.copytree(Path(__file__).with_name("transformations"), project / "transformations", dirs_exist_ok=True)
    (project / "spark-pipeline.yml").write_text(SPEC.format(root=project.as_uri()))
    (project / "settings.json").write_text(json.dumps({"servers": options.bootstrap_server}) + "\n")
    print(f"the project is {project}")


if __name__ == "__main__":
    main()
