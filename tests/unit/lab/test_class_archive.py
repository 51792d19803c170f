from pathlib import Path

import pytest

from tests.lab import class_archive, jars
from tests.lab.errors import LabError
from tests.lab.machine import process
from tests.lab.machine.process import JavaProgram


def test_programs_use_the_archive_of_their_jars_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "find_java", lambda: "java")
    program = JavaProgram(libs=tmp_path / "4.1.0" / "libs", main_class="kafka.Kafka", arguments=("a",))
    without = program.command()
    assert not [part for part in without if "Archive" in part]
    archive = process.class_archive(program.libs)
    archive.parent.mkdir()
    archive.write_bytes(b"")
    command = program.command()
    assert f"-XX:SharedArchiveFile={archive}" in command
    assert [part for part in command if part in without] == without


def test_an_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "fetch", lambda version: tmp_path / version / "libs")
    archive = process.class_archive(tmp_path / "4.1.0" / "libs")
    archive.parent.mkdir()
    archive.write_bytes(b"")
    assert class_archive.make("4.1.0") == archive


def test_a_broker_that_writes_none_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        pids = running = ()

        def __init__(self, **_: object) -> None: ...

        def __enter__(self) -> "Silent":
            return self

        def __exit__(self, *_: object) -> None: ...

        def log_tail(self, node_id: int) -> str:
            return "no room"

    monkeypatch.setattr(jars, "fetch", lambda version: tmp_path / version / "libs")
    monkeypatch.setattr(class_archive, "KafkaCluster", Silent)
    with pytest.raises(LabError, match=r"4\.1\.0 wrote no archive of its classes(.|\n)*no room"):
        class_archive.make("4.1.0")


def test_each_version_that_is_named_has_its_archive_made_whatever_becomes_of_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(version: str) -> Path:
        if version == "3.9.2":
            raise LabError("no room")
        return Path(version)

    monkeypatch.setattr(class_archive, "make", make)
    class_archive.main(["4.1.0", "3.9.2", "2.8.2"])
    said = capsys.readouterr()
    assert said.out.split() == ["4.1.0", "2.8.2"]
    assert "Kafka 3.9.2 start without an archive of their classes: no room" in said.err
