"""What a client may change. Asked about every group before any request that changes one is built (calls.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from airflow_kafka_groups.exceptions import KafkaGroupsError


class ChangePolicy(Protocol):
    """A rule for changes: which groups must stay as they are."""

    def refusals(self, group_ids: Iterable[str]) -> Mapping[str, KafkaGroupsError]:
        """Return the groups that may not be changed, each with the reason.

        Raises ``KafkaGroupsError`` when nothing may be changed at all.
        """
        ...


class AllowAll:
    """The policy of a client without one: every change is allowed."""

    def refusals(self, group_ids: Iterable[str]) -> Mapping[str, KafkaGroupsError]:
        """Return no refusals."""
        return {}
