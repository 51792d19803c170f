from pathlib import Path

import pytest

from tests.lab.errors import LabError
from tests.lab.spark import archive as spark_archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "build" / "classes.jsa"
    monkeypatch.setattr(spark_archive, "ARCHIVE", path)
    return path


def program(folder: Path, text: str) -> Path:
    path = folder / "spark-submit"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_jvms_use_the_archive_where_there_is_one(archive: Path) -> None:
    without = spark_archive.quick_options()
    assert "Archive" not in without
    archive.parent.mkdir()
    archive.write_bytes(b"")
    options = spark_archive.quick_options()
    assert options.startswith(f"{without} -XX:SharedArchiveFile={archive} ")
    assert "-Xshare:auto" in options, "a JVM that cannot use it starts all the same"


def test_a_driver_writes_the_archive_once(archive: Path, tmp_path: Path) -> None:
    writes = r"""echo >> "$0.runs"; touch "$(echo "$@" | sed 's/.*ArchiveClassesAtExit=\([^ ]*\) .*/\1/')" """
    submit = program(tmp_path, writes)
    assert spark_archive.make(submit) == archive
    assert archive.exists()
    assert spark_archive.make(submit) == archive
    assert Path(f"{submit}.runs").read_text() == "\n"


@pytest.mark.parametrize("ends", ["echo 'no room' >&2", "echo 'no room' >&2; exit 1"])
def test_a_driver_that_writes_none_is_an_error(archive: Path, tmp_path: Path, ends: str) -> None:
    with pytest.raises(LabError, match=r"no archive of its classes(.|\n)*no room"):
        spark_archive.make(program(tmp_path, ends))
    assert not archive.exists()
