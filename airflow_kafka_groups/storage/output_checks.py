"""Checks of the place that a job writes to, before it writes anything."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import islice

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.storage.storage import Storage

_WRITTEN_BY_SPARK = re.compile(r"part-\d+-.+")
"""The names of Spark's own data files. Those of snapshots and observations have another form."""

_MADE_BY_SPARK = ("_temporary", ".spark-staging-", "__magic")
"""How the names of folders begin in which Spark writes, on S3 by Hadoop's committer. Others, such as ``_delta_log``,
are of other table formats."""


def require_replaceable(storage: Storage, folder: str, columns: Collection[str], partitioned_by: str = "") -> None:
    """Verify that a folder named by ``--output`` has only what an earlier run wrote: the job replaces all of it.

    :param columns: the names of what the job writes there.
    :param partitioned_by: the column that the folders in it are named after. Default: there are no folders.

    Raises ``ArgumentError`` naming a file or folder that would be deleted, such as the snapshots of a cluster, or a
    table of somebody else's that Spark wrote.
    """
    own = folder.rpartition("/")[2]  # of a file, its name is listed
    made = [name for name in storage.files_at(folder) if name[0] not in "._" or name == own]
    folders = [name for name in storage.folders(folder) if not name.startswith(_MADE_BY_SPARK)]
    parts = [name for name in folders if partitioned_by and name.startswith(f"{partitioned_by}=")]
    others = [name for name in made if not _WRITTEN_BY_SPARK.match(name)]
    others += [name for name in folders if name not in parts]
    if not others:
        for name in parts:  # a footer of each: somebody else's table may have these partitions, or others below
            inner = (*storage.folders(f"{folder}/{name}"), *storage.files(f"{folder}/{name}"))
            made += islice((f"{name}/{each}" for each in inner if each[0] not in "._"), 1)
        others = [name for name in made if not storage.has_only(f"{folder}/{name}", columns)]
    if others:
        remedy = f"has {others[0]}, which this job did not write and would delete: give a folder that is new or empty"
        raise ArgumentError("--output", folder, remedy)


def require_own_summary(storage: Storage, path: str, job: str, option: str, value: str) -> None:
    """Verify that the file of a job's summary is a summary of this job, or is not there: the job deletes it.

    ``--output backups/ID`` would otherwise cost the backup its manifest, ``ID.json``.

    :param job: its name, with which its summaries begin. A killed job may have left a part of one.
    :param option: the option that names the file, and its value, for the message.

    Raises ``ArgumentError`` naming the file.
    """
    begins = json.dumps({"job": job}, indent=1).removesuffix("\n}")
    found = (storage.read_if_there(path) or "")[: len(begins)]
    if not begins.startswith(found):
        remedy = f"{path} is there, which this job did not write and would delete: give another name, or move the file"
        raise ArgumentError(option, value, remedy)
