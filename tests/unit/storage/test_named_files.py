"""What users name is read up to a limit, if it is a regular file, on every storage."""

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backlog import read_result
from airflow_kafka_groups.cli.options import read_properties
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError, StorageError
from airflow_kafka_groups.kafka.transport.security import Pem
from airflow_kafka_groups.ledger.journal import read_end
from airflow_kafka_groups.observe.cluster_log import LARGEST_ENTRY
from airflow_kafka_groups.storage.disk import read_local
from airflow_kafka_groups.storage.json_files import read_named
from tests.fakes.refusing_path import RefusingPath


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "named"
    assert read_named(path, "it", 3, MaintenanceError) is None
    path.write_bytes(b"abc")
    assert read_named(path, "it", 3, MaintenanceError) == b"abc"
    os.truncate(path, 14 << 30)
    with pytest.raises(MaintenanceError, match=r"it is too large: .*named has more than 3 bytes"):
        read_named(path, "it", 3, MaintenanceError)


def test_neither_in_an_object_store(tmp_path: Path) -> None:
    (tmp_path / "named").write_bytes(b"abcd")
    path: Any = RefusingPath(tmp_path / "named")
    assert read_named(path, "it", 4, MaintenanceError) == b"abcd"
    with pytest.raises(MaintenanceError, match="too large"):
        read_named(path, "it", 3, MaintenanceError)


@pytest.mark.parametrize("read", [read_end, lambda path: read_result(path, "b")])
def test_a_record_and_a_result_are_regular_files_of_a_bearable_size(read: Any, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="a device or a pipe"):
        read(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="a device or a pipe"):
        read(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", LARGEST_ENTRY + 14)
    with pytest.raises(MaintenanceError, match="too large"):
        read(tmp_path / "large")


def test_settings_and_certificates_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            Pem(name="ssl.ca", location=place).read()
    with pytest.raises(IsADirectoryError):
        read_local(tmp_path)


def test_the_shell_may_hand_its_settings_over_by_a_pipe() -> None:
    """As ``--config <(command)`` does, so that no secret is in a file."""
    end, other = os.pipe()
    with os.fdopen(other, "w") as file:
        file.write("bootstrap.servers=a:9092\n")
    assert read_properties(Path(f"/dev/fd/{end}")) == {"bootstrap.servers": "a:9092"}
    os.close(end)
