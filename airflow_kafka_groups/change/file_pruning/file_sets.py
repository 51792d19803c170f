"""The sets of files of a cluster: a snapshot, a clean-up, a change of offsets, a listing or a backlog, with all of it.

Sets are found by the names of files and folders alone. What is in them is looked at for one set at a time, by whoever
is about to remove it: a folder may have the snapshots of a year. Other files in the same folders are not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.report.page import HEAD
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import ID, TableName, is_id, parse_time, time_of


class FileKind(StrEnum):
    """The kind of a file set."""

    SNAPSHOT = "snapshot"
    CLEANUP = "cleanup"
    CHANGE = "change"
    BACKLOG = "backlog"


_TABLES = [name for name in TableName if name is not TableName.ARCHIVES]
"""The tables with a partition for each snapshot. Archives have what was deleted, and stay."""

# For each kind: the folder, the pattern of its entries, and whether they are folders of Parquet files, in the order in
# which they are removed. The manifest of a snapshot comes first: without its rows, it would stop every job. What says
# that the rows of a plan and a backup are ours comes last: without it, nobody would remove the others.
_PLACES: Mapping[FileKind, tuple[tuple[str, re.Pattern[str], bool], ...]] = {
    FileKind.SNAPSHOT: (
        (paths.MANIFESTS, re.compile(rf"({ID})\.json"), False),
        (paths.MEMBERS, re.compile(rf"({ID})\.parquet"), False),
        (paths.SUBSCRIPTIONS, re.compile(rf"({ID})\.parquet"), False),
        *(
            place
            for table in _TABLES
            for place in (
                (paths.summaries(table), re.compile(rf"({ID})\.json"), False),
                (paths.table(table), re.compile(rf"snapshot_id=({ID})"), True),
            )
        ),
        (paths.DATA, re.compile(rf"({ID})"), True),
    ),
    FileKind.CLEANUP: (
        (paths.PLANS, re.compile(rf"({ID})\.parquet"), False),
        (paths.PRUNE_PLANS, re.compile(rf"({ID})\.parquet"), False),
        (paths.BACKUPS, re.compile(rf"({ID})(?:-[0-9a-f]{{8}})?\.parquet"), False),
        (paths.REPORTS, re.compile(rf"({ID})\.html"), False),
        (paths.BACKUPS, re.compile(rf"({ID})\.json"), False),
        (paths.PLANS, re.compile(rf"({ID})\.json"), False),
        (paths.PRUNE_PLANS, re.compile(rf"({ID})\.json"), False),
    ),
    FileKind.CHANGE: (
        (paths.CHANGES, re.compile(rf"({ID})-(?:before|result|plan)\.json"), False),
        # What a migration that was killed has left of its Spark job.
        (paths.CHANGES, re.compile(rf"({ID})-places\.parquet"), False),
        (paths.CHANGES, re.compile(rf"({ID})-translations"), True),
    ),
    # Not its folder: what the job made of the records is the user's.
    FileKind.BACKLOG: ((paths.BACKLOGS, re.compile(rf"({ID})(?:-result)?\.json"), False),),
}
# What a set's folder may have. A killed process may have left what it was about to create.
_IN_FOLDER = re.compile(
    r"part-[\w.-]+\.parquet|_SUCCESS|\.(?:part-[\w.-]+\.parquet|_SUCCESS)\.(?:[0-9a-f]{8}\.tmp|crc)"
)
_UNCOMMITTED = "_temporary"
_OF_TASKS = re.compile(rf"{_UNCOMMITTED}|\d+|(?:attempt|task)_\d+_\d+_[mr]_\d+(?:_\d+)?")
"""What Spark calls the folder of what its tasks have not committed yet, and those in it: a killed job leaves them."""
_TORN = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")
"""What a file of a disk is called until it is complete: a process that is killed leaves it, and nobody reads it."""
_CHECKSUM = re.compile(r"\.(.+)\.crc")
"""What Hadoop calls the checksum of a file of a disk that Spark wrote: nobody reads it without that file."""
_OBSERVED = paths.summaries(TableName.OBSERVATIONS)
# The field of a JSON file that must be the id in its name; "" for none.
_OWN_NAME = {
    paths.MANIFESTS: "snapshot_id",
    _OBSERVED: "snapshot_id",
    paths.PLANS: "plan_id",
    paths.PRUNE_PLANS: "plan_id",
    paths.BACKUPS: "plan_id",
    paths.BACKLOGS: "",
}
_BEGIN = 4_096
"""Bytes in which the record of a change says what it is: it may have hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file of a set, or a folder of such files: where it is, and the folder of its kind.

    :param is_torn: whether it is what a killed process was about to create, or only the checksum of a file.
    :param is_odd: whether there is a file where a folder belongs, or a folder where a file does.
    """

    path: StoragePath
    place: str
    is_folder: bool
    is_torn: bool = False
    is_odd: bool = False


@dataclass(slots=True)
class FileSet:
    """Files that belong together.

    :param found: its files and folders, by name. The others are known after ``look_into``:
    :param files: all its files.
    :param inner: the folders in its folders, the innermost first.
    :param foreign: why they must not be removed.
    :param named: the Kafka clusters that its manifest names; it may name none.
    :param expires_at: when its plan became unusable; ``None`` if it has none.
    """

    kind: FileKind
    id: str
    found: list[_Found] = field(default_factory=list)
    files: list[StoragePath] = field(default_factory=list)
    inner: list[StoragePath] = field(default_factory=list)
    foreign: str | None = None
    named: set[str | None] = field(default_factory=set)
    expires_at: datetime | None = None

    @property
    def made_at(self) -> datetime:
        """The time in the id."""
        return time_of(self.id)

    @property
    def ages_from(self) -> datetime:
        """The time in the id, or the end of its plan, if that is later: until then it may be needed."""
        return max(self.made_at, self.expires_at or self.made_at)

    @property
    def is_torn(self) -> bool:
        """Whether there is nothing of it but what a killed process was about to create, and checksums."""
        return all(found.is_torn for found in self.found)

    @property
    def is_whole(self) -> bool:
        """Whether it may be one of the newest: a snapshot without a manifest is none."""
        if self.kind is FileKind.SNAPSHOT:
            return any(found.place == paths.MANIFESTS and not found.is_torn for found in self.found)
        return not self.is_torn

    def look_into(self, cluster: str) -> None:
        """Find all its files, and read what they are.

        :param cluster: the folder of the cluster that they must be of.
        """
        for found in self.found:
            if found.is_odd:
                self.foreign = f"{found.path} is {'not ' if found.is_folder else ''}a folder"
                continue
            if found.is_folder:
                self._look_into_folder(found.path)
                continue
            self.files.append(found.path)
            if found.is_torn:
                continue
            if (why := _why_foreign(found.path, found.place, self, cluster)) is not None:
                self.foreign = why
        self.foreign = self.foreign or _why_unproven(self)

    def _look_into_folder(self, folder: StoragePath, folders: str = _UNCOMMITTED) -> None:
        local = FILES.local(folder)
        if local is not None and (local.is_symlink() or local.is_file()):
            self.foreign = f"{folder} is no folder, or a link: what is behind it may be somebody else's"
            return
        for name in FILES.names(folder):
            if re.fullmatch(folders, name):
                self._look_into_folder(folder / name, _OF_TASKS.pattern)
                self.inner.append(folder / name)
                continue
            if not _IN_FOLDER.fullmatch(name):
                self.foreign = f"{folder / name} is not a file of this package"
            self.files.append(folder / name)

    def remove(self) -> None:
        """Remove the files that ``look_into`` has found. What an error leaves, another run removes."""
        for path in self.files:
            FILES.remove(path)
        for folder in (*self.inner, *(found.path for found in self.found if found.is_folder)):
            FILES.remove_folder(folder)


def find_sets(layout: Layout, kind: FileKind) -> list[FileSet]:
    """Return the file sets of one kind, oldest first, including incomplete ones. Raises ``StorageError``."""
    sets: dict[str, FileSet] = {}
    # A folder that only seems to be absent would leave half of a set behind.
    listed = {name: FILES.list(layout.root / name) for name in dict.fromkeys(place[0] for place in _PLACES[kind])}
    for folder, pattern, is_folder in _PLACES[kind]:
        for name, kinds in listed[folder].items():
            torn = None if is_folder else _TORN.fullmatch(name) or _CHECKSUM.fullmatch(name)
            if (match := pattern.fullmatch(torn[1] if torn else name)) and is_id(match[1]):
                file_set = sets.setdefault(match[1], FileSet(kind, match[1]))
                is_odd = kinds != {is_folder}
                file_set.found.append(_Found(layout.root / folder / name, folder, is_folder, torn is not None, is_odd))
    return [sets[id_] for id_ in sorted(sets)]


def _why_foreign(path: StoragePath, folder: str, file_set: FileSet, cluster: str) -> str | None:
    """Return why a file is not what its name says, ``None`` if it is. Row files are vouched for by their JSON file."""
    if folder == paths.REPORTS:
        begins = (FILES.read(path) or b"").startswith(HEAD.encode())
        return None if begins else f"{path} is not a report of this package"
    if folder == paths.CHANGES and path.name.endswith(".json"):
        try:
            begin = FILES.read(path, 0, _BEGIN) or b""
        except StorageError as error:  # of an empty file, an object store has no beginning
            return str(error)
        says = {"run_id": file_set.id, "cluster": cluster}
        same = all(f'"{name}": {json.dumps(value)}'.encode() in begin for name, value in says.items())
        return None if same else f"{path} is not what its name says"
    if folder not in _OWN_NAME or not path.name.endswith(".json"):
        return None
    try:
        content = read_json(path, "it", MaintenanceError)
    except MaintenanceError as error:
        return str(error)
    id_ = file_set.id
    if folder == paths.MANIFESTS:
        file_set.named.add(named if isinstance(named := content.get("kafka_cluster_id") or None, str) else None)
    name = _OWN_NAME[folder]
    same = not name or (content.get(name), content.get("cluster")) == (id_, cluster)
    try:
        if folder in (paths.PLANS, paths.PRUNE_PLANS):
            file_set.expires_at = parse_time(content["expires_at"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return f"{path} is not what its name says"
    return None if same else f"{path} is not what its name says"


def _why_unproven(one: FileSet) -> str | None:
    """Return why rows may be somebody else's, ``None`` when a JSON file says that they are ours.

    A backup that was killed has no manifest: then its plan says so.
    """
    if one.kind is not FileKind.CLEANUP:
        return None
    whole = [found for found in one.found if not found.is_torn]
    vouching = {found.place for found in whole if found.path.name == f"{one.id}.json"}
    of_backup = {paths.BACKUPS, paths.PLANS, paths.PRUNE_PLANS}
    of_plans = [(folder, "header", {folder}) for folder in (paths.PLANS, paths.PRUNE_PLANS)]
    for folder, what, places in (*of_plans, (paths.BACKUPS, "manifest", of_backup)):
        rows = [found.path for found in whole if found.place == folder and found.path.name.endswith(".parquet")]
        if rows and not places & vouching:
            return f"{rows[0]} has no {what}: nothing says that this package wrote it"
    return None
