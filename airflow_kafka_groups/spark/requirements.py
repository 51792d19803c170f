"""What the jobs need, and the names, versions and properties that other rooms need. Imports no package of these."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from airflow_kafka_groups.exceptions import JobError

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable whose options spark-submit passes to a driver's JVM that it starts itself.

They come first on its command line, so each option of the site's or the user's properties has the last word.
"""

_NO_OPTIMISING_COMPILER = "-XX:TieredStopAtLevel=1"
"""Half of the processor time of such a driver goes to HotSpot's second compiler, which pays off after minutes only."""


def quick_driver(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable by which a driver on this machine starts with half of the processor time.

    :param environment: what the program that starts Spark has. Options that it names itself come later, and count.
    """
    given = environment.get(SUBMIT_OPTIONS, "")
    return {SUBMIT_OPTIONS: f"{_NO_OPTIMISING_COMPILER} {given}".strip()}


def find_java(environment: Mapping[str, str]) -> str | None:
    """Return the Java that Spark would start on this machine, ``None`` for none."""
    home = environment.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin")) if home else environment.get("PATH"))


TESTED_SPARK = ("4.0", "4.1", "4.2")
"""The minor versions of Spark with which the jobs are tested, oldest first."""

TESTED_WITH = f"{TESTED_SPARK[0]} to {TESTED_SPARK[-1]}"

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
"""The Kafka connector on Maven Central; its version must be Spark's."""

PREFIX = "kafka_groups."
READ_ONLY = f"{PREFIX}read_only"
"""``true`` if the connection must not change anything."""
PROTECTED = f"{PREFIX}protected"
"""The groups that the connection protects: a JSON list of regular expressions."""


def unequal_client() -> str:
    """Return what is wrong if pyspark and pyspark-client, which own the same files, are of two versions; or nothing."""
    versions = dict[str, str]()
    for name in ("pyspark", "pyspark-client"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    if len({*versions.values()}) < 2:
        return ""
    return f"{' and '.join(map(' '.join, versions.items()))} overwrite each other's files: install one version of both"


def require_pyspark() -> None:
    """Raise ``JobError`` with the remedy if this Python has no pyspark that can start a session."""
    if find_spec("pyspark") is None or find_spec("pyspark.core") is None:
        raise JobError(
            f"this Python ({sys.executable}) has no pyspark {TESTED_WITH}, or only the client of Spark Connect, "
            "which has no JVM: start it by spark-submit, or install pyspark (airflow-kafka-groups[spark]) in its place"
        )
