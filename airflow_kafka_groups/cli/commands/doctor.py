"""Examine a connection, its storage and this machine, with a remedy for each finding. Nothing on Kafka is changed."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.options import Cluster, add_storage_arguments, add_value, use_airflow_database
from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, StorageError
from airflow_kafka_groups.hooks.arguments import read_duration

if TYPE_CHECKING:
    from airflow_kafka_groups.doctor.finding import Report

DOCTOR_COLUMNS = ("check", "status", "text", "remedy")
_STORAGE = "Check the storage's connection in Airflow and its credentials, or set another storage_path."
_CONNECTION = "Check the servers, the security settings and the credentials of the connection."


def add_doctor(parser: ArgumentTarget) -> None:
    add_storage_arguments(parser)
    help_text = "idle time of the clean-up, to compare with the brokers' retention (default: the DAGs')"
    add_value(parser, "min_idle_seconds", help=help_text)


def doctor(args: argparse.Namespace, out: Output) -> ExitCode:
    """Examine everything and print the findings; the exit code is 1 if one has failed, and 3 if one is a warning."""
    from airflow_kafka_groups.doctor.finding import Report, Status, worst
    from airflow_kafka_groups.doctor.installed import examine_airflow, examine_spark

    report = Report()
    cluster = Cluster(args)
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
    from airflow_kafka_groups.hooks.floors import DEFAULTS
    from airflow_kafka_groups.operators.support.dag_form import CLEANUP_FORM, checked_defaults

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
    from airflow_kafka_groups.operators.support.dag_form import CLEANUP_FORM, OTHER_FORMS

    dag_params(*CLEANUP_FORM, *OTHER_FORMS)
    spark_settings()


def _examine_cluster(cluster: Cluster, min_idle_seconds: float, report: Report) -> None:
    from airflow_kafka_groups.doctor.cluster import examine_connection

    settings = cluster.settings
    lease, protected = settings.lease_group_id, settings.protected_groups
    if settings.read_only:  # the brokers' rights say otherwise
        text = "This connection is read-only: it refuses all changes, whatever the brokers allow."
        report.warn("read only", text, "Turn off its read_only, or use another connection for changes.")
    with report.checking("connection", _CONNECTION, KafkaGroupsError):
        say("Examining the cluster …")
        cluster.run(lambda admin: examine_connection(admin, lease, protected, min_idle_seconds, report))


def _examine_storage(cluster: Cluster, report: Report) -> None:
    from airflow_kafka_groups.doctor.storage import examine_storage
    from airflow_kafka_groups.hooks.storage import open_path

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


def _examine_switch(cluster: Cluster, report: Report) -> None:
    """Look for the file and the Airflow Variable that end every deletion before its first request."""
    from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped

    use_airflow_database()
    try:
        from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE, why_variable_stops

        why = why_stopped(cluster.layout()) or why_variable_stops(STOP_VARIABLE)
    except (ConfigurationError, StorageError, ImportError) as error:  # also with an Airflow that is too old
        report.unknown("stop switch", f"Whether deletions are stopped is not known: {error}.")
        return
    if why is None:
        report.ok("stop switch", "Nothing stops deletions.")
    else:
        report.warn("stop switch", f"Every deletion keeps its groups: {why}.", "Remove the switch when they may go on.")


def _examine_policy(cluster: Cluster, report: Report) -> None:
    """Read the policy files of the site's DAGs and floors, if there are any."""
    from airflow_kafka_groups.hooks.floors import DEFAULTS, site_defaults
    from airflow_kafka_groups.hooks.storage import open_policy
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
