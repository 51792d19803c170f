"""Judge which groups are stale, from the snapshots in the storage. Nothing in Kafka is changed, or asked."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.options import flag_of
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import MAX_GAP_SECONDS, OF_RULES, Numbers, add_numbers
from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer
from airflow_kafka_groups.judge.evidence import REQUIRED

COLUMNS = ("verdict", "groups", "lag")
_NUMBERS: Numbers = {
    "min_idle_seconds": read_duration,
    "min_observations": partial(read_integer, minimum=2),
    "max_gap_seconds": read_duration,
    "offsets_retention_minutes": read_integer,
}
_DEFAULTS = {"min_idle_seconds": 7 * 86_400, "min_observations": 2, "max_gap_seconds": MAX_GAP_SECONDS}
_WHY = "the command judges in its own process. To read the log of commits, run the DAG cleanup_stale_groups"

_NO_LOG = "demands verdicts that rest on the log of commits, which this command does not read: run the DAG "
_NO_LOG += "cleanup_stale_groups"


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID", help="the snapshot to judge (default: the newest one)")
    add_numbers(parser, _NUMBERS)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Judge, and show the number of groups by verdict."""
    from airflow_kafka_groups.hooks.plain_jobs import run_plain_job

    cluster = Cluster(args)
    layout = cluster.layout()
    given = {name: value for name in _NUMBERS if (value := getattr(args, name)) is not None}
    limits, has_file = _limits_of_site()
    if cluster.floors().require_commit_log:
        raise ConfigurationError("require_commit_log", True, _NO_LOG)
    limits |= {name: _NUMBERS[name](flag_of(name), value) for name, value in given.items()}
    asked = {
        # The jobs take a local URL as Hadoop does, with a %20 as it is; Airflow opens it as what that stands for.
        "--base": str(layout.base) if isinstance(layout.base, Path) else cluster.storage_path,
        "--cluster": layout.cluster,
        **{f"--{name.replace('_', '-')}": f"{value:.15g}" for name, value in limits.items()},
        **({"--snapshot-id": args.snapshot_id} if args.snapshot_id else {}),
    }
    arguments = ["judge_staleness", *(word for option in asked.items() for word in option)]
    summary = run_plain_job(arguments, layout.base, _WHY)
    verdicts, lags = summary["verdicts"], summary["lag_by_verdict"]
    rows = [(verdict, groups, lags[verdict]) for verdict, groups in verdicts.items() if groups]
    shown = ("snapshot_id", "groups", "snapshots_used", "snapshots_reduced", "oldest_observation", "seconds")
    out.write(Table("verdicts", COLUMNS, rows), {name: summary[name] for name in shown})
    # What is not given, a plan takes from where it came here; what a policy file's rules have, it refuses.
    same = {flag_of(name): value for name, value in given.items() if not (has_file and name in OF_RULES)}
    same |= {"--snapshot-id": args.snapshot_id} if args.snapshot_id else {}
    command = cluster.command("plan", *(word for option in same.items() for word in option))
    say(f"Nothing was deleted. Next: {command}")
    return ExitCode.DONE


def _limits_of_site() -> tuple[dict[str, float], bool]:
    """Return what counts without an option, as for a plan and in the shipped DAGs, and whether it is a policy file's.

    Raises ``ConfigurationError`` for defaults, or for their policy file, that cannot be read.
    """
    from airflow_kafka_groups.hooks.floors import DEFAULTS
    from airflow_kafka_groups.hooks.storage import open_policy
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.ledger.floors import NO_FLOORS
    from airflow_kafka_groups.operators.support.dag_form import checked_defaults

    of_site = checked_defaults()
    found: dict[str, Any] = {
        name: read(f"{DEFAULTS}.{name}", of_site[name])
        for name, read in _NUMBERS.items()
        if of_site.get(name) is not None
    }
    if of_site.get("commit_log") == REQUIRED:
        raise ConfigurationError(f"{DEFAULTS}.commit_log", REQUIRED, _NO_LOG)
    if not (place := of_site.get("policy_file")):
        return _DEFAULTS | found, False
    field = f"{DEFAULTS}.policy_file"
    try:
        file = open_policy(field, place, NO_FLOORS)  # the site's own
    except PolicyError as error:
        raise ConfigurationError(field, None, str(error)) from error
    gap = {} if "max_gap_seconds" in file.limits else {"max_gap_seconds": MAX_GAP_SECONDS}
    of_policy = {name: value for name, value in found.items() if name in _DEFAULTS}
    ruled = PlanPolicy(**{**gap, **of_policy}).by_file(file)
    if ruled.require_commit_log:
        raise ConfigurationError(f"require_commit_log of {field}", True, _NO_LOG)
    return found | {name: getattr(ruled, name) for name in _DEFAULTS}, True
