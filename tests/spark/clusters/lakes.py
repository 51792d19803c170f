"""The jobs' tables in Delta and Iceberg: ``make test-lakes``, apart for its downloads and a second Spark.

Iceberg has no runtime for the Spark that everything else is tested with, so its jobs run on Spark 4.1.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.histories.lake import write_snapshot
from tests.histories.shorthand import seen, snapshot_id
from tests.lab.jars import REPOSITORY
from tests.lab.spark.jars import lake_jars
from tests.spark.conftest import SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.sources.default": "delta",
    "spark.databricks.delta.snapshotPartitions": "2",
}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}

HIDDEN = ("by cluster and ", "is partitioned by ", "by bucket(8, group_id) and cluster and snapshot_id,")
"""Why tables with such partitions are refused."""


@pytest.mark.parametrize(
    ("name", "python", "database", "settings", "refused"),
    [
        ("delta", Path(sys.executable), "spark_catalog.kafka", DELTA, ("Keep that folder",)),
        ("iceberg", REPOSITORY / "build" / "spark-4.1" / "bin" / "python", "lake.kafka", ICEBERG, HIDDEN),
    ],
)
def test_each_output_is_a_table_of_the_lake_once(
    name: str, python: Path, database: str, settings: dict[str, str], refused: tuple[str, ...], tmp_path: Path
) -> None:
    for number in range(3):
        write_snapshot(tmp_path, number, [*seen(number, group="a"), *seen(number, group="b")])
    warehouse = f"{tmp_path}/warehouse"
    given = {
        **SETTINGS,
        **settings,
        "spark.jars": ",".join(str(jar) for jar in lake_jars(name)),
        "spark.sql.warehouse.dir": warehouse,
        "spark.sql.catalog.lake.warehouse": warehouse,
    }
    command = [str(python), "-m", "tests.spark.clusters.lake_driver", tmp_path.as_uri(), database, json.dumps(given)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("archive", 1) == 1
    assert found.pop("repeated", [[1, 2]] * 3) == [[1, 2]] * 3, "each slice once, in each mode"
    assert found.pop("evolved") == [["a", 1, None, None], ["b", 2, 0.5, None], ["c", 3, None, None]]
    assert found.pop("widened") == ([2**40] if name == "delta" else [1, 2**40])
    of_keys = [["a", "4", 3], ["b", "2", 1], ["c", "5", 4]]
    assert found.pop("merged", of_keys) == of_keys, "a slice that is repeated changes nothing"
    for why, said in zip(refused, found.pop("refused"), strict=True):
        assert why in said
    assert found.pop("headers") == [["h", "1"], ["h", None]]
    assert {table: each["format"] for table, each in found.items()} == dict.fromkeys(found, name)
    newest = {snapshot_id(2): 2}
    assert {table: each["rows"] for table, each in found.items()} == {
        "verdicts": newest,
        "observations": {snapshot_id(0): 2, snapshot_id(1): 2, snapshot_id(2): 2},
        "lag": newest,
        "days": {"2026-01-01": 7},
        "commits": {"r": 1},
        "groups": {"r": 1},
        "archives": {"p": 1},
    }
