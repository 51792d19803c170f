"""Operators that list, describe and split groups, and that find the coordinators of many at once (KIP-699)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_distinct_names,
    read_flag,
    read_group_id,
    read_group_ids,
    read_integer,
    read_names,
    read_state_names,
    read_storage_path,
    read_text,
    read_type_names,
    request_of,
)
from airflow_kafka_groups.kafka.models import CoordinatorType
from airflow_kafka_groups.operators.support.base import (
    FIRST_FAILURES,
    DryRunOperator,
    KafkaGroupsOperator,
    MatchingOperator,
    SelectingOperator,
    first_failures,
    tries_of,
)
from airflow_kafka_groups.shown import one_line, storable

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.models import GroupDescription, GroupListing


MAX_XCOM_GROUPS = 1_000
"""The maximum number of groups in an XCom; larger lists are written to the storage."""


class _ListingOperator(KafkaGroupsOperator):
    """The base class of operators that return rows: a few in the XCom, many in a file.

    :param storage_path: folder above all clusters, for more than 1,000 groups.
    :param cluster: name of the cluster's folder. Default: the connection's id.
    """

    storage_path = Argument(optional(read_storage_path))
    cluster = Argument(optional(read_text))

    def __init__(self, *, storage_path: str | None = None, cluster: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def keep(self, what: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return ``{what: rows, "path": None}``, or ``{what: None, "path": …}``, so a part never looks complete."""
        from airflow_kafka_groups.hooks.storage import open_layout
        from airflow_kafka_groups.storage.formats import FORMAT
        from airflow_kafka_groups.storage.json_files import write_json
        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.storage.paths import LISTINGS, new_id

        if len(rows) <= MAX_XCOM_GROUPS and storable(rows) == rows:
            return {what: rows, "path": None}
        if self.storage_path is None:
            why = f"{len(rows)} groups are too many" if len(rows) > MAX_XCOM_GROUPS else "a group has a zero byte"
            remedy = f"{why} for an XCom: set a path to write them to, or select fewer"
            raise ConfigurationError("storage_path", None, remedy)
        layout = open_layout(self.storage_path, self.cluster, self.kafka_groups_conn_id)
        path = write_json(layout.root / LISTINGS, f"{new_id(utc_now())}.json", {"format": FORMAT, what: rows})
        return {what: None, "path": str(path)}


