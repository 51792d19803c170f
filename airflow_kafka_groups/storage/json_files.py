"""JSON files: read with an error that names the file, and written complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import UnknownFormatError, check_format
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.paths import is_cluster_name


def read_json(
    path: StoragePath, what: str, error: type[MaintenanceError], *, has_format: bool = True
) -> dict[str, Any]:
    """Read a JSON object.

    :param what: the kind of file for messages, e.g. ``"the plan"``.
    :param error: raised if the file is missing, incomplete, of a newer format or not a JSON object.
    :param has_format: whether the file has the field ``format``, and another version is refused. Default true.

    Raises ``StorageError`` where the storage fails: the file may be there, and a later try may read it.
    """
    if (data := FILES.read(path)) is None:
        raise error(f"{what} is missing: there is no {path}")
    return parse_json(data, path, what, error, has_format=has_format)


def parse_json(
    content: bytes, path: StoragePath, what: str, error: type[MaintenanceError], *, has_format: bool = True
) -> dict[str, Any]:
    """Parse the content of a JSON file; see ``read_json``."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise error(f"{what} in {path} is damaged or incomplete: {exc}") from exc
    if not isinstance(data, dict):
        raise error(f"{what} in {path} is not a JSON object")
    if has_format:
        try:
            check_format(data)
        except UnknownFormatError as exc:
            raise error(f"{what} in {path} cannot be read: {exc}") from exc
    return data


def read_named(path: StoragePath, what: str, most: int, error: type[MaintenanceError]) -> bytes | None:
    """Read a file that a user named, ``None`` only if there is none. Anything but a regular file is ``StorageError``.

    :param what: the kind of file for messages, e.g. ``"the policy"``.
    :param most: its largest size. No more than a byte beyond it is read.
    :param error: raised for a larger one.
    """
    content = FILES.read(path, 0, most + 1)
    if content is not None and len(content) > most:
        raise error(f"{what} is too large: {path} has more than {most:,} bytes")
    return content


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the content of an indented JSON file."""
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()


def write_json(folder: StoragePath, name: str, data: Mapping[str, Any]) -> StoragePath:
    """Write an indented JSON file, as ``Storage.replace`` does, and return its path."""
    FILES.replace(folder / name, json_bytes(data))
    return folder / name


def write_listing(
    folder: StoragePath, name: str, head: Mapping[str, Any], items: str, rows: Iterable[Mapping[str, Any]]
) -> StoragePath:
    """Write a JSON file that ends with a long list, one entry a line, as ``Storage.replace`` does.

    :param head: what comes before the list.
    :param items: the list's name.
    :param rows: its entries, which are encoded one by one: of a million only the bytes are ever there.
    """
    begin = json.dumps({**head, items: []}, allow_nan=False).removesuffix("]}")
    encode = json.JSONEncoder(allow_nan=False, check_circular=False).encode  # rows are made for this

    def parts() -> Iterator[bytes]:
        yield begin.encode()
        for number, row in enumerate(rows):
            yield f"{',' if number else ''}\n{encode(row)}".encode()
        yield b"\n]}\n"

    FILES.replace(folder / name, parts())
    return folder / name


def elsewhere(cluster: object, here: str) -> str:
    """Return the end of an error about a file that belongs elsewhere: what was done to it, and the remedy.

    :param cluster: the cluster that the file names.
    :param here: the cluster in whose folder it is.
    """
    if cluster == here or not is_cluster_name(cluster):
        return "it was copied or changed. Restore the file that belongs there"
    return f"it was copied or renamed. Move it back to the folder {cluster!r}, and pass cluster={cluster!r}"
