"""Commands that lead to a plan: take a snapshot, judge it, plan from it. Nothing in Kafka is changed."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli import options
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, SnapshotError
from airflow_kafka_groups.hooks.arguments import one_of, read_integer
from airflow_kafka_groups.hooks.floors import DEFAULTS, LIMITS
from airflow_kafka_groups.judge.evidence import COMMIT_LOG_MODES, REQUIRED, recorded_sentence

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.observe.snapshot.collect import SnapshotSummary

SNAPSHOT_COLUMNS = ("group_id", "reason")


def add_snapshot(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    options.add_pattern_arguments(parser)


def snapshot(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the snapshot and show the groups that could not be read. Those, or missing brokers, are exit code 3."""
    from airflow_kafka_groups.change.snapshot import SnapshotRequest, snapshot_groups

    cluster = options.Cluster(args)
    layout, who, protected = cluster.layout(), options.actor("snapshot"), cluster.settings.protected_groups
    by = f"{who['command']}, {who['user']} on {who['host']}"
    request = SnapshotRequest(groups=options.filter_of(args), protected=protected, taken_by=by)

    async def snapshot(admin: MaintenanceClient) -> SnapshotSummary:
        await options.say_if_fewer_are_listed(admin)
        with progress_bars() as progress:
            return await snapshot_groups(admin, layout, request, notice=say, progress=progress)

    summary = cluster.run(snapshot)
    out.write(Table("failed", SNAPSHOT_COLUMNS, sorted(summary.failed.items())), summary.to_json())
    if not summary.complete:
        say(f"warning: groups may be missing: {', '.join(summary.missing_brokers)}. It cannot be judged")
    if summary.failed_groups:
        say(f"warning: {summary.failed_groups} group(s) could not be read")
    return ExitCode.DONE if summary.complete and not summary.failed_groups else ExitCode.INCOMPLETE


JUDGE_COLUMNS = ("verdict", "groups", "lag")
_JUDGE_NUMBERS = (*LIMITS, "offsets_retention_minutes")

_NO_LOG = "demands verdicts that rest on the log of commits, which this command does not read: run the DAG "
_NO_LOG += "cleanup_stale_groups"


