"""Fetch the jars by which Spark reads Kafka, once: ``build/spark-jars/*.jar``.

Four jars are enough; the rest of what they depend on comes with pyspark. The connector must be of Spark's own version,
and the Kafka client of the version that the connector was built with.

``python -m tests.lab.spark.jars`` fetches them and prints their paths as ``spark-submit --jars`` wants them.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.jars import REPOSITORY
from tests.lab.machine.maven import Artifact, Download, render_pom

try:
    SPARK_VERSION = version("pyspark")
except PackageNotFoundError:  # jars are fetched while the environment is set up
    SPARK_VERSION = "4.2.0"
MINOR = SPARK_VERSION.rpartition(".")[0]
KAFKA_CLIENTS_VERSIONS = {"4.0": "3.9.0", "4.1": "3.9.1", "4.2": "3.9.2"}
"""By the minor version of Spark; without the connector of Spark 4.3, which is not to be had yet."""
COMMONS_POOL_VERSION = "2.13.1"
# Not every mirror of Maven Central has the token provider of every Spark. It only fetches delegation tokens, and its
# interface has not changed since Spark 4.0.
TOKEN_PROVIDER_VERSIONS = (SPARK_VERSION, "4.0.0")

LAKES = {
    "delta": (
        Artifact("io.delta", "delta-spark_4.2_2.13", "4.4.0", alone=True),
        Artifact("io.delta", "delta-storage", "4.4.0", alone=True),
    ),
    "iceberg": (Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", alone=True),),
}
"""Table formats: Delta for the Spark that is tested, Iceberg for the newest Spark that it has a runtime for."""

_SDK, _SDK_VERSION = "software.amazon.awssdk", "2.57.8"
S3A = (
    Artifact("org.apache.hadoop", "hadoop-aws", "3.5.0", alone=True),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", alone=True),
    *(Artifact(_SDK, name, _SDK_VERSION) for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
)
"""Hadoop's client of S3 for the Hadoop of Spark 4.2, and 19 MB of Amazon's SDK in place of its bundle of 600."""

_OF = "" if MINOR == "4.2" else f"-{MINOR}"
JARS = REPOSITORY / "build" / f"spark-jars{_OF}"
_HOME = REPOSITORY / "build" / f"spark-maven{_OF}"
_SPARK = "org.apache.spark"


def connector_jars() -> list[Path]:
    """Return the connector's jars, fetching them first when they are not all there; none where there is no connector.

    Raises LabError when Java or Maven is missing or the download fails; a later call starts over.
    """
    if MINOR not in KAFKA_CLIENTS_VERSIONS:
        return []
    failed: LabError | None = None
    for download in map(_download, TOKEN_PROVIDER_VERSIONS):
        if download.is_complete():
            return _jars(download)
    for download in map(_download, TOKEN_PROVIDER_VERSIONS):
        try:
            download.fetch()
        except LabError as exc:
            failed = exc
            continue
        return _jars(download)
    raise failed or LabError("No version of the token provider is given.")


def lake_jars(name: str) -> list[Path]:
    """Return the jars of a table format, ``delta`` or ``iceberg``, fetching them first when they are not all there.

    Raises LabError as ``connector_jars`` does.
    """
    home = REPOSITORY / "build" / f"spark-{name}"
    pom = render_pom(LAKES[name])
    return _jars(Download(what=name, pom=pom, libs=home / "jars", home=home, proof=f"{name}-spark*.jar"))


def s3a_jars() -> list[Path]:
    """Return the jars of ``s3a`` that Spark lacks, fetching them first when they are not all there.

    Raises LabError as ``connector_jars`` does.
    """
    home = REPOSITORY / "build" / "spark-s3a"
    found = _jars(Download(what="s3a", pom=render_pom(S3A), libs=home / "jars", home=home, proof="hadoop-aws*.jar"))
    spark = find_spec("pyspark")
    there = {_name_of(jar) for jar in Path(str(spark and spark.origin)).parent.glob("jars/*.jar")}
    return [jar for jar in found if _name_of(jar) not in there]


def _name_of(jar: Path) -> str:
    return re.sub(r"-\d[^-]*(-|\.|$).*", "", jar.stem)


def _jars(download: Download) -> list[Path]:
    return sorted(download.fetch().glob("*.jar"))


def _download(token_provider_version: str) -> Download:
    wanted = [
        Artifact(_SPARK, "spark-sql-kafka-0-10_2.13", SPARK_VERSION, alone=True),
        Artifact(_SPARK, "spark-token-provider-kafka-0-10_2.13", token_provider_version, alone=True),
        Artifact("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_VERSIONS[MINOR], alone=True),
        Artifact("org.apache.commons", "commons-pool2", COMMONS_POOL_VERSION, alone=True),
    ]
    return Download(
        what=f"the Kafka connector of Spark {SPARK_VERSION}",
        pom=render_pom(wanted),
        libs=JARS,
        home=_HOME,
        proof="spark-sql-kafka-0-10_2.13-*.jar",
    )


if __name__ == "__main__":
    try:
        print(",".join(str(jar) for jar in connector_jars()))
    except LabError as exc:
        sys.exit(str(exc))
