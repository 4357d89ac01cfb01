"""A pipeline's project: the spec file, what a new one consists of, and where it is found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import OperatorError

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

_SPEC: Final = """\
name: {name}
storage: {root}/storage            # checkpoints of the flows; keep it, or each run begins anew
database: default
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "4"
"""
_PYTHON: Final = '''\
"""A streaming table fed from a topic, and a view of it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(comment="the records of the topic, each once")
def {table}() -> DataFrame:
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", "{servers}")
        .option("subscribe", "{topic}")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(
        F.col("key").cast("string"), F.col("value").cast("string"), "partition", "offset", "timestamp"
    )


@dp.materialized_view(comment="how much each partition holds")
def {table}_by_partition() -> DataFrame:
    return spark.read.table("{table}").groupBy("partition").agg(F.count("*").alias("records"), F.max("offset").alias("last"))
'''
_SQL: Final = """\
-- The same in SQL: a streaming table that takes what is new in another, and a view that is computed at each run.
CREATE STREAMING TABLE {table}_with_key
AS SELECT * FROM STREAM {table} WHERE key IS NOT NULL;

CREATE MATERIALIZED VIEW {table}_by_key
AS SELECT key, count(*) AS records, max(timestamp) AS newest FROM {table}_with_key GROUP BY key;
"""
_IGNORED: Final = "storage/\nwarehouse/\ncatalog/\n.headrace/\n__pycache__/\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """What a new project reads: a topic at some servers."""

    directory: Path
    servers: str
    topic: str


def create_project(new: NewProject) -> list[Path]:
    """Write the project's files; their paths. Raises OperatorError if there is something already, or a name cannot be used."""
    name = new.directory.resolve().name
    if not _NAME.fullmatch(name):
        raise OperatorError(f"{name} is no name for a pipeline: begin with a letter; then letters, digits, - and _")
    if new.directory.exists() and any(new.directory.iterdir()):
        raise OperatorError(f"{new.directory} is not empty: a new pipeline needs a directory of its own")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", new.topic):
        raise OperatorError(f"{new.topic} is no name of a topic: letters, digits, ., _ and -, at most 249")
    if not re.fullmatch(r"[A-Za-z0-9._:,\[\]-]+", new.servers):
        raise OperatorError(f"--bootstrap-server {new.servers}: give HOST:PORT, several with commas between")
    words = {
        "name": name,
        "root": new.directory.resolve().as_uri(),
        "table": table_name(new.topic),
        "servers": new.servers,
        "topic": new.topic,
    }
    files = {
        SPEC_NAMES[0]: _SPEC.format(**words),
        "transformations/topic.py": _PYTHON.format(**words),
        "transformations/views.sql": _SQL.format(**words),
        ".gitignore": _IGNORED,
    }
    for relative, text in files.items():
        file = new.directory / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [new.directory / each for each in files]


def table_name(topic: str) -> str:
    """A topic's name as one that SQL takes without quotes."""
    name = re.sub(r"[^a-z0-9_]", "_", topic.lower())
    return name if name[:1].isalpha() else f"topic_{name}"


def find_spec(given: Path | None) -> Path:
    """The spec file: that given, or that of the directory given; else that of this directory or the nearest one above it. Raises OperatorError."""
    if given is not None and given.is_file():
        return given
    if given is not None and not given.is_dir():
        raise OperatorError(f"{given}: there is no such file or directory")
    start = (given or Path.cwd()).resolve()
    for directory in [start] if given else [start, *start.parents]:
        found = [directory / name for name in SPEC_NAMES if (directory / name).is_file()]
        if len(found) > 1:
            raise OperatorError(f"{directory} has both {' and '.join(SPEC_NAMES)}: remove one")
        if found:
            return found[0]
    raise OperatorError(
        f"there is no {SPEC_NAMES[0]} in {start}{'' if given else ' or above it'}: make a project with `headrace pipeline init`"
    )


def load_spec(path: Path) -> Any:
    """The spec as Spark's own `PipelineSpec`. Raises OperatorError that names the file."""
    import yaml
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import load_pipeline_spec

    try:
        spec = load_pipeline_spec(path)
    except yaml.YAMLError as error:
        raise OperatorError(f"{path}: {error}") from error
    except PySparkException as error:
        raise OperatorError(f"{path}: {error.getMessage()}") from error
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise OperatorError(f"{path}: this is no spec of a pipeline ({error})") from error
    if not spec.libraries:
        raise OperatorError(f"{path}: libraries is missing: it says which files define the pipeline")
    return spec
