"""Commands that look and change nothing."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli import options
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, StorageError
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops
from airflow_kafka_groups.hooks.arguments import read_duration, read_state_names, read_type_names
from airflow_kafka_groups.hooks.floors import DEFAULTS, site_defaults
from airflow_kafka_groups.hooks.storage import open_path, open_policy, policy_reader
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.observe.readings import measure_lag, read_selected
from airflow_kafka_groups.operators.support.dag_form import CLEANUP_FORM, OTHER_FORMS, checked_defaults

if TYPE_CHECKING:
    from airflow_kafka_groups.doctor.finding import Report
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupListings
    from airflow_kafka_groups.kafka.models import GroupDescription, MemberDescription

LIST_GROUPS_COLUMNS = ("group_id", "state", "type", "protocol_type", "coordinator")


def add_list_groups(parser: ArgumentTarget) -> None:
    options.add_connection_arguments(parser)
    options.add_pattern_arguments(parser)
    options.add_view_arguments(parser)
    states, types = (", ".join(member.value for member in kind) for kind in (GroupState, GroupType))
    add = partial(parser.add_argument, action="append")
    state, kind = f"groups in this state (repeat): {states}", f"groups of this type (repeat): {types}"
    add("--state", dest="states", metavar="STATE", read=read_state_names, help=state)
    add("--type", dest="types", metavar="TYPE", read=read_type_names, help=kind)


def list_groups(args: argparse.Namespace, out: Output) -> ExitCode:
    """List the groups. If a broker does not answer, the list is printed and the exit code is 3."""
    patterns = options.filter_of(args)

    async def listed(admin: AdminClient) -> GroupListings:
        found = await admin.list_groups(states=args.states or (), types=args.types or ())
        await options.say_if_fewer_are_listed(admin)
        return found

    found = options.Cluster(args).run(listed)
    groups = (found[group_id] for group_id in sorted(found) if patterns.selects(group_id))
    out.write(Table.of("groups", LIST_GROUPS_COLUMNS, groups))
    options.say_what_is_missing(found.errors)
    return ExitCode.DONE if found.complete else ExitCode.INCOMPLETE


MEMBER = ("member_id", "group_instance_id", "client_id", "host")
DESCRIBE_COLUMNS = ("group_id", "state", "type", "protocol", "coordinator", *MEMBER, "assignment", "internal_topics")


add_describe = partial(options.add_group_arguments, required=True)


def describe(args: argparse.Namespace, out: Output) -> ExitCode:
    """Describe the groups: one row for each member, and one for a group without members.

    A group that does not exist has the state ``Dead``; the exit code is then 3, as for one that cannot be read.
    """
    found = options.Cluster(args).run(lambda admin: admin.describe_consumer_groups(args.group_ids))
    described = found.succeeded
    out.write(Table("groups", DESCRIBE_COLUMNS, [row for group in described.values() for row in _rows(group)]))
    options.report_failures(found.failed)
    missing = any(group.state is GroupState.DEAD for group in described.values())
    return ExitCode.INCOMPLETE if missing or found.failed else ExitCode.DONE


def _rows(group: GroupDescription) -> Iterator[tuple[Any, ...]]:
    kind = None if group.type is GroupType.UNKNOWN else group.type.value
    facts = (group.group_id, group.state.value, kind, group.protocol, group.coordinator)
    if not group.members:
        yield (*facts, *[None] * len(MEMBER), [], list(group.internal_topics))
    for member in group.members:
        named = (getattr(member, name) for name in MEMBER)
        yield (*facts, *named, _assignment(member), list(group.internal_topics))


def _assignment(member: MemberDescription) -> list[str]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for where in member.assignment:
        by_topic[where.topic].append(where.partition)
    return [f"{topic}[{','.join(map(str, sorted(numbers)))}]" for topic, numbers in sorted(by_topic.items())]


OFFSETS_COLUMNS = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")


add_offsets = options.add_group_arguments


def offsets(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show one row for each partition with a commit. CSV is as ``kafka-consumer-groups --export`` writes it.

    A group that cannot be read, or that was named and does not exist, makes the exit code 3.
    """
    from airflow_kafka_groups.change.restore.offsets_csv import csv_rows

    read = options.read_chosen(
        args,
        lambda admin, groups: read_selected(
            admin, groups, admin.list_consumer_group_offsets, is_bare=lambda offsets: not offsets.topics
        ),
    )
    rows = [
        (group_id, topic.topic, partition, offset, None if epoch < 0 else epoch, metadata)
        for group_id, offsets in read.found.succeeded.items()
        for topic in offsets.topics
        for partition, offset, epoch, metadata in topic.rows()
        if offset >= 0
    ]
    csv = list(csv_rows((row[:4] for row in rows), with_group=len(set(args.group_ids)) != 1))
    out.write(Table("offsets", OFFSETS_COLUMNS, [*rows, *((name, *[None] * 5) for name in read.refused)], csv))
    return ExitCode.DONE if options.report(read) else ExitCode.INCOMPLETE


