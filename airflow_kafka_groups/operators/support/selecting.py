"""The base classes of operators about groups that match patterns, or are named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import optional, read_group_ids, read_patterns
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.operators.support.base import KafkaGroupsOperator

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupResults

V = TypeVar("V")


class MatchingOperator(KafkaGroupsOperator):
    """The base class of operators about groups that match patterns.

    :param include: patterns of the groups, where none are named: ``orders-*``, or ``re:`` and a regular expression.
        Default: all (templated).
    :param exclude: patterns of the groups to leave out, where none are named. Default: none (templated).
    """

    include = Argument(read_patterns)
    exclude = Argument(read_patterns)

    def __init__(
        self, *, include: Sequence[str] | str = ("*",), exclude: Sequence[str] | str = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)

    @property
    def matching(self) -> GroupFilter:
        """The patterns as a filter."""
        return GroupFilter(self.include, self.exclude)


class SelectingOperator(MatchingOperator):
    """The base class of operators about named groups, or those of the cluster that match patterns.

    :param group_ids: the groups; duplicates are ignored. Default: those of the cluster that match (templated).
    """

    group_ids = Argument(optional(read_group_ids))

    def __init__(self, *, group_ids: Sequence[str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def ask_about(
        self,
        named: Sequence[str] | None,
        ask: Callable[[AdminClient, Sequence[str]], Awaitable[GroupResults[V]]],
        *,
        with_offsets: bool = False,
    ) -> GroupResults[V]:
        """Ask with one client about the named groups, or those that match: without those that nobody may read.

        :param with_offsets: leave out what matches and has no offsets that brokers show. Default false.
        """
        from airflow_kafka_groups.observe.protocols import selected_groups, within_reach

        matching = self.matching

        async def select_and_ask(admin: AdminClient) -> GroupResults[V]:
            return await ask(
                admin, await selected_groups(admin, matching, with_offsets=with_offsets) if named is None else named
            )

        found = self.hook.run(select_and_ask)
        return within_reach(found, self.hook.settings.protected_groups) if named is None else found
