"""Judge which groups are stale, from the snapshots in the storage. Nothing in Kafka is changed, or asked."""

from __future__ import annotations

import argparse
from functools import partial

from airflow_kafka_groups.cli.commands.selection import MAX_GAP_SECONDS, Numbers
from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.messages import say
from airflow_kafka_groups.cli.options import add_value, flag_of
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.contracts.durations import show_duration
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer

COLUMNS = ("verdict", "groups", "lag")
_NUMBERS: Numbers = {
    "min_idle_seconds": (read_duration, "how long a group must have been empty and unmoved, e.g. 36h (default: 7d)"),
    "min_observations": (partial(read_integer, minimum=2), "minimum number of complete snapshots (default: 2)"),
    "max_gap_seconds": (read_duration, "a longer gap between snapshots restarts the idle time; 0: any (default: 2d)"),
}
_DEFAULTS = {"min_idle_seconds": 7 * 86_400, "min_observations": 2, "max_gap_seconds": MAX_GAP_SECONDS}
_WHY = "the command judges in its own process. To read the log of commits, run the DAG cleanup_stale_groups"


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID", help="the snapshot to judge (default: the newest one)")
    for name, (_, help_text) in _NUMBERS.items():
        add_value(parser, name, help_text)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Judge, and show the number of groups by verdict."""
    from airflow_kafka_groups.hooks.plain_jobs import run_plain_job

    cluster = Cluster(args)
    layout = cluster.layout()
    limits = _limits(args)
    asked = {
        "--base": cluster.storage_path,
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
    idle = show_duration(limits["min_idle_seconds"])
    say(f"Nothing was deleted. Next: {cluster.command('plan', '--min-idle', idle)}")
    return ExitCode.DONE


def _limits(args: argparse.Namespace) -> dict[str, float]:
    """Return the options' values; without an option, the site's default counts, as in the shipped DAGs."""
    from airflow_kafka_groups.hooks.floors import DEFAULTS
    from airflow_kafka_groups.operators.dag_form import checked_defaults

    of_site, found = checked_defaults(), {}
    for name, (read, _) in _NUMBERS.items():
        if (given := getattr(args, name)) is not None:
            found[name] = read(flag_of(name), given)
        elif (default := of_site.get(name)) is not None:
            found[name] = read(f"{DEFAULTS}.{name}", default)
        else:
            found[name] = _DEFAULTS[name]
    return found
