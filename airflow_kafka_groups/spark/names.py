"""The names, versions and properties of the Spark jobs and of their driver that other rooms need."""

from __future__ import annotations

from collections.abc import Mapping

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
