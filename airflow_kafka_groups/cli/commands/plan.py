"""Plan a clean-up from the verdicts in the storage. Nothing is deleted."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.options import flag_of
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import (
    MAX_GAP_SECONDS,
    OF_RULES,
    Numbers,
    add_numbers,
    add_pattern_arguments,
    policy_file_of,
    policy_of,
    take_defaults,
)
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, SnapshotError
from airflow_kafka_groups.hooks.arguments import one_of, read_duration, read_integer, read_number

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy

PLANNED = ("group_id", "idle_seconds", "lag", "partitions", "reason")
KEPT = ("group_id", "why", "reason")
_COUNTED = ("found", "planned")  # a table leaves the other counts out that are 0
_NUMBERS: Numbers = {
    "min_idle_seconds": read_duration,
    "min_observations": partial(read_integer, minimum=2),
    "max_groups": partial(read_integer, minimum=1),
    "max_share": partial(read_number, maximum=1),
    "max_plan_age_seconds": read_duration,
    "max_gap_seconds": read_duration,
}


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID", help="the judged snapshot (default: the newest judged one)")
    add_numbers(parser, _NUMBERS)
    for flag in ("--require-commit-log", "--allow-hidden-topics"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--policy-file", metavar="PATH")
    parser.add_argument("--offsets-retention-minutes", metavar="N")
    parser.add_argument("--kept", action="store_true", help="show the groups that are kept, instead of those planned")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write a plan and its report within the site's limits, and show the planned groups, longest idle first."""
    from airflow_kafka_groups.change.plan.make_plan import plan_snapshot
    from airflow_kafka_groups.hooks.floors import default_notify
    from airflow_kafka_groups.judge.evidence import REQUIRED, recorded_sentence
    from airflow_kafka_groups.report.html import make_report

    cluster = Cluster(args)
    settings, layout, floors = cluster.settings, cluster.layout(), cluster.floors()
    given = {name: value for name in OF_RULES if (value := getattr(args, name)) is not None}
    commit_log, retention = _of_site(take_defaults(args, _NUMBERS, {}))
    file = policy_file_of(args, floors)
    for name, value in given.items() if file else ():  # whoever gives one expects it to count
        by_site = args.site_fields.get("policy_file")
        which = f"it out, for {by_site} names one" if by_site else "one of them out"
        remedy = f"is for plans without a policy file, whose rules have their own: leave {which}"
        raise ConfigurationError(flag_of(name), value, remedy)
    policy = policy_of(
        args,
        settings,
        _NUMBERS,
        allow_hidden_topics=args.allow_hidden_topics,
        require_commit_log=args.require_commit_log or commit_log == REQUIRED,
        notify=default_notify(),
        max_gap_seconds=0 if file and "max_gap_seconds" in file.limits else MAX_GAP_SECONDS,
    )
    judged = _require_verdicts(cluster, args.snapshot_id, policy if file is None else policy.by_file(file))
    if args.offsets_retention_minutes is not None:
        retention = read_integer("--offsets-retention-minutes", args.offsets_retention_minutes, minimum=1)
    plan, path = plan_snapshot(
        layout,
        policy,
        floors,
        snapshot_id=judged,
        lease_group_id=settings.lease_group_id,
        file=file,
        offsets_retention_minutes=retention,
        trial=True,
    )
    report = None
    try:
        report, _ = make_report(layout, plan)
    except (KafkaGroupsError, OSError) as error:  # the plan is there, and has to be known
        say(f"warning: the report could not be written: {error}")
    rows: list[tuple[Any, ...]]
    if args.kept:
        rows = [(group.group_id, group.verdict, group.reason) for group in plan.kept]
    else:
        rows = [(g.group_id, g.idle_seconds, g.lag, g.partitions, g.reason) for g in plan.groups]
    summary = {
        "plan_id": plan.plan_id,
        "digest": plan.digest,
        "path": str(path),
        "report": report,
        "snapshot_id": plan.snapshot_id,
        "expires_at": plan.expires_at.isoformat(),
        "evidence": recorded_sentence(plan.evidence),
        "counts": {name: n for name, n in plan.counts.items() if n or name in _COUNTED or out.format != "table"},
        "warnings": list(plan.warnings),
    }
    out.write(Table("kept", KEPT, rows) if args.kept else Table("groups", PLANNED, rows), summary)
    if plan.groups:
        next_command = cluster.command("backup", "--plan-id", plan.plan_id, "--digest", plan.digest)
        say(f"Nothing was deleted. Next: {next_command}")
        say(f"After that, a dry run: {cluster.command('apply', plan.plan_id)}")
    return ExitCode.DONE


def _of_site(defaults: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return how the site's DAGs read the log of commits, and the brokers' retention in minutes, ``None`` for none."""
    from airflow_kafka_groups.hooks.floors import DEFAULTS
    from airflow_kafka_groups.judge.evidence import COMMIT_LOG_MODES

    mode = one_of(*COMMIT_LOG_MODES)(f"{DEFAULTS}.commit_log", defaults.get("commit_log", COMMIT_LOG_MODES[0]))
    minutes = defaults.get("offsets_retention_minutes", 0)
    return mode, read_integer(f"{DEFAULTS}.offsets_retention_minutes", minutes) or None


def _require_verdicts(cluster: Cluster, asked: str | None, policy: PlanPolicy) -> str:
    """Return the snapshot to plan from: the given one, or the newest complete one that is judged.

    Raises ``SnapshotError`` that says how a snapshot is judged, if it is not.
    """
    from airflow_kafka_groups.ledger.verdicts import is_judged, newest_judged
    from airflow_kafka_groups.observe.snapshot.reader import latest_manifest, load_manifest

    layout = cluster.layout()
    snapshot_id = asked or latest_manifest(layout, to_judge=True).snapshot_id
    if asked is None and (judged := newest_judged(layout)) not in (None, snapshot_id):
        say(f"Snapshot {snapshot_id} is not judged: planning from {judged}, the newest that is.")
        return str(judged)
    if not is_judged(layout, snapshot_id):
        load_manifest(layout, snapshot_id)  # one that does not exist cannot be judged either
        limits = {"--min-idle": policy.min_idle_seconds, "--max-gap": policy.max_gap_seconds}
        # With fewer digits, a million is 1e+06.
        of_policy = [word for name, value in limits.items() for word in (name, f"{value:.15g}s")]
        of_policy += ["--min-observations", str(policy.min_observations)]
        command = cluster.command("judge", "--snapshot-id", snapshot_id, *of_policy)
        raise SnapshotError(f"snapshot {snapshot_id} is not judged. Run the DAG cleanup_stale_groups, or: {command}")
    return snapshot_id
