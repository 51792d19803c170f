"""Jars are fetched once, wholly, or with a sentence that says why not."""

from pathlib import Path

import pytest

from tests.lab import jars
from tests.lab.errors import LabError
from tests.unit.lab.conftest import Install

JAVA = "echo 'openjdk version \"21\"' >&2"
# As the real one: copies jars to -DoutputDirectory. Counts its runs.
MAVEN = """
for argument in "$@"; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done
mkdir -p "$out"; echo jar > "$out/kafka_2.13-4.1.0.jar"; echo run >> "$out/../../runs"
"""
FAILING = "mkdir -p libs.partial; echo '[ERROR] Could not resolve org.apache.kafka:x -> [Help 1]'; exit 1"


@pytest.fixture
def lab(install: Install, tmp_path: Path) -> Path:
    install("java", JAVA)
    install("mvn", MAVEN)
    return tmp_path / "lab"


def runs(lab: Path) -> int:
    return len((lab / "runs").read_text().splitlines())


def test_a_second_fetch_downloads_nothing(lab: Path) -> None:
    libs = jars.fetch("4.1.0")
    assert libs == lab / "4.1.0" / "libs"
    assert [jar.name for jar in libs.iterdir()] == ["kafka_2.13-4.1.0.jar"]
    assert jars.fetch("4.1.0") == libs
    assert runs(lab) == 1


def test_a_download_that_was_never_finished_is_done_again(lab: Path) -> None:
    half = lab / "4.1.0" / "libs"
    half.mkdir(parents=True)
    (half / "half.jar").write_text("")
    assert [jar.name for jar in jars.fetch("4.1.0").iterdir()] == ["kafka_2.13-4.1.0.jar"]


def test_a_failed_download_tells_mavens_reason_and_leaves_nothing_to_be_taken_for_whole(
    lab: Path, install: Install
) -> None:
    install("mvn", FAILING)
    with pytest.raises(
        LabError, match=r"could not fetch Kafka 4\.1\.0: Could not resolve org\.apache\.kafka:x\. Check"
    ):
        jars.fetch("4.1.0")
    assert not (lab / "4.1.0" / "libs").exists()
    install("mvn", MAVEN)
    assert jars.fetch("4.1.0").is_dir()


@pytest.mark.parametrize("version", ["", "4.1", "latest", "4.1.0-rc1", "../4.1.0"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(LabError, match="is not a Kafka version"):
        jars.parse_version(version)
