"""Where every file of a run lives, and how it is written so that a half written one can be told from a whole one.

Paths are ``pathlib.Path`` or Airflow's ``ObjectStoragePath``: the protocol below names the few methods used, so that
nothing here imports Airflow. The rule of every writer: data first, and the small JSON file that vouches for it last.
docs/formats.md is the contract.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError

FORMAT = 1
"""The version of every JSON file written; a reader refuses a newer one."""

Clock: TypeAlias = Callable[[], datetime]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of the stage, how many are done, and how many there are."""

_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class StoragePath(Protocol):
    """Be what is used of ``pathlib.Path`` and ``ObjectStoragePath``."""

    @property
    def name(self) -> str:
        """Give the last part."""

    def __truediv__(self, part: str, /) -> StoragePath: ...

    def exists(self) -> bool:
        """Say whether there is a file or folder."""

    def mkdir(self, mode: int = ..., parents: bool = ..., exist_ok: bool = ...) -> None:
        """Make the folder."""

    def iterdir(self) -> Iterator[StoragePath]:
        """Give what is in the folder."""

    def open(self, mode: str, /) -> IO[Any]:
        """Open the file."""

    def read_bytes(self) -> bytes:
        """Read the whole file."""

    def write_bytes(self, data: bytes, /) -> int:
        """Write the whole file."""

    def unlink(self) -> None:
        """Remove the file."""

    def rmdir(self) -> None:
        """Remove the folder, which has to be empty."""


def utc_now() -> datetime:
    """Give the time, with its zone."""
    return datetime.now(UTC)


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Do nothing: the default of every ``progress`` argument."""


def new_id(now: datetime) -> str:
    """Make an id that sorts by time and suits Hadoop paths and object stores: ``YYYYMMDDTHHMMSSZ-<8 hex>``."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def check_id(field: str, value: object) -> str:
    """Give the id back, or refuse one that ``new_id()`` cannot have made (so no path can leave its folder)."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ConfigurationError(
            field, value, "an id looks like 20260131T235959Z-0a1b2c3d: copy it from the file's name"
        )
    return value


def check_cluster(name: object) -> str:
    """Give the cluster's folder name back, or refuse one that storage or Spark cannot take."""
    if not isinstance(name, str) or not _CLUSTER.fullmatch(name):
        remedy = "use 1 to 100 letters, digits, '.', '_' or '-', and start with a letter or digit"
        raise ConfigurationError("cluster", name, remedy)
    return name


def cluster_folder(text: str) -> str:
    """Make a valid folder name out of any text, such as a connection id."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:100]
    return check_cluster(name if name[:1].isalnum() else re.sub(r"^[._-]+", "", name))


@dataclass(frozen=True, slots=True)
class Layout:
    """Know the path of every file of one cluster.

    :param base: the folder above all clusters.
    :param cluster: the cluster's folder; see ``check_cluster``.
    """

    base: StoragePath
    cluster: str

    def __post_init__(self) -> None:
        check_cluster(self.cluster)

    @property
    def root(self) -> StoragePath:
        """Give the cluster's folder."""
        return self.base / self.cluster

    @property
    def manifests(self) -> StoragePath:
        """Give the folder of all snapshots' manifests."""
        return self.root / "manifests"

    def snapshot_data(self, snapshot_id: str) -> StoragePath:
        """Give the folder of a snapshot's rows."""
        return self.root / "data" / check_id("snapshot_id", snapshot_id)

    def manifest(self, snapshot_id: str) -> StoragePath:
        """Give the file that says a snapshot is whole."""
        return self.manifests / f"{check_id('snapshot_id', snapshot_id)}.json"

    def verdicts(self, snapshot_id: str) -> StoragePath:
        """Give the folder of what the Spark job decided about a snapshot."""
        return self.root / "verdicts" / check_id("snapshot_id", snapshot_id)

    def verdict_summary(self, snapshot_id: str) -> StoragePath:
        """Give the Spark job's summary."""
        return self.root / "verdicts" / f"{check_id('snapshot_id', snapshot_id)}.json"

    def plan(self, plan_id: str) -> StoragePath:
        """Give the file of a plan."""
        return self.root / "plans" / f"{check_id('plan_id', plan_id)}.json"

    def backup_data(self, plan_id: str) -> StoragePath:
        """Give the file of a backup's rows."""
        return self.root / "backups" / f"{check_id('plan_id', plan_id)}.parquet"

    def backup_manifest(self, plan_id: str) -> StoragePath:
        """Give the file that says a backup is whole."""
        return self.root / "backups" / f"{check_id('plan_id', plan_id)}.json"

    def audit(self, plan_id: str, run_id: str) -> StoragePath:
        """Give the file of what one run did."""
        return self.root / "audit" / f"{check_id('plan_id', plan_id)}-{check_id('run_id', run_id)}.json"

    def report(self, plan_id: str) -> StoragePath:
        """Give the file of the report for people."""
        return self.root / "reports" / f"{check_id('plan_id', plan_id)}.html"


def canonical_json(data: Mapping[str, Any]) -> bytes:
    """Write the same data always as the same bytes, so that a digest of it means something."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def write_file(folder: StoragePath, name: str, data: bytes) -> StoragePath:
    """Write a file whole or not at all, as far as the storage can, and read it back.

    Raises ``MaintenanceError`` when the storage gives back other bytes than were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if isinstance(path, Path):
        # A crash must not leave half a file under the name that vouches for others. Object stores do this themselves.
        part = path.with_name(f".{name}.{secrets.token_hex(4)}.tmp")
        part.write_bytes(data)
        part.replace(path)
    else:
        path.write_bytes(data)
    if path.read_bytes() != data:
        raise MaintenanceError(f"{path} does not hold what was written to it: check the storage, then run again")
    return path


def write_json(folder: StoragePath, name: str, data: Mapping[str, Any]) -> StoragePath:
    """Write a JSON file for people and programs; as safe as ``write_file``."""
    return write_file(folder, name, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: StoragePath, what: str, error: type[MaintenanceError], *, formatted: bool = True) -> dict[str, Any]:
    """Read a JSON object.

    :param what: what the file is, for messages: ``"the plan"``.
    :param error: raised when the file is missing, incomplete, of a newer format or no JSON object.
    :param formatted: whether it has to say its format.
    """
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise error(f"{what} is missing: there is no {path}") from None
    except OSError as exc:
        raise error(f"{what} cannot be read from {path}: {exc}") from exc
    except ValueError as exc:
        raise error(f"{what} in {path} is damaged or incomplete: {exc}") from exc
    if not isinstance(data, dict):
        raise error(f"{what} in {path} is not a JSON object")
    if formatted and data.get("format") != FORMAT:
        raise error(f"{what} in {path} has the format {data.get('format')!r}; this version reads {FORMAT}")
    return data


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time that has a zone; raises ``ValueError`` for any other."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    return value
