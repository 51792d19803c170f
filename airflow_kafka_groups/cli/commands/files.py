"""Commands about files: backups, metrics, a policy and DAGs. Nothing in Kafka is changed."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli import options
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.example_dags import copy_dag, dag_files
from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.hooks.arguments import read_integer, request_of
from airflow_kafka_groups.kafka.models import GroupType

if TYPE_CHECKING:
    from airflow_kafka_groups.change.backup.file import Backup
    from airflow_kafka_groups.judge.policy.policy_file import ChangedGroup, PolicyFile
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

BACKUP_COLUMNS = ("group_id", "result", "reason")


def add_backup(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    parser.add_argument("group_ids", nargs="*", metavar="GROUP", read=options.read_distinct)
    options.add_pattern_arguments(parser)
    parser.add_argument("--plan-id", metavar="PLAN")
    parser.add_argument("--digest", dest="plan_digest", metavar="SHA256")


def backup(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the backup and verify it by reading it back. A group that is not backed up makes the exit code 3."""
    from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up

    request = request_of(BackupRequest, args, groups=options.filter_of(args))
    cluster = options.Cluster(args)
    layout, protected = cluster.layout(), cluster.settings.protected_groups
    cluster.floors()

    async def write(admin: MaintenanceClient) -> Backup:
        if request.plan_id is None and request.group_ids is None:
            await options.say_if_fewer_are_listed(admin)
        return await back_up(admin, layout, request, protected=protected, progress=progress)

    with progress_bars() as progress:
        backup = cluster.run(write)
    rows = [(group_id, "backed_up", "") for group_id in backup.entries]
    rows += [(group_id, "left_out", reason) for group_id, reason in backup.not_backed_up.items()]
    out.write(Table("groups", BACKUP_COLUMNS, sorted(rows)), backup.to_json())
    if backup.failures:
        say(f"warning: {len(backup.failures)} group(s) were not backed up")
    return ExitCode.INCOMPLETE if backup.failures else ExitCode.DONE


EXPORT_BACKUP_COLUMNS = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")


def add_export_backup(parser: ArgumentTarget) -> None:
    parser.add_argument("backup_id", metavar="BACKUP", help="the backup's id, or that of its plan")
    only = "only these groups. Default: all in the backup"
    parser.add_argument("group_ids", nargs="*", metavar="GROUP", read=options.read_distinct, help=only)
    parser.add_argument("--storage-path", metavar="PATH", required=True, help="folder above all clusters, or its URL")
    parser.add_argument("--cluster", metavar="NAME", required=True, help="the cluster's folder")


def export_backup(args: argparse.Namespace, out: Output) -> ExitCode:
    """Verify the backup, and write its offsets; the CSV of one named group has no column of groups."""
    from airflow_kafka_groups.change.backup.file import open_backup
    from airflow_kafka_groups.change.restore.offsets_csv import csv_rows
    from airflow_kafka_groups.hooks.storage import open_layout

    wanted = args.group_ids
    _, groups = open_backup(open_layout(args.storage_path, args.cluster, args.cluster), args.backup_id)
    saved = list(groups)
    rows = [
        (group.entry.group_id, *where, value.offset, value.leader_epoch, value.metadata)
        for group in saved
        if wanted is None or group.entry.group_id in wanted
        for where, value in group.offsets.items()
        if value is not None
    ]
    if missing := set(wanted or ()).difference(row[0] for row in rows):
        raise ConfigurationError("GROUP", min(missing), f"is not in the backup {args.backup_id}")
    with_group = wanted is None or len(wanted) != 1
    # The tool that reads the CSV would make consumer groups of share groups.
    shared = {group.entry.group_id for group in saved if group.entry.group_type == GroupType.SHARE}
    commits = ((row[0], row[1], row[2], row[3]) for row in rows if row[0] not in shared)
    csv = list(csv_rows(commits, with_group=with_group))
    out.write(Table("offsets", EXPORT_BACKUP_COLUMNS, rows, csv))
    return ExitCode.DONE


METRICS_COLUMNS = ("group_or_family", "groups", "lag", "since_movement_seconds", "expiry_days")


