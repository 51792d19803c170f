"""The Spark connector's jars are fetched once, with the token provider that is to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.errors import LabError
from tests.lab.spark import jars as spark_jars
from tests.unit.lab.conftest import Install

JAVA = "echo 'openjdk version \"21\"' >&2"
# As the real one on a mirror that lacks the newest token provider. Counts its runs.
MAVEN = """
echo run >> ../runs
for argument in "$@"; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done
if grep -A1 token-provider pom.xml | grep -q "MISSING"; then echo '[ERROR] not found: the token provider'; exit 1; fi
mkdir -p "$out"; echo jar > "$out/spark-sql-kafka-0-10_2.13-4.2.0.jar"
"""


@pytest.fixture
def build(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install("java", JAVA)
    monkeypatch.setattr(spark_jars, "JARS", tmp_path / "build" / "jars")
    monkeypatch.setattr(spark_jars, "_HOME", tmp_path / "build" / "maven")
    return tmp_path / "build"


def runs(build: Path) -> int:
    return len((build / "runs").read_text().splitlines())


def test_an_older_token_provider_will_do_and_is_not_looked_for_again(build: Path, install: Install) -> None:
    install("mvn", MAVEN.replace("MISSING", spark_jars.TOKEN_PROVIDER_VERSIONS[0]))
    jars = spark_jars.connector_jars()
    assert [jar.name for jar in jars] == ["spark-sql-kafka-0-10_2.13-4.2.0.jar"]
    assert runs(build) == 2
    assert spark_jars.connector_jars() == jars
    assert runs(build) == 2


def test_a_failed_download_says_what_and_why(build: Path, install: Install) -> None:
    install("mvn", "echo '[ERROR] no such host'; exit 1")
    with pytest.raises(LabError, match=r"could not fetch the Kafka connector of Spark 4\.2\.0: no such host\."):
        spark_jars.connector_jars()
    assert not (build / "jars").exists()
