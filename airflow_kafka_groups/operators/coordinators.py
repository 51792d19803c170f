"""The operator that finds the coordinators of many groups in a few requests (KIP-699)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_names, read_patterns, read_switch
from airflow_kafka_groups.kafka.models import CoordinatorType
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.operators.support.base import KafkaGroupsOperator, first_failures
from airflow_kafka_groups.shown import one_line

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupResults
    from airflow_kafka_groups.kafka.models import Broker


class FindCoordinatorsOperator(KafkaGroupsOperator):
    """Find the coordinator of every group or transactional id, and count them by broker.

    :param group_ids: the groups; ``None`` (default) for all groups of the cluster. Duplicates are removed and counted
        (templated).
    :param transactional_ids: transactional ids to look up instead of groups (templated).
    :param include: patterns of the groups if no ids are passed. Default: all (templated).
    :param exclude: patterns of the groups to leave out if no ids are passed. Default: none (templated).
    :param fail_on_error: fail the task if any id has no coordinator. Default false: it is in the result.

    Returns ``{"groups", "brokers": {id: {"address", "groups"}}, "failed", "failures": {group: reason},
    "duplicates_removed"}``, with the first 20 failures; for transactional ids ``groups`` becomes ``transactional_ids``.
    Fails if a broker did not answer the listing of all groups, if no coordinator could be found at all, and according
    to ``fail_on_error``.
    """

    group_ids = Argument(optional(partial(read_names, may_be_empty=True)))
    transactional_ids = Argument(optional(read_names))
    include = Argument(read_patterns)
    exclude = Argument(read_patterns)
    fail_on_error = Argument(read_switch, templated=False)

    @sets_arguments
    def __init__(
        self,
        *,
        group_ids: Sequence[str] | str | None = None,
        transactional_ids: Sequence[str] | str | None = None,
        include: Sequence[str] | str = ("*",),
        exclude: Sequence[str] | str = (),
        fail_on_error: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if group_ids is not None and transactional_ids is not None:
            raise ConfigurationError("group_ids, transactional_ids", None, "pass at most one of them")

    def execute(self, context: Context) -> dict[str, Any]:
        """Look up all coordinators with one client."""
        from airflow_kafka_groups.observe.protocols import selected_groups, within_reach

        what = "groups" if self.transactional_ids is None else "transactional_ids"
        given = self.group_ids if what == "groups" else self.transactional_ids
        named = None if given is None else list(dict.fromkeys(given))
        duplicates = 0 if given is None or named is None else len(given) - len(named)
        chosen = GroupFilter(self.include, self.exclude)
        key_type = CoordinatorType.GROUP if what == "groups" else CoordinatorType.TRANSACTION

        async def find(admin: AdminClient) -> GroupResults[Broker]:
            wanted = await selected_groups(admin, chosen) if named is None else named
            return await admin.find_coordinators(wanted, key_type=key_type)

        found = self.hook.run(find)
        if named is None:
            found = within_reach(found, self.hook.settings.protected_groups)
        if found and (self.fail_on_error or not found.succeeded):
            found.raise_for_errors()
        return self._summary(what, found, duplicates)

    def _summary(self, what: str, found: GroupResults[Broker], duplicates: int) -> dict[str, Any]:
        brokers = {broker.broker_id: broker for broker in found.succeeded.values()}
        counts = Counter(broker.broker_id for broker in found.succeeded.values())
        for broker_id in sorted(counts):
            self.log.info("Broker %s (%s): %d %s", broker_id, brokers[broker_id].address, counts[broker_id], what)
        failures = first_failures(found.failed)
        for key, reason in failures.items():
            self.log.warning("No coordinator for %s: %s", one_line(key), reason)
        return {
            what: len(found),
            "brokers": {str(i): {"address": brokers[i].address, what: counts[i]} for i in sorted(counts)},
            "failed": len(found.failed),
            "failures": failures,
            "duplicates_removed": duplicates,
        }
