"""Where files lie below a cluster's folder, and the ids in their names. docs/formats.md lists them."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

ID = r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}"
"""The pattern of every id: ids sort by time and suit Hadoop paths and object stores."""

ID_EXAMPLE = "20260131T235959Z-0a1b2c3d"
CLUSTER_NAME_RULE = "use 1 to 100 letters, digits, '.', '_' or '-', start with a letter or digit, and not 'STOP'"

CLOCK_SLACK = timedelta(minutes=5)
"""By how much the clocks of two workers may differ."""

_YEARS = range(1000, 9000)
_TIME = "%Y%m%dT%H%M%SZ"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CLUSTER = re.compile(r"(?!STOP\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # there the file for all clusters would be


def new_id(now: datetime) -> str:
    """Make an id of this time, ``YYYYMMDDTHHMMSSZ-<8 hex>``."""
    return f"{time_prefix(now)}-{secrets.token_hex(4)}"


def time_prefix(when: datetime) -> str:
    """Return what the ids made at this time begin with."""
    return when.astimezone(UTC).strftime(_TIME)


@lru_cache(maxsize=1 << 16)  # a decision lists the same thousands of snapshots several times
def time_of(id_: str) -> datetime:
    """Return the time in an id."""
    return datetime.strptime(id_[:16], _TIME).replace(tzinfo=UTC)


def is_id(value: object) -> bool:
    """Return whether ``new_id`` can have made this value: no path made with it leaves its folder."""
    if not isinstance(value, str) or not re.fullmatch(ID, value):
        return False
    try:
        time_of(value)
    except ValueError:  # no such day or hour
        return False
    return True


def is_cluster_name(value: object) -> bool:
    """Return whether storage and Spark can take this as the name of a cluster's folder."""
    return isinstance(value, str) and _CLUSTER.fullmatch(value) is not None


def topic_remedy(topic: str) -> str | None:
    """Return what to write where no topic can have this name, such as ``orders:0,1``; ``None`` if one can."""
    if _TOPIC.fullmatch(topic):
        return None
    return f"is no name of a topic: write {topic.partition(':')[0]!r}, which stands for all its partitions"


def cluster_name_from(text: str) -> str:
    """Replace what a folder's name cannot have in any text, such as a connection id. The result may be no name yet."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:100]
    return name if name[:1].isalnum() else re.sub(r"^[._-]+", "", name)


def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time that has a zone. Raises ``ValueError`` for any other text, and for a time of no use."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    if value.year not in _YEARS:  # an error here, and not wherever something is added to it
        raise ValueError(f"the time {text!r} is not of our age")
    return value


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

SNAPSHOT_FILE = "part-{:05d}.parquet"
"""The names of a snapshot's files, by their number from 0."""


class TableName(StrEnum):
    """The tables in ``TABLES``."""

    OBSERVATIONS = "observations"
    VERDICTS = "verdicts"
    LAG_PARTITIONS = "lag_partitions"
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


def is_data_file(name: str) -> bool:
    """Return whether a file in a folder that Spark wrote holds rows: the others are hidden, markers or checksums."""
    return name.endswith(".parquet") and name[0] not in "._"
