"""Check a policy file without a cluster, a storage or Airflow, such as in a pull request. Nothing is changed."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.comparison import ChangedGroup
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile

COLUMNS = ("group_id", "before", "after")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("check", "schema"), help="check: a file; schema: print it for an editor")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the policy file to check")
    parser.add_argument("--against", metavar="MANIFEST", help="show the groups of a snapshot that it changes")
    parser.add_argument("--before", metavar="FILE", help="the policy before the edit (default: none, all are kept)")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
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
    out.write(Table("groups", COLUMNS, rows), summary)
    say(f"{args.file} is valid: {len(after.rules) - 1} rules, and its tests pass")
    return ExitCode.DONE


def _load(field: str, name: str) -> PolicyFile:
    from airflow_kafka_groups.judge.policy.policy_file import load_policy

    try:
        return load_policy(Path(name).absolute())
    except PolicyError as error:
        raise ConfigurationError(field, None, str(error)) from error


def _changes(before: PolicyFile | None, after: PolicyFile, manifest: str) -> list[ChangedGroup]:
    from airflow_kafka_groups.judge.policy.comparison import compare_policies
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
