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


def test_jars_of_another_pom_are_fetched_again(lab: Path) -> None:
    jars.fetch("4.1.0")
    (lab / "4.1.0" / "complete").write_text("of an older lab")
    jars.fetch("4.1.0")
    assert runs(lab) == 2


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


def test_a_maven_that_copies_nothing_is_no_success(lab: Path, install: Install) -> None:
    install("mvn", "exit 0")
    with pytest.raises(LabError, match="it said nothing"):
        jars.fetch("4.1.0")


def test_a_folder_that_cannot_be_written_is_named(lab: Path) -> None:
    lab.write_text("a file is in the way")
    with pytest.raises(LabError, match="Cannot write the jars to"):
        jars.fetch("4.1.0")


@pytest.mark.parametrize("version", ["", "4.1", "latest", "4.1.0-rc1", "../4.1.0"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(LabError, match="is not a Kafka version"):
        jars.parse_version(version)


def test_jars_live_in_the_build_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AKG_LAB_DIR", raising=False)
    assert jars.lab_dir() == jars.REPOSITORY / "build" / "kafka"
    monkeypatch.setenv("AKG_LAB_DIR", str(tmp_path))
    assert jars.lab_dir() == tmp_path


@pytest.mark.parametrize(("version", "tools"), [("4.1.0", True), ("3.9.2", True), ("2.8.2", False)])
def test_the_command_line_tools_come_along_where_they_are_a_jar_of_their_own(version: str, *, tools: bool) -> None:
    assert ("kafka-tools" in jars.render_pom(version)) is tools