class ListGroupsOperator(MatchingOperator, _ListingOperator):
    """List the groups of all brokers with state, type and coordinator.

    :param states: only groups in these states, such as ``Empty``. Default: all.
    :param types: only groups of these types, such as ``classic``. Default: all.

    Returns ``{"count", "states", "types", "groups": [{"group_id", "state", "type", "protocol_type", "coordinator"}] or
    None, "path"}``: more than 1,000 groups are in the JSON file ``path``. Fails if a broker did not answer.
    """

    states = Argument(read_state_names)
    types = Argument(read_type_names)

    def __init__(self, *, states: Sequence[str] | str = (), types: Sequence[str] | str = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        # Not filtered by the brokers: only of a full listing is it known whether a partition is still being loaded.
        wanted, listed = self.matching, self.hook.run(lambda admin: admin.list_groups()).require_complete()
        groups = [
            group
            for group in listed.values()
            if wanted.selects(group.group_id)
            and (not self.states or group.state in self.states)
            and (not self.types or group.type in self.types)
        ]
        rows = [_row(group) for group in sorted(groups, key=lambda group: group.group_id)]
        counts = {f"{name}s": dict(Counter(row[name] for row in rows)) for name in ("state", "type")}
        for broker, number in sorted(Counter(group.coordinator for group in groups).items()):
            self.log.info("Broker %s: %d groups", broker, number)
        self.log.info("%d groups: %s", len(rows), counts)
        return {"count": len(rows), **counts, **self.keep("groups", rows)}


def _row(group: GroupListing | GroupDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "state": group.state.value,
        "type": group.type.value,
        "protocol_type": group.protocol_type,
        "coordinator": group.coordinator,
    }


class DescribeGroupsOperator(_ListingOperator):
    """Describe groups of any type: state, members and the topics they read.

    :param group_ids: the groups; duplicates are ignored.
    :param fail_on_error: fail if any group could not be described. Default false: it is in the result (not templated).

    Returns ``{"count", "states", "failed", "failures", "groups": [{"group_id", "state", "type", "protocol_type",
    "coordinator", "members", "topics", "internal_topics"}] or None, "path"}``. A missing group has the state ``Dead``.
    """

    group_ids = Argument(read_group_ids)
    fail_on_error = Argument(read_flag, templated=False)

    def __init__(self, *, group_ids: Sequence[str] | str, fail_on_error: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        found = self.hook.describe_consumer_groups(self.group_ids)
        if self.fail_on_error or not found.succeeded:
            found.raise_for_errors()
        rows = [
            {
                **_row(group),
                "members": len(group.members),
                "topics": sorted({where.topic for member in group.members for where in member.assignment}),
                "internal_topics": list(group.internal_topics),
            }
            for group in found.succeeded.values()
        ]
        failures = self.warn_of("Not described", found.failed)
        states = dict(Counter(str(row["state"]) for row in rows))
        self.log.info("%d groups: %s", len(rows), states)
        counts = {"count": len(rows), "states": states, "failed": len(found.failed), "failures": failures}
        return {**counts, **self.keep("groups", rows)}


class ChunkGroupsOperator(SelectingOperator):
    """Split groups into even chunks by coordinator, for ``.expand(group_ids=chunks.output)``.

    :param chunk_size: maximum number of groups per chunk. Default 5,000.

    Returns a list of lists of group ids; every group is in exactly one. Fails if a broker did not answer the listing,
    or a group has no coordinator at the moment, because it would be missing without notice.
    """

    chunk_size = Argument(partial(read_integer, minimum=1))

    def __init__(self, *, chunk_size: int | str = 5_000, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> list[list[str]]:
        from airflow_kafka_groups.observe.readings import read_selected

        selection = self.selection(self.group_ids)
        found = self.hook.run(lambda admin: read_selected(admin, selection, admin.find_coordinators)).found
        found.raise_for_errors()
        by_broker: dict[int, list[str]] = {}
        for group_id, broker in found.succeeded.items():
            by_broker.setdefault(broker.broker_id, []).append(group_id)
        of_brokers = (sorted(by_broker[broker_id]) for broker_id in sorted(by_broker))
        if unstorable := [group_id for group_id in found if "\0" in group_id]:
            remedy = f"leave {one_line(unstorable[0])} out: Airflow's database may not store its name"
            raise ConfigurationError("exclude", None, remedy)
        chunks = [chunk for of_broker in of_brokers for chunk in _even(of_broker, self.chunk_size)]
        self.log.info("%d groups of %d brokers in %d chunks", len(found), len(by_broker), len(chunks))
        return chunks


def _even(group_ids: list[str], size: int) -> list[list[str]]:
    count = -(-len(group_ids) // size)
    return [group_ids[len(group_ids) * i // count : len(group_ids) * (i + 1) // count] for i in range(count)]


class FindCoordinatorsOperator(SelectingOperator):
    """Find the coordinator of every group or transactional id, and count them by broker.

    :param group_ids: the groups; duplicates are removed and counted. Default: those of the cluster that match.
    :param transactional_ids: transactional ids to look up instead of groups.
    :param fail_on_error: fail if any id has no coordinator. Default false: it is in the result (not templated).

    Returns ``{"groups", "brokers": {id: {"address", "groups"}}, "failed", "failures": {group: reason},
    "duplicates_removed"}``, with the first 20 failures; for transactional ids ``groups`` becomes ``transactional_ids``.
    Fails if a broker did not answer the listing of all groups, if no coordinator was found, and by ``fail_on_error``.
    """

    group_ids = Argument(optional(partial(read_names, may_be_empty=True)))
    transactional_ids = Argument(optional(read_names))
    fail_on_error = Argument(read_flag, templated=False)

    def __init__(
        self,
        *,
        group_ids: Sequence[str] | str | None = None,
        transactional_ids: Sequence[str] | str | None = None,
        fail_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_ids=group_ids, **kwargs)
        if group_ids is not None and transactional_ids is not None:
            raise ConfigurationError("group_ids, transactional_ids", None, "pass at most one of them")

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.observe.readings import read_selected

        what = "groups" if self.transactional_ids is None else "transactional_ids"
        given = self.group_ids if what == "groups" else self.transactional_ids
        duplicates = 0 if given is None else len(given) - len(set(given))
        key_type = CoordinatorType.GROUP if what == "groups" else CoordinatorType.TRANSACTION
        selection = self.selection(given)
        found = self.hook.run(
            lambda admin: read_selected(admin, selection, partial(admin.find_coordinators, key_type=key_type))
        ).found
        if found and (self.fail_on_error or not found.succeeded):
            found.raise_for_errors()
        brokers = {broker.broker_id: broker for broker in found.succeeded.values()}
        counts = Counter(broker.broker_id for broker in found.succeeded.values())
        for broker_id in sorted(counts):
            self.log.info("Broker %s (%s): %d %s", broker_id, brokers[broker_id].address, counts[broker_id], what)
        failures = self.warn_of("No coordinator", found.failed)
        return {
            what: len(found),
            "brokers": {str(i): {"address": brokers[i].address, what: counts[i]} for i in sorted(counts)},
            "failed": len(found.failed),
            "failures": failures,
            "duplicates_removed": duplicates,
        }


MEMBER = ("member_id", "group_instance_id", "client_id", "host", "partitions", "outcome", "reason")


class RemoveMembersOperator(DryRunOperator):
    """Remove members from a consumer group: static members that do not come back, and zombies (LeaveGroup, KIP-345).

    Pass ``member_ids`` or ``instance_ids``, or both, or ``all_members``. A member that is alive joins again at once,
    and its group rebalances. Who is meant is written to ``changes/`` before. A retry, or the task cleared, removes
    nobody who has joined since the first try.

    :param group_id: the group.
    :param member_ids: members by their ids; duplicates are ignored. Default: none.
    :param instance_ids: static members by their ``group.instance.id``; duplicates are ignored. Default: none.
    :param all_members: remove all members. Default false.
    :param reason: what brokers log (KIP-800). Default ``"removed by airflow-kafka-groups"``.

    Returns ``{"dry_run", "counts", "members": [{"member_id", "group_instance_id", "client_id", "host", "outcome",
    "reason"}], "kept", "result_path"}``, with the first 20 members. Members that use the protocol of KIP-848 are kept:
    brokers let nobody else remove them. Fails before anybody is removed for a protected group and for one that is no
    consumer group, and afterwards if a member was not removed, or that is not known.
    """

    group_id = Argument(read_group_id)
    member_ids = Argument(optional(read_distinct_names))
    instance_ids = Argument(optional(read_distinct_names))
    all_members = Argument(read_flag)
    reason = Argument(read_text)

    def __init__(
        self,
        *,
        group_id: str,
        member_ids: Sequence[str] | str | None = None,
        instance_ids: Sequence[str] | str | None = None,
        all_members: bool | str = False,
        reason: str = "removed by airflow-kafka-groups",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if member_ids is None and instance_ids is None and all_members in (False, "false", "False"):
            names = "member_ids, instance_ids, all_members"
            raise ConfigurationError(names, None, "name members, or ask for all of them: one of the two")

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.remove_members import RemoveMembersRequest

        done = self.carry_out(request_of(RemoveMembersRequest, self), tries_of(context))
        for each in done.results:
            self.log.info(
                "%s: %s (%s)", each.outcome.value, one_line(each.group_instance_id or each.member_id), each.reason
            )
        if failures := done.failures():
            raise GroupsFailedError(failures, len(done.results))
        members = storable([{name: getattr(each, name) for name in MEMBER} for each in done.results[:FIRST_FAILURES]])
        return {"dry_run": self.dry_run, **done.summary(), "members": members, "kept": first_failures(done.kept())}
