"""Where every file lies below a cluster's folder, with ``/`` between the parts. docs/formats.md lists them."""

from __future__ import annotations

DATA = "data"
MANIFESTS = "manifests"
MEMBERS = "members"
VERDICTS = "verdicts"
OBSERVATIONS = "observations"
OBSERVATION_MANIFESTS = "observation_manifests"
PLANS = "plans"
BACKUPS = "backups"
APPROVALS = "approvals"
AUDIT = "audit"
REPORTS = "reports"
CHANGES = "changes"
BACKLOGS = "backlogs"
BACKLOG_RECORDS = "_backlog_records"
"""Beside the file of a backlog, or its output; hidden from readers of tables by its first letter."""

ARCHIVES = "archives"
LAG = "lag"
LISTINGS = "listings"
TREND = "trend.json"
TREND_PAGE = "trend.html"
"""In the folder of reports: the runs of the cluster in numbers, and the page that shows them."""

STOP = "STOP"
"""A file in the cluster's folder: as long as it exists, nothing is deleted."""

SNAPSHOT_FILE = "part-00000.parquet"
"""The name of a snapshot's only file; a manifest may name several."""


def snapshot_data(snapshot_id: str) -> str:
    """Return the folder of a snapshot's rows."""
    return f"{DATA}/{snapshot_id}"


def manifest(snapshot_id: str) -> str:
    """Return a snapshot's manifest, written last."""
    return f"{MANIFESTS}/{snapshot_id}.json"


def observations(snapshot_id: str) -> str:
    """Return the folder of a snapshot's observations, a partition of the table ``observations``."""
    return f"{OBSERVATIONS}/snapshot_id={snapshot_id}"


def observation_manifest(snapshot_id: str) -> str:
    """Return the manifest of these observations, written last."""
    return f"{OBSERVATION_MANIFESTS}/{snapshot_id}.json"


def members(snapshot_id: str) -> str:
    """Return the members that a snapshot's groups were last seen with; the manifest has its digest."""
    return f"{MEMBERS}/{snapshot_id}.parquet"


def verdicts(snapshot_id: str) -> str:
    """Return the folder of the verdicts on a snapshot's groups."""
    return f"{VERDICTS}/{snapshot_id}"


def verdict_summary(snapshot_id: str) -> str:
    """Return the summary of those verdicts, written last."""
    return f"{VERDICTS}/{snapshot_id}.json"


def plan(plan_id: str) -> str:
    """Return the header of a plan, written last."""
    return f"{PLANS}/{plan_id}.json"


def plan_body(plan_id: str) -> str:
    """Return the groups of a plan."""
    return f"{PLANS}/{plan_id}.parquet"


def backup_data(plan_id: str, attempt: str) -> str:
    """Return the rows of a plan's backup, as one try writes them; the manifest names the file that counts."""
    return f"{BACKUPS}/{plan_id}-{attempt}.parquet"


def approvals(plan_id: str) -> str:
    """Return the folder of a plan's questions and answers."""
    return f"{APPROVALS}/{plan_id}"


def backup_manifest(plan_id: str) -> str:
    """Return the manifest of a plan's backup, written last."""
    return f"{BACKUPS}/{plan_id}.json"


def report(plan_id: str) -> str:
    """Return a plan's report."""
    return f"{REPORTS}/{plan_id}.html"


def is_data_file(name: str) -> bool:
    """Return whether a file in a folder that Spark wrote holds rows: the others are hidden, markers or checksums."""
    return name.endswith(".parquet") and name[0] not in "._"
