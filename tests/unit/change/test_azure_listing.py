"""A folder that is called like a file on Azure: adlfs lists the file alone, as it was seen with Azurite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.asyn import get_loop  # type: ignore[import-untyped]

from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath

pytestmark = pytest.mark.safety


class Container:
    """A client of azure-storage-blob for a container."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    async def __aenter__(self) -> Container:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""

    async def walk_blobs(self, name_starts_with: str, delimiter: str) -> AsyncIterator[Any]:
        assert delimiter == "/"
        below = [name[len(name_starts_with) :] for name in self.names if name.startswith(name_starts_with)]
        for entry in sorted({first + slash for first, slash, _ in (name.partition("/") for name in below)}):
            yield SimpleNamespace(name=name_starts_with + entry)


class At:
    """A path in a store with these blobs, of which one is called like the path."""

    def __init__(self, names: list[str]) -> None:
        client = SimpleNamespace(get_container_client=lambda container: Container(names))
        self.path = "lab/prod/changes"
        self.fs = SimpleNamespace(
            protocol=("abfs", "az", "abfss"),
            loop=get_loop(),
            service_client=client,
            invalidate_cache=lambda key: None,
            ls=lambda key, detail: [{"name": self.path, "type": "file"}],
        )


def at(*names: str) -> StoragePath:
    return At(["prod/changes", *names])  # type: ignore[return-value]


def test_the_records_of_restores_are_found_beside_a_blob_with_the_name_of_their_folder() -> None:
    """Whoever uploads one would hide them all: what somebody restored could be deleted again."""
    folder = at("prod/changes/1-restore-before.json", "prod/changes/more/2.json", "prod/changes2/3.json")
    assert FILES.names(folder) == ["1-restore-before.json", "more"]
    assert FILES.list(folder) == {"1-restore-before.json": {False}, "more": {True}}


def test_a_file_is_no_folder_with_files() -> None:
    assert FILES.names(at("prod/changes2/3.json")) == []