def add_judge(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID", help="the snapshot to judge (default: the newest one)")
    options.add_numbers(parser, _JUDGE_NUMBERS)


def judge(args: argparse.Namespace, out: Output) -> ExitCode:
    """Judge, and show the number of groups by verdict."""
    from airflow_kafka_groups.ledger.floors import NO_FLOORS
    from airflow_kafka_groups.spark.plain_jobs import run_plain_job

    cluster = options.Cluster(args)
    layout = cluster.layout()
    typed = options.numbers_of(args, _JUDGE_NUMBERS)
    args.include = args.exclude = args.policy_file = None  # a snapshot is judged as a whole, by what the site has
    of_site, file = options.take_defaults(args, _JUDGE_NUMBERS), options.policy_file_of(args, NO_FLOORS)
    policy = options.policy_of(args, cluster.settings, file)
    policy = policy if file is None else policy.by_file(file)
    fields = {"require_commit_log": cluster.floors().require_commit_log}
    fields |= {f"{DEFAULTS}.commit_log": of_site.get("commit_log") == REQUIRED}
    fields |= {f"require_commit_log of {DEFAULTS}.policy_file": policy.require_commit_log}
    if demanding := [field for field, demands in fields.items() if demands]:
        raise ConfigurationError(demanding[0], True, _NO_LOG)
    limits = options.numbers_of(args, _JUDGE_NUMBERS) | {name: getattr(policy, name) for name in LIMITS} | typed
    asked = {
        # The jobs take a local URL as Hadoop does, with a %20 as it is; Airflow opens it as what that stands for.
        "--base": str(layout.base) if isinstance(layout.base, Path) else cluster.storage_path,
        "--cluster": layout.cluster,
        **{f"--{name.replace('_', '-')}": f"{value:.15g}" for name, value in limits.items()},
        **({"--snapshot-id": args.snapshot_id} if args.snapshot_id else {}),
    }
    arguments = ["judge_staleness", *(word for option in asked.items() for word in option)]
    summary = run_plain_job(arguments, layout.base)
    verdicts, lags = summary["verdicts"], summary["lag_by_verdict"]
    rows = [(verdict, groups, lags[verdict]) for verdict, groups in verdicts.items() if groups]
    shown = ("snapshot_id", "groups", "snapshots_used", "snapshots_reduced", "oldest_observation", "seconds")
    out.write(Table("verdicts", JUDGE_COLUMNS, rows), {name: summary[name] for name in shown})
    # What is not given, a plan takes from where it came here; what a policy file's rules have, it refuses.
    refused = options.OF_RULES if file else ()
    same = {options.flag_of(name): f"{value:.15g}" for name, value in typed.items() if name not in refused}
    same |= {"--snapshot-id": args.snapshot_id} if args.snapshot_id else {}
    command = cluster.command("plan", *(word for option in same.items() for word in option))
    say(f"Nothing was deleted. Next: {command}")
    return ExitCode.DONE


PLANNED = ("group_id", "idle_seconds", "lag", "partitions", "reason")
KEPT = ("group_id", "why", "reason")
_COUNTED = ("found", "planned")  # a table leaves the other counts out that are 0
_PLAN_NUMBERS = (*LIMITS, "max_groups", "max_share", "max_plan_age_seconds")


def add_plan(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    options.add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID", help="the judged snapshot (default: the newest judged one)")
    options.add_numbers(parser, _PLAN_NUMBERS)
    for flag in ("--require-commit-log", "--allow-hidden-topics"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--policy-file", metavar="PATH")
    options.add_value(parser, "offsets_retention_minutes", read=partial(read_integer, minimum=1))
    parser.add_argument("--kept", action="store_true", help="show the groups that are kept, instead of those planned")


def plan(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write a plan and its report within the site's limits, and show the planned groups, longest idle first."""
    from airflow_kafka_groups.change.plan.make_plan import plan_snapshot

    cluster = options.Cluster(args)
    settings, layout, floors = cluster.settings, cluster.layout(), cluster.floors()
    given = options.numbers_of(args, options.OF_RULES)
    defaults = options.take_defaults(args, _PLAN_NUMBERS)
    read_mode = one_of(*COMMIT_LOG_MODES)
    commit_log = read_mode(f"{DEFAULTS}.commit_log", defaults.get("commit_log", COMMIT_LOG_MODES[0]))
    minutes = defaults.get("offsets_retention_minutes", 0)
    minutes = read_integer(f"{DEFAULTS}.offsets_retention_minutes", minutes)
    file = options.policy_file_of(args, floors)
    for name in given if file else ():  # whoever gives one expects it to count
        by_site = args.site_fields.get("policy_file")
        which = f"it out, for {by_site} names one" if by_site else "one of them out"
        remedy = f"is for plans without a policy file, whose rules have their own: leave {which}"
        raise ConfigurationError(options.flag_of(name), None, remedy)
    policy = options.policy_of(
        args, settings, file, require_commit_log=args.require_commit_log or commit_log == REQUIRED
    )
    judged = _require_verdicts(cluster, args.snapshot_id, policy if file is None else policy.by_file(file))
    plan, path = plan_snapshot(
        layout,
        policy,
        floors,
        snapshot_id=judged,
        lease_group_id=settings.lease_group_id,
        file=file,
        offsets_retention_minutes=args.offsets_retention_minutes or minutes or None,
    )
    report = options.write_report(layout, plan)
    counts = {name: n for name, n in plan.counts.items() if n or name in _COUNTED or out.format != "table"}
    summary = {**plan.summary(), "path": str(path), "report": report, "counts": counts}
    summary["evidence"] = recorded_sentence(plan.evidence)
    kept = [(group.group_id, group.verdict, group.reason) for group in plan.kept] if args.kept else ()
    out.write(Table("kept", KEPT, kept) if args.kept else Table.of("groups", PLANNED, plan.groups), summary)
    if plan.groups:
        next_command = cluster.command("backup", "--plan-id", plan.plan_id, "--digest", plan.digest)
        say(f"Nothing was deleted. Next: {next_command}")
        say(f"After that, a dry run: {cluster.command('apply', plan.plan_id)}")
    return ExitCode.DONE


def _require_verdicts(cluster: options.Cluster, asked: str | None, policy: PlanPolicy) -> str:
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
