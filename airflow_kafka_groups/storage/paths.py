"""Where files lie below a cluster's folder, with ``/`` between the parts. docs/formats.md lists them.

Functions are for the paths that Spark uses, too; ``maintenance.storage.Layout`` has all others.
"""

from __future__ import annotations

from enum import StrEnum

DATA = "data"
MANIFESTS = "manifests"
MEMBERS = "members"
SUBSCRIPTIONS = "subscriptions"
TABLES = "tables"
"""The tables that Spark writes: a folder for each, and in it a folder for each partition, such as ``snapshot_id=…``."""

SUMMARIES = "summaries"
"""What vouches for each partition, outside of the tables: a folder for each table."""

PLANS = "plans"
PRUNE_PLANS = "prune_plans"
BACKUPS = "backups"
APPROVALS = "approvals"
REPORTS = "reports"
CHANGES = "changes"
BACKLOGS = "backlogs"
BACKLOG_RECORDS = "_backlog_records"
"""Beside the file of a backlog, or its output; hidden from readers of tables by its first letter."""

LISTINGS = "listings"
TREND = "trend.json"
TREND_PAGE = "trend.html"
"""In the folder of reports: the runs of the cluster in numbers, and the page that shows them."""

STOP = "STOP"
"""A file in the cluster's folder, or in the storage's: as long as it exists, nothing is deleted."""

SNAPSHOT_FILE = "part-00000.parquet"
"""The name of a snapshot's only file; a manifest may name several."""


class TableName(StrEnum):
    """The tables in ``TABLES``."""

    OBSERVATIONS = "observations"
    VERDICTS = "verdicts"
    LAG_PARTITIONS = "lag_partitions"
    LAG_GROUPS = "lag_groups"
    LAG_TOPICS = "lag_topics"
    LAG_OWNERS = "lag_owners"
    ARCHIVES = "archives"


def snapshot_data(snapshot_id: str) -> str:
    """Return the folder of a snapshot's rows."""
    return f"{DATA}/{snapshot_id}"


def manifest(snapshot_id: str) -> str:
    """Return a snapshot's manifest, written last."""
    return f"{MANIFESTS}/{snapshot_id}.json"


def table(name: str) -> str:
    """Return the folder of a table; ``TableName`` has their names."""
    return f"{TABLES}/{name}"


def partition(name: str, snapshot_id: str) -> str:
    """Return the folder of a snapshot's rows in a table."""
    return f"{table(name)}/snapshot_id={snapshot_id}"


def summaries(name: str) -> str:
    """Return the folder of the summaries of a table's partitions."""
    return f"{SUMMARIES}/{name}"


def summary(name: str, partition_id: str) -> str:
    """Return what vouches for a partition of a table, written last."""
    return f"{summaries(name)}/{partition_id}.json"


def plan(plan_id: str) -> str:
    """Return the header of a plan, written last."""
    return f"{PLANS}/{plan_id}.json"


def plan_body(plan_id: str) -> str:
    """Return the groups of a plan."""
    return f"{PLANS}/{plan_id}.parquet"


def is_data_file(name: str) -> bool:
    """Return whether a file in a folder that Spark wrote holds rows: the others are hidden, markers or checksums."""
    return name.endswith(".parquet") and name[0] not in "._"
