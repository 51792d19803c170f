"""Set groups to the positions that they have in another cluster, whose topics are mirrored into this one."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import (
    add_change_arguments,
    add_topics,
    distinct,
    show_results,
    table_of,
    terms_of,
)
from airflow_kafka_groups.cli.connection import Cluster, source_of
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.hooks.arguments import read_pairs

PARTITIONS = (
    "group_id",
    "source_topic",
    "source_partition",
    "source_offset",
    "topic",
    "partition",
    "offset",
    "distance",
    "refused",
)
_METHODS = ("header", "offset-syncs", "checkpoints", "payload", "timestamp")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser)
    add = parser.add_argument
    add("groups", nargs="*", metavar="GROUP")
    add("--source-conn-id", metavar="ID")
    add("--source-config", metavar="FILE", help="or the source's file of librdkafka properties")
    add("--source-bootstrap-servers", metavar="HOST:PORT,…", help="or its brokers that need no login and no TLS")
    add("--backup-id", metavar="ID")
    add("--source-cluster", metavar="NAME")
    add_topics(parser)
    add("--method", choices=("header", "offset-syncs", "checkpoints", "payload", "timestamp"))
    add("--position", choices=("at-or-before", "exact", "at-or-after"), default="at-or-before")
    add("--existing", choices=("keep", "replace", "lower"), default="keep")
    add("--topic-pattern", metavar="PATTERN", default="{topic}")
    add("--mapping", action="append", metavar="A=B")
    add("--header", metavar="NAME", default="redpanda-migrator-offset")
    add("--mirror-topic", metavar="TOPIC")
    add("--plan-id", metavar="ID")
    add("--digest", metavar="SHA256")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Migrate the offsets, and show the outcome; a dry run shows how its plan is applied."""
    from airflow_kafka_groups.change.migrate.migrate import MigrateRequest
    from airflow_kafka_groups.change.restore.offset_requests import change_offsets

    cluster = Cluster(args)
    layout = cluster.site_layout()
    mapping = dict(text.split("=", 1) if "=" in text else (text, "") for text in args.mapping or ())
    with terms_of(args, cluster, "migrate") as terms:
        request = MigrateRequest(
            source=source_of(args),
            backup_id=args.backup_id,
            source_cluster=args.source_cluster,
            group_ids=distinct(args.groups),
            topics=distinct(args.topics),
            method=args.method,
            position=args.position,
            existing=args.existing,
            topic_pattern=args.topic_pattern,
            mapping=read_pairs("--mapping", mapping) if mapping else {},
            header=args.header,
            mirror_topic=args.mirror_topic,
            plan_id=args.plan_id,
            plan_digest=args.digest,
            progress=terms.progress,
        )
        done = cluster.run(lambda admin: change_offsets(admin, layout, request, terms))
    plan = request.made
    table = Table("partitions", PARTITIONS, list(plan.rows())) if args.partitions else table_of(args, "migrate", done)
    apply = cluster.command("migrate", "--plan-id", plan.plan_id, "--digest", plan.digest, "--yes")
    return show_results(out, done, table, f"Nothing was changed. To do exactly this: {apply}", plan.summary())