def add_metrics(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    options.add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID")
    parser.add_argument("--max-groups", metavar="N", default=500)
    parser.add_argument("--openmetrics-path", metavar="FILE", read=options.read_place_here)


def metrics(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the file, if one is named, and show what is in it. A group that is left out makes the exit code 3."""
    from airflow_kafka_groups.hooks.storage import open_path
    from airflow_kafka_groups.report.metrics import MAX_SERIES_GROUPS, metrics_of_snapshot, write_openmetrics

    most = read_integer("--max-groups", args.max_groups, minimum=1, maximum=MAX_SERIES_GROUPS)
    selected = options.filter_of(args)
    cluster = options.Cluster(args)
    _ = cluster.settings  # an option that is wrong is an error, although no broker is asked
    layout = cluster.layout()
    snapshot_id, metrics = metrics_of_snapshot(layout, args.snapshot_id, selected, most)
    place = args.openmetrics_path
    if place is not None:
        path = open_path("--openmetrics-path", place)
        place = str(write_openmetrics(path, layout.cluster, metrics))
    rows = [(name, 1, *numbers) for name, numbers in metrics.groups.items()]
    rows += [(name, count, *numbers) for name, (count, numbers) in metrics.families.items()]
    summary = {"snapshot_id": snapshot_id, "omitted": metrics.omitted, "openmetrics_path": place}
    out.write(Table("metrics", METRICS_COLUMNS, rows), summary)
    return ExitCode.INCOMPLETE if metrics.omitted else ExitCode.DONE


POLICY_COLUMNS = ("group_id", "before", "after")


def add_policy(parser: ArgumentTarget) -> None:
    parser.add_argument("action", choices=("check", "schema"), help="check: a file; schema: print it for an editor")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the policy file to check")
    parser.add_argument("--against", metavar="MANIFEST", help="show the groups of a snapshot that it changes")
    parser.add_argument("--before", metavar="FILE", help="the policy before the edit (default: none, all are kept)")


def policy(args: argparse.Namespace, out: Output) -> ExitCode:
    """Check the file by its schema, its lint and its own tests, and compare it with the one before."""
    from airflow_kafka_groups.judge.policy.policy_file import policy_schema

    if args.action == "schema":
        out.write_text(json.dumps(policy_schema(), indent=2) + "\n")
        return ExitCode.DONE
    if args.file is None:
        raise ConfigurationError("FILE", None, "name the policy file to check")
    if args.before is not None and args.against is None:
        raise ConfigurationError("--before", args.before, "needs --against: name the manifest of a snapshot, too")
    after = _load("FILE", args.file)
    before = None if args.before is None else _load("--before", args.before)
    rows = [] if args.against is None else _changes(before, after, args.against)
    summary = {
        "policy_file": after.path,
        "digest": after.digest,
        "rules": len(after.rules) - 1,
        "warnings": list(after.warnings),
        "changed": len(rows),
        "changes": dict(Counter(f"{old} -> {new}" for _, old, new in rows).most_common(20)),
    }
    out.write(Table("groups", POLICY_COLUMNS, rows), summary)
    say(f"{args.file} is valid: {len(after.rules) - 1} rules, and its tests pass")
    return ExitCode.DONE


def _load(field: str, name: str) -> PolicyFile:
    from airflow_kafka_groups.judge.policy.policy_file import load_policy

    try:
        return load_policy(Path(name).absolute())
    except PolicyError as error:
        raise ConfigurationError(field, None, str(error)) from error


def _changes(before: PolicyFile | None, after: PolicyFile, manifest: str) -> list[ChangedGroup]:
    from airflow_kafka_groups.judge.policy.policy_file import compare_policies
    from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
    from airflow_kafka_groups.storage.layout import Layout
    from airflow_kafka_groups.storage.paths import MANIFESTS, is_id

    path = Path(manifest).absolute()
    cluster = path.parent.parent
    if not (path.is_file() and is_id(path.stem) and path.parent.name == MANIFESTS):
        remedy = "is no manifest of a snapshot: name <storage>/<cluster>/manifests/<snapshot id>.json"
        raise ConfigurationError("--against", manifest, remedy)
    snapshot = SnapshotReader(Layout(cluster.parent, cluster.name), path.stem, may_be_copied=True)
    topics = snapshot.topics() if snapshot.manifest.sees_all_topics else None
    groups = [(group.group_id, group.group_type) for group in snapshot.summaries()]
    return compare_policies(before, after, groups, topics)


def add_copy_dags(parser: ArgumentTarget) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder to copy to; it is created if it does not exist")
    parser.add_argument("--only", action="append", metavar="NAME", help="copy this DAG only, e.g. lag_alert (repeat)")
    parser.add_argument("--force", action="store_true", help="overwrite files that differ")


def copy_dags(args: argparse.Namespace, out: Output) -> ExitCode:
    """Copy the files, and print what became of each.

    A file that exists and differs is left alone, unless ``--force`` is given; the exit code is then 3.
    """
    folder = Path(args.folder)
    files = {path.stem: path for path in dag_files()}
    chosen = args.only or list(files)
    if unknown := [name for name in chosen if name not in files]:
        raise ConfigurationError("--only", unknown[0], f"is no DAG of this package; they are {', '.join(files)}")
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError("DIR", args.folder, "is not a folder")
    rows = [(name, copy_dag(files[name], folder, args.force), str(folder / files[name].name)) for name in chosen]
    out.write(Table("files", ("dag", "result", "file"), rows))
    if any(result == "kept" for _, result, _ in rows):
        say("Some files exist and differ: they were kept. --force overwrites them.")
        return ExitCode.INCOMPLETE
    return ExitCode.DONE
