"""Groups that came to life since the offsets were known that a change would commit: such a group is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import SignOfLife
from airflow_kafka_groups.ledger.proposed_changes import Change
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.layout import Layout

_NOT_KNOWN = "Whether somebody uses the groups meanwhile is not known, beyond what the brokers tell: %s"


def wanted_before(layout: Layout, kafka_cluster_id: str | None) -> dict[str, KeptAlive]:
    """Return the groups that earlier changes and keep-alive runs want to stay; none where that cannot be read."""
    with unless_warned(_NOT_KNOWN):
        return Ledger(layout, kafka_cluster_id).wanted()
    return {}


def with_signs(
    layout: Layout,
    kafka_cluster_id: str | None,
    began: datetime,
    before_this: Mapping[str, KeptAlive],
    changes: Sequence[Change],
) -> list[Change]:
    """Return changes, with a sign for the groups that somebody uses since their new offsets were known.

    Where the ledger cannot be read, restores have to work all the same.

    :param began: when the changes were proposed.
    :param before_this: what ``wanted_before`` returned before the change was recorded.
    """
    asked = (change for change in changes if change.kept is None and not change.is_committed)
    since = {change.group_id: change.as_of or began for change in asked}
    signs: Mapping[str, SignOfLife] = {}
    with unless_warned(_NOT_KNOWN):
        signs = Ledger(layout, kafka_cluster_id).used(since, before_this)
    return [_with_sign(change, signs.get(change.group_id), began) for change in changes]


def _with_sign(change: Change, sign: SignOfLife | None, began: datetime) -> Change:
    if sign is None:
        return change
    as_of = f"{change.as_of or began:%Y-%m-%d %H:%M:%S %Z}"
    return replace(change, alive=f"somebody uses it: {sign.reset().reason}, and the offsets to set are of {as_of}")