LAG_COLUMNS = ("group_id", "partitions", "lag", "lost")
OF_PARTITIONS = ("group_id", "topic", "partition", "lag", "lost", "flag")


def add_lag(parser: ArgumentTarget) -> None:
    options.add_group_arguments(parser)
    parser.add_argument("--partitions", action="store_true", help="one row for each partition instead of each group")
    options.add_value(parser, "max_lag", help="show groups whose lag exceeds N or is not known; exit code 3 if any")


def lag(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show the groups, the largest lag first. A group whose lag is not known has none, and makes the exit code 3.

    So does one that was named and does not exist: it is not shown, since its lag is not 0.

    ``lag`` counts the records to read, and ``lost`` those that were removed unread.
    """
    most, read = args.max_lag, options.read_chosen(args, measure_lag)
    too_much = None if most is None else {lag.group_id for lag in read.above(most)} | read.unknown.keys()
    shown = [lag for lag in read.lags if too_much is None or lag.group_id in too_much]
    if args.partitions:
        of_partitions = [
            (lag.group_id, *where, found.messages, None if found.messages is None else found.lost, found.flag.value)
            for lag in shown
            for where, found in lag.partitions.items()
        ]
        out.write(Table("partitions", OF_PARTITIONS, of_partitions))
    else:
        rows: list[tuple[Any, ...]] = [
            (lag.group_id, lag.committed_partitions, None if lag.group_id in read.unknown else lag.messages, lag.lost)
            for lag in shown
        ]
        out.write(Table("groups", LAG_COLUMNS, [*rows, *((name, None, None, None) for name in read.groups.refused)]))
    is_complete = options.report(read.groups)
    if read.warning is not None:
        say(f"warning: {read.warning}")
    if unknown := [lag.group_id for lag in read.lags if lag.group_id in read.unknown]:
        say(f"warning: the lag of {len(unknown)} group(s) is not known, first {unknown[0]!r}: see --partitions")
    return ExitCode.INCOMPLETE if too_much or read.unknown or not is_complete else ExitCode.DONE


EXPLAIN_COLUMNS = ("check", "finding", "evidence", "what_would_change_it")


def add_explain(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    parser.add_argument("group_id", metavar="GROUP", help="the group's id")
    parser.add_argument(
        "--plan-id", metavar="PLAN", help="the plan (default: the newest of the DAGs, or else of this command line)"
    )


def explain(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show the checks of one group, and whether ``apply`` would delete it now."""
    from airflow_kafka_groups.change.explain import ExplainRequest, explain_group

    cluster = options.Cluster(args)
    settings, layout = cluster.settings, cluster.layout()
    request = ExplainRequest(
        group_id=args.group_id,
        plan_id=args.plan_id,
        protects=settings.protects,
        read_only=settings.read_only,
        floors=cluster.floors(),
        why_stopped=_why_stopped,
        policy_reader=policy_reader,
    )
    summary, rows = explain_group(cluster.run, layout, request)
    out.write(Table("checks", EXPLAIN_COLUMNS, rows), summary)
    return ExitCode.DONE


def _why_stopped() -> str | None:
    options.use_airflow_database()
    return why_variable_stops(STOP_VARIABLE)


DOCTOR_COLUMNS = ("check", "status", "text", "remedy")
_STORAGE = "Check the storage's connection in Airflow and its credentials, or set another storage_path."
_CONNECTION = "Check the servers, the security settings and the credentials of the connection."


def add_doctor(parser: ArgumentTarget) -> None:
    options.add_storage_arguments(parser)
    help_text = "idle time of the clean-up, to compare with the brokers' retention (default: the DAGs')"
    options.add_value(parser, "min_idle_seconds", help=help_text)


def doctor(args: argparse.Namespace, out: Output) -> ExitCode:
    """Examine everything, with remedies; the exit code is 1 if a finding has failed, and 3 if one is a warning."""
    from airflow_kafka_groups.doctor.finding import Report, Status, worst
    from airflow_kafka_groups.doctor.installed import examine_airflow, examine_spark

    report = Report()
    cluster = options.Cluster(args)
    _examine_cluster(cluster, _idle_time(args, report), report)
    _examine_storage(cluster, report)
    _examine_switch(cluster, report)
    _examine_policy(cluster, report)
    examine_airflow(report)
    examine_spark(report)
    out.write(Table.of("findings", DOCTOR_COLUMNS, report.findings))
    codes = {Status.FAILED: ExitCode.FAILED, Status.WARNING: ExitCode.INCOMPLETE}
    return codes.get(worst(report.findings), ExitCode.DONE)


def _idle_time(args: argparse.Namespace, report: Report) -> float:
    """Check the site's defaults; return the idle time that was given, or that of the site's DAGs, in seconds."""
    found = CLEANUP_FORM["min_idle_seconds"]["default"]
    with report.checking("defaults", f"Correct {DEFAULTS}: DAGs and commands fail by it.", ConfigurationError):
        defaults = checked_defaults()
        found = read_duration(f"{DEFAULTS}.min_idle_seconds", defaults.get("min_idle_seconds", found))
        _check_forms()
    return read_duration("--min-idle", found) if args.min_idle_seconds is None else float(args.min_idle_seconds)


def _check_forms() -> None:
    """Make the forms and the Spark settings of all DAGs.

    Raises ``ConfigurationError`` for a default that one of them refuses.
    """
    try:
        from airflow_kafka_groups.operators.dag_params import dag_params, spark_settings
    except ImportError:  # without Airflow, or with one that is too old, which is a finding of its own, no DAG is parsed
        return

    dag_params(*CLEANUP_FORM, *OTHER_FORMS)
    spark_settings()


def _examine_cluster(cluster: options.Cluster, min_idle_seconds: float, report: Report) -> None:
    from airflow_kafka_groups.doctor.cluster import examine_connection

    settings = cluster.settings
    lease, protected = settings.lease_group_id, settings.protected_groups
    if settings.read_only:  # the brokers' rights say otherwise
        text = "This connection is read-only: it refuses all changes, whatever the brokers allow."
        report.warn("read only", text, "Turn off its read_only, or use another connection for changes.")
    with report.checking("connection", _CONNECTION, KafkaGroupsError):
        say("Examining the cluster …")
        cluster.run(lambda admin: examine_connection(admin, lease, protected, min_idle_seconds, report))


def _examine_storage(cluster: options.Cluster, report: Report) -> None:
    from airflow_kafka_groups.doctor.storage import examine_storage

    try:
        path = cluster.storage_path
    except ConfigurationError as error:
        report.unknown("storage", f"The storage was not examined: {error}.")
        return
    with report.checking("storage", _STORAGE, StorageError):
        examine_storage(open_path("--storage-path", path), report)
    with report.checking("floors", "Correct the floor, or give the storage that it names.", ConfigurationError):
        cluster.floors()
        report.ok("floors", "The floors of the site and the connection can be read, and allow this storage.")


def _examine_switch(cluster: options.Cluster, report: Report) -> None:
    """Look for the file and the Airflow Variable that end every deletion before its first request."""
    from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped

    options.use_airflow_database()
    try:
        why = why_stopped(cluster.layout()) or why_variable_stops(STOP_VARIABLE)
    except (ConfigurationError, StorageError, ImportError) as error:  # also with an Airflow that is too old
        report.unknown("stop switch", f"Whether deletions are stopped is not known: {error}.")
        return
    if why is None:
        report.ok("stop switch", "Nothing stops deletions.")
    else:
        report.warn("stop switch", f"Every deletion keeps its groups: {why}.", "Remove the switch when they may go on.")


def _examine_policy(cluster: options.Cluster, report: Report) -> None:
    """Read the policy files of the site's DAGs and floors, if there are any."""
    from airflow_kafka_groups.ledger.floors import NO_FLOORS

    places = {}
    with suppress(ConfigurationError):  # what is wrong with defaults and floors is a finding of its own
        places[site_defaults().get("policy_file")] = f"{DEFAULTS}.policy_file"
    with suppress(ConfigurationError, StorageError):
        places[cluster.floors().policy_file] = "floors.policy_file"
    for place, field in places.items():
        if place:
            remedy = "Correct it, or let the workers read it: nothing is planned or deleted without it."
            with report.checking("policy file", remedy, KafkaGroupsError):
                open_policy(field, place, NO_FLOORS)  # the site's own
                report.ok("policy file", f"{place} can be read.")
