"""The empty objects that Hadoop and consoles keep for a folder, as Azurite and fake-gcs-server show them."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath

FOLDER = "bucket/prod/data/20200101T000000Z-00000001"


class Objects:
    """Objects by name; Azure's with whether they stand for a folder."""

    def __init__(self, protocol: str, names: dict[str, bool]) -> None:
        self.protocol, self.names = (protocol,), names

    def invalidate_cache(self, key: str) -> None:
        """Forget nothing."""

    def info(self, key: str) -> dict[str, Any]:
        if key in self.names:
            return {"name": key, "type": "directory" if self.names[key] else "file"}
        if any(name.startswith(f"{key}/") for name in self.names):
            return {"name": key, "type": "directory"}
        raise FileNotFoundError(key)

    def rm_file(self, key: str) -> None:
        if key not in self.names:
            raise FileNotFoundError(key)
        if self.names[key] and any(name.startswith(f"{key}/") for name in self.names):
            raise OSError("DirectoryIsNotEmpty")  # as a hierarchical namespace answers
        del self.names[key]


class At:
    """A path in a store."""

    def __init__(self, fs: Objects) -> None:
        self.fs, self.path, self.protocol = fs, FOLDER, fs.protocol[0]

    def __str__(self) -> str:
        return self.path


def remove(fs: Objects) -> dict[str, bool]:
    path: StoragePath = At(fs)  # type: ignore[assignment]
    FILES.remove_folder(path)
    return fs.names


@pytest.mark.parametrize(("protocol", "marker"), [("gs", f"{FOLDER}/"), ("abfss", FOLDER), ("s3", f"{FOLDER}/")])
def test_a_folder_s_empty_object_goes_with_its_files(protocol: str, marker: str) -> None:
    """Otherwise its set was found, and reported as removed, each day."""
    assert remove(Objects(protocol, {marker: True})) == {}
    assert remove(Objects(protocol, {})) == {}


@pytest.mark.safety
def test_what_is_a_file_on_azure_stays() -> None:
    assert remove(Objects("abfss", {FOLDER: False})) == {FOLDER: False}


@pytest.mark.safety
def test_a_folder_of_azure_into_which_somebody_has_put_a_file_stays() -> None:
    store = Objects("abfss", {FOLDER: True, f"{FOLDER}/notes.txt": False})
    with pytest.raises(StorageError, match="DirectoryIsNotEmpty"):
        remove(store)
    assert len(store.names) == 2
