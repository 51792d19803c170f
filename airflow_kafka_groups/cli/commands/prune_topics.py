"""Delete the offsets of topics that live groups have stopped reading. A dry run without ``--yes``."""

from __future__ import annotations

import argparse
from functools import partial

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.deleting import (
    add_deletion_arguments,
    require_allowed,
    run_deletion,
    show_outcomes,
    to_delete,
)
from airflow_kafka_groups.cli.options import flag_of
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import (
    MAX_GAP_SECONDS,
    Numbers,
    add_numbers,
    add_pattern_arguments,
    policy_file_of,
    policy_of,
    take_defaults,
)
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer, read_number

PLANNED = ("group_id", "topic", "partitions", "idle_seconds", "reason")
KEPT = ("group_id", "topic", "why", "reason")
_NUMBERS: Numbers = {
    "min_idle_seconds": read_duration,
    "min_observations": partial(read_integer, minimum=2),
    "max_groups": partial(read_integer, minimum=1),
    "max_share": partial(read_number, maximum=1),
    "max_gap_seconds": read_duration,
}


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID")
    add_numbers(parser, _NUMBERS)
    parser.add_argument("--policy-file", metavar="PATH")
    parser.add_argument("--kept", action="store_true", help="show the topics that are kept, instead of those planned")
    parser.add_argument("--plan-id", metavar="PLAN", help="apply this plan instead of making one")
    parser.add_argument("--topics-per-second", metavar="N", default="0")
    add_deletion_arguments(parser)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write a plan and show its topics, or apply one and show the outcome of each."""
    cluster = Cluster(args)
    if args.plan_id is None:
        if args.yes:
            raise ConfigurationError("--plan-id", None, "--yes requires it: the plan that you looked at is applied")
        return _plan(args, cluster, out)
    for name in ("include", "exclude", "snapshot_id", "policy_file", "kept", *_NUMBERS):
        if getattr(args, name) not in (None, False):  # whoever gives one expects less to be pruned than the plan has
            remedy = "is for a new plan, and --plan-id applies a plan as it is: leave one of them out"
            raise ConfigurationError(flag_of(name), None, remedy)
    return _apply(args, cluster, out)


def _plan(args: argparse.Namespace, cluster: Cluster, out: Output) -> ExitCode:
    from airflow_kafka_groups.change.prune_topics.plan_topics import plan_topics

    layout, floors = cluster.layout(), cluster.floors()
    take_defaults(args, _NUMBERS, {"min_idle_seconds": "topic_idle_seconds"})
    file = policy_file_of(args, floors)
    policy = policy_of(args, cluster.settings, _NUMBERS, max_gap_seconds=MAX_GAP_SECONDS)
    plan, path = plan_topics(layout, policy, floors, snapshot_id=args.snapshot_id, file=file)
    summary = {
        "plan_id": plan.plan_id,
        "digest": plan.digest,
        "path": str(path),
        "snapshot_id": plan.snapshot_id,
        "expires_at": plan.expires_at.isoformat(),
        "counts": dict(plan.counts),
        "warnings": list(plan.warnings),
    }
    if args.kept:
        kept = [(item.group_id, item.topic, item.verdict, item.reason) for item in plan.kept]
        out.write(Table("kept", KEPT, kept), summary)
    else:
        rows = [
            (item.group_id, item.topic, len(item.partitions), item.idle_seconds, item.reason) for item in plan.groups
        ]
        out.write(Table("topics", PLANNED, rows), summary)
    if plan.groups:
        say(f"Nothing was deleted. Next, a dry run: {cluster.command('prune-topics', '--plan-id', plan.plan_id)}")
    return ExitCode.DONE


def _apply(args: argparse.Namespace, cluster: Cluster, out: Output) -> ExitCode:
    from airflow_kafka_groups.change.prune_topics.prune_by_plan import CHUNK_SIZE, prune_by_plan
    from airflow_kafka_groups.checks import check_digest
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.ledger.prune_plan import load_prune_plan

    layout, floors = cluster.layout(), cluster.floors()
    per_second = read_number("--topics-per-second", args.topics_per_second)
    require_allowed(args, cluster)
    plan = load_prune_plan(layout, args.plan_id)
    digest = plan.digest if args.digest is None else check_digest("--digest", args.digest)
    policy = policy_reader(plan.policy)
    result = run_deletion(
        args,
        cluster,
        DeletionLimits(chunk_size=CHUNK_SIZE, groups_per_second=per_second or None),
        lambda admin, request: prune_by_plan(
            admin, layout, plan.plan_id, digest, request, floors=floors, policy=policy
        ),
        command="prune-topics",
        request_id=plan.plan_id,
    )
    return show_outcomes(out, result, cluster, to_delete(plan.digest), of="topic")
