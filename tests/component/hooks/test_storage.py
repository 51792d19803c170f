"""Storages whose library keeps one connection, on a real SFTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import io
from sshfs import SSHFileSystem

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.maintenance.durable_files import create_file, read_file
from tests.lab.servers.sftp_server import SftpServer


def test_a_storage_that_hung_up_is_reached_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server keeps its stores: the report tab had no more reports until it was started again."""
    with SftpServer(tmp_path) as server:
        opened: list[Any] = []

        def get_fs(*_: object) -> Any:
            options = {name: value for name, value in server.options.items() if name != "skip_instance_cache"}
            opened.append(SSHFileSystem(**options))
            return opened[-1]

        monkeypatch.setattr(io, "get_fs", get_fs)  # what Airflow's provider of SFTP does with a connection
        where = f"sftp://hangs_up_{server.port}@/kafka/1.json"
        create_file(open_path("report", where), b"one")
        assert read_file(open_path("report", where)) == b"one"
        assert len(opened) == 1
        server.stop()
        with pytest.raises(StorageError):
            read_file(open_path("report", where))
        server.start()
        assert read_file(open_path("report", where)) == b"one"
