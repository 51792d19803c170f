"""A zip of this package for ``--py-files``, for clusters that do not have it.

As a program, it also prints the application to submit, which takes the job as its first argument.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(__file__).resolve().parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)

APPLICATION = _PACKAGE / "spark" / "application.py"
"""The file to pass to spark-submit; its first argument is the job."""


def write_bundle(target: Path) -> Path:
    """Write the zip for ``--py-files``, always the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_PACKAGE.rglob("*.py")):
            entry = zipfile.ZipInfo(str(module.relative_to(_PACKAGE.parent)), _EPOCH)
            archive.writestr(entry, module.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def ship(spark: SparkSession) -> None:
    """Let Python on the executors import this package, whatever the job was submitted with."""
    from airflow_kafka_groups.spark.session import runs_locally

    if not _PACKAGE.is_dir():  # it came in a zip, by --py-files, and so it is there
        return
    if runs_locally(spark):
        environment, name = spark.sparkContext.environment, "PYTHONPATH"
        there = environment.get(name, "").split(os.pathsep)
        if str(_PACKAGE.parent) not in there:
            environment[name] = os.pathsep.join(filter(None, (str(_PACKAGE.parent), *there)))
        return
    from pyspark import SparkFiles

    bundle = Path(SparkFiles.getRootDirectory(), "shipped", "airflow_kafka_groups.zip")
    if not bundle.exists():  # executors that start later fetch it, too
        bundle.parent.mkdir()
        spark.sparkContext.addPyFile(str(write_bundle(bundle)))


def main(arguments: Sequence[str]) -> int:
    """Write the zip that the arguments name, print the application, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m airflow_kafka_groups.spark.bundle", description=__doc__)
    parser.add_argument("target", metavar="TARGET.zip", type=Path, help="the file to write")
    target = parser.parse_args(arguments).target
    write_bundle(target)
    print(APPLICATION)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
