"""A storage of Airflow's as the jobs use it, where a job runs beside Airflow and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, KafkaGroupsError, StorageError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage.access import AZURE, require_absence
from airflow_kafka_groups.storage.durable_files import (
    create_file,
    list_kinds,
    list_names,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_kafka_groups.storage.job_files import Storage, footer_of
from airflow_kafka_groups.storage.layout import StoragePath, storage_errors, write_file


class JobStorage(Storage):
    """The files below a folder.

    :param folder: the folder.
    :param text: what the job calls it: the beginning of each path.
    """

    _errors = (OSError, UnicodeDecodeError, pa.ArrowException, KafkaGroupsError)

    def __init__(self, folder: StoragePath, text: str) -> None:
        self._root, self._text = folder, text.rstrip("/")

    @contextmanager
    def _named(self, problem: str) -> Iterator[None]:
        """Leave the problem out where the error says it itself, of the path as the user wrote it."""
        try:
            yield
        except self._errors as exc:
            says_it_itself = isinstance(exc, KafkaGroupsError) and str(self._root) in str(exc)
            raise StorageError(first_line(exc) if says_it_itself else f"{problem}: {first_line(exc)}") from exc

    def _at(self, path: str) -> StoragePath:
        below = path.removeprefix(self._text)
        if below == path or below[:1] not in ("", "/"):
            raise OSError(f"it is not below {self._text}")
        place = self._root
        for part in filter(None, below.split("/")):
            place /= part
        return place

    def _parent(self, path: str) -> str | None:
        return path.rstrip("/").rpartition("/")[0] if path.rstrip("/") != self._text else None

    def _folders(self, folder: str) -> list[str]:
        return [name for name, kinds in list_kinds(self._at(folder)).items() if True in kinds]

    def _files(self, folder: str) -> list[str]:
        return [name for name, kinds in list_kinds(self._at(folder)).items() if False in kinds]

    def files_at(self, path: str) -> list[str]:
        """Return what ``files`` does, and the name of a file itself: a job that asks may be about to replace it."""
        with self._named(f"{path} cannot be listed"):
            place = self._at(path)
            own = {place.name} if self._is_file(place) else set()
            return sorted(own.union(name for name, each in list_kinds(place).items() if False in each))

    def _is_file(self, place: StoragePath) -> bool:
        if getattr(place, "protocol", None) in AZURE:  # a folder may be read there as an empty file
            return False in list_kinds(place.parent).get(place.name, ())
        return read_file(place, 0, 1) is not None

    def _files_below(self, folder: str) -> dict[tuple[str, str], int]:
        place: Any = self._at(folder)
        own = str(place.path).rstrip("/")
        with storage_errors("listed", place):
            place.fs.invalidate_cache(own)
            try:
                listed = place.fs.find(own, detail=True).values()  # a thousand files at once, in whatever folders
                found = [each for each in listed if each["type"] != "directory"]
            except FileNotFoundError as exc:
                require_absence(exc, place.fs, f"{own}/")
                return {}
        sizes = {str(each["name"]): int(each["size"] or 0) for each in found}
        parts = {tuple(name.split("/")[-2:]): size for name, size in sizes.items() if name.startswith(f"{own}/")}
        return {(inner, name): size for (inner, name), size in parts.items() if name}

    def _read(self, path: str) -> bytes:
        if (content := read_file(self._at(path))) is None:
            raise FileNotFoundError("there is no such file")
        return content

    def _footer(self, path: str) -> tuple[set[str], int]:
        return footer_of(pa.BufferReader(self._read(path)))

    def _exists(self, path: str) -> bool:
        place = self._at(path)
        return bool(list_names(place)) or self._is_file(place)  # a job looks for folders, each time by a request

    def _written_at(self, path: str) -> datetime:
        place: Any = self._at(path)
        with storage_errors("looked for", place):
            place.fs.invalidate_cache(str(place.path))
            found: datetime = place.fs.modified(str(place.path))
            return found.astimezone(UTC)

    def _write(self, path: str, content: bytes, *, replace: bool) -> None:
        place = self._at(path)
        if replace:
            write_file(place.parent, place.name, content)
        else:
            create_file(place, content)

    def _create(self, path: str, content: bytes) -> None:
        create_file(self._at(path), content)

    def _create_whole(self, path: str, content: bytes, aside: str) -> bool:
        # An object appears when it is complete, and no object store moves one.
        try:
            create_file(self._at(path), content)
        except FileExistsAlreadyError:
            return False
        return True

    def _delete(self, path: str, *, recursive: bool) -> None:
        place = self._at(path)
        if not recursive:
            remove_file(place)
            return
        for name, kinds in list_kinds(place).items():
            if True in kinds:
                self._delete(f"{path.rstrip('/')}/{name}", recursive=True)
            if False in kinds:
                remove_file(place / name)
        remove_folder(place)  # and no file that has the same name in an object store: it is somebody else's
