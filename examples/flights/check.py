"""Account for every report of the flights pipeline: what the tables and the topic hold, beside the source data; then the picture.

Late reports are worked out anew, from the files of each micro-batch and the watermark that Spark noted for it.
"""

import argparse
import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd

from headrace.arrow.read import read_table
from headrace.spark.declarative.session import project_config
from headrace.spark.demo import account
from headrace.spark.demo.flights import PARTITIONS
from headrace.spark.demo.plot import draw
from headrace.spark.demo.run import load_inputs
from headrace.spark.session import local_session, stop_session


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=Path, required=True)
    project = parser.parse_args().project.resolve()
    settings = json.loads((project / "settings.json").read_text())
    inputs = load_inputs(settings["flights"])
    reports = inputs.replay.reports
    is_damaged = pd.Series(np.zeros(len(reports), dtype=bool), index=reports.index)
    every = settings["damaged_every"]
    is_damaged.iloc[every // 2 : len(reports) - PARTITIONS : every] = True
    tables = read_tables(project)
    fate = fates(reports, is_damaged, batch_of_rows(project), filter_marks(project))
    topic = read_table(settings["servers"], settings["delays_topic"]).column("value").to_pylist()
    checks = account_for(reports, fate, tables, [json.loads(each) for each in topic])
    checks.insert(
        0,
        account.Check(
            what="records in the topic",
            expected=len(reports),
            found=read_table(settings["servers"], settings["reports_topic"], columns=["offset"]).num_rows,
        ),
    )
    for each in checks:
        print(f"{'ok   ' if each.is_right else 'WRONG'} {each.what}: {each.expected:,} expected, {each.found:,} found")
    print(
        f"records of the output topic that were written twice: {len(topic) - len({(row['carrier'], row['hour']) for row in map(json.loads, topic)})}"
    )
    draw(tables["delays"], reports, fate.where(~is_damaged, "quarantined"), project / "flights.png")
    print(f"picture: {project / 'flights.png'}")
    return 0 if all(each.is_right for each in checks) else 1


def read_tables(project: Path) -> dict[str, pd.DataFrame]:
    """The pipeline's tables, read by Spark: it knows which files count."""
    config = {**project_config(project, {}), "spark.sql.session.timeZone": "UTC"}
    spark = local_session("flights-check", config=config, log_path=project / "check.log")
    try:
        tables = {name: spark.table(name).toPandas() for name in ("quarantine", "delays", "cancelled")}
        for name in ("reports", "flights"):
            tables[name] = spark.table(name).select("partition", "offset").toPandas()
    finally:
        stop_session(spark)
    tables["delays"]["hour"] = tables["delays"]["hour"].dt.tz_localize("UTC")
    return tables


def flow_checkpoint(project: Path) -> Path:
    """Where Spark keeps the flow `delays`."""
    (found,) = [each.parent for each in (project / "storage").glob("**/offsets") if "/delays/" in f"{each}/"]
    return found


def batch_of_rows(project: Path) -> pd.DataFrame:
    """In which micro-batch of the flow each row of `flights` was: partition, offset, batch."""
    parts = []
    for path in (flow_checkpoint(project) / "sources" / "0").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            rows = pd.read_parquet(unquote(urlsplit(entry["path"]).path), columns=["partition", "offset"])
            parts.append(rows.assign(batch=entry["batchId"]))
    return pd.concat(parts).drop_duplicates()


def filter_marks(project: Path) -> dict[int, int]:
    """By batch of the source, the watermark (ms) behind which rows were late in it: that of the batch before."""
    marks: dict[int, int] = {}
    source_batch: dict[int, int] = {}
    for path in (flow_checkpoint(project) / "offsets").glob("[0-9]*"):
        _, metadata, offset = path.read_text().splitlines()
        marks[int(path.name)] = json.loads(metadata)["batchWatermarkMs"]
        source_batch[json.loads(offset)["logOffset"]] = min(
            int(path.name), source_batch.get(json.loads(offset)["logOffset"], 1 << 30)
        )
    return {log: marks.get(batch - 1, 0) for log, batch in source_batch.items()}


def fates(reports: pd.DataFrame, is_damaged: pd.Series, rows: pd.DataFrame, marks: dict[int, int]) -> pd.Series:
    """What must have become of each report."""
    batches = reports.merge(rows, on=["partition", "offset"], how="left")["batch"]
    closed = pd.to_datetime(batches.map(marks).fillna(0), unit="ms", utc=True)
    fate = pd.Series(account.DELIVERED, index=reports.index)
    fate[((reports["scheduled"].dt.floor("h") + pd.Timedelta(hours=1)) <= closed).to_numpy()] = account.LATE
    fate[reports["dep_delay"].isna()] = account.CANCELLED
    fate[reports["seq"] < 0] = account.END_MARK
    fate[is_damaged] = "quarantined"
    return fate


def account_for(
    reports: pd.DataFrame, fate: pd.Series, tables: dict[str, pd.DataFrame], topic: list[dict[str, object]]
) -> list[account.Check]:
    """Every count that must agree."""
    counts, delays = fate.value_counts(), tables["delays"]
    expected = account.expected_delays(reports, fate)
    merged = expected.merge(delays, on=["hour", "carrier"], how="outer", suffixes=("", "_found")).fillna(-1)
    differing = (merged["flights"] != merged["flights_found"]) | (
        (merged["dep_delay_minutes"] - merged["dep_delay_minutes_found"]).abs() > 1e-6
    )
    places = [len(tables[name].drop_duplicates()) for name in ("reports", "flights")]
    late = int(len(tables["flights"]) - counts[account.END_MARK] - counts[account.CANCELLED] - delays["flights"].sum())
    pairs = [
        ("rows of reports", len(reports), len(tables["reports"])),
        ("different rows of reports", len(reports), places[0]),
        ("rows of flights", len(reports) - counts["quarantined"], len(tables["flights"])),
        ("different rows of flights", len(reports) - counts["quarantined"], places[1]),
        ("rows of quarantine", counts["quarantined"], len(tables["quarantine"])),
        ("flights cancelled", counts[account.CANCELLED], tables["cancelled"]["flights"].sum()),
        ("rows of delays", len(expected), len(delays)),
        ("flights in delays", counts[account.DELIVERED], delays["flights"].sum()),
        ("flights late", counts.get(account.LATE, 0), late),
        ("rows of delays that differ from the source data", 0, differing.sum()),
        ("different records in the output topic", len(delays), len({(row["carrier"], row["hour"]) for row in topic})),
    ]
    return [account.Check(what=what, expected=int(wanted), found=int(found)) for what, wanted, found in pairs]


if __name__ == "__main__":
    raise SystemExit(main())
