"""The numbers of groups and families, and the bound on their series."""

from datetime import timedelta
from typing import Any

import pyarrow as pa

from airflow_kafka_groups.ledger.verdicts import Verdicts
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.report.metrics import Gauges, GroupMetrics, group_metrics, shown_name
from tests.fakes.groups import NOW
from tests.fakes.verdicts import VerdictRow, verdicts_of

DAY = timedelta(days=1)
GROUP = VerdictRow(
    group_id="orders",
    group_type="classic",
    protocol_type="consumer",
    state="Empty",
    members=0,
    partitions=1,
    lag=7,
    idle_since=NOW - 3 * DAY,
    idle_seconds=259_200.0,
    observations=3,
    observed_at=NOW,
    verdict="stale",
    reason="idle",
    last_moved_at=NOW - 4 * DAY,
    forecast={"offsets_expire_by": (NOW + 2 * DAY).isoformat()},
)
UUIDS = ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e0-4f89-11d3-9a0c-0305e82c3302")


def metrics(*groups: VerdictRow, selected: GroupFilter | None = None, most: int = 500) -> GroupMetrics:
    return group_metrics(verdicts_of(groups), selected or GroupFilter(), most)


def named(group_id: str, **changes: Any) -> VerdictRow:
    return GROUP._replace(group_id=group_id, **changes)


def test_a_group_has_its_lag_its_movement_and_its_expiry() -> None:
    found = metrics(GROUP, named("live", verdict="live", lag=None, last_moved_at=None, forecast=None))
    assert found.groups == {"orders": Gauges(7, 4 * 86_400.0, 2.0), "live": Gauges(None, None, None)}
    assert (found.verdicts, found.omitted, found.observed_at) == ({"live": 1, "stale": 1}, 0, NOW)


def test_without_a_movement_the_first_observation_is_the_lower_bound() -> None:
    table = verdicts_of([GROUP._replace(last_moved_at=None)]).table
    place = table.schema.get_field_index("first_seen_at")
    seen = pa.array([NOW - 9 * DAY], table.schema.field("first_seen_at").type)
    found = group_metrics(Verdicts(table.set_column(place, "first_seen_at", seen)), GroupFilter(), 500)
    assert found.groups["orders"].idle == 9 * 86_400.0


def test_groups_with_generated_ids_are_their_family() -> None:
    first, second = (f"report-{uuid}" for uuid in UUIDS)
    found = metrics(named(first, lag=2, forecast=None), named(second, last_moved_at=NOW - DAY), GROUP)
    assert list(found.groups) == ["orders"]
    assert found.families == {"report-<uuid>": (2, Gauges(9, 86_400.0, 2.0))}


def test_the_only_group_of_a_family_is_shown_as_it_is() -> None:
    assert list(metrics(named("orders-v2")).groups) == ["orders-v2"]


def test_the_groups_with_the_largest_lag_stay_within_the_limit_and_the_others_are_counted() -> None:
    groups = [named(f"group{letter}", lag=lag) for letter, lag in zip("abcde", (5, None, 9, 9, 1), strict=True)]
    found = metrics(*groups, most=3)
    assert (list(found.groups), found.omitted) == (["groupa", "groupc", "groupd"], 2)
    assert sum(found.verdicts.values()) == 5


def test_only_selected_groups_have_numbers_and_all_are_counted() -> None:
    found = metrics(GROUP, named("payments"), selected=GroupFilter(("pay*",)))
    assert (list(found.groups), found.omitted, found.verdicts) == (["payments"], 0, {"stale": 2})


def test_a_group_with_a_zero_byte_in_its_id_is_left_out() -> None:
    """To Prometheus's own lexer it is the end of the file: one such group, and the scrape fails with all others."""
    found = metrics(GROUP, named("a\0b"), named("f-1\0"), named("f-2\0"))
    assert (list(found.groups), dict(found.families)) == (["orders"], {})


def test_long_names_are_cut_and_stay_different() -> None:
    names = {shown_name("x" * 5_000 + end) for end in ("a", "b")}
    assert len(names) == 2
    assert {len(name) for name in names} == {217}
    assert shown_name("x" * 200) == "x" * 200


def test_without_groups_there_is_no_time() -> None:
    assert metrics() == GroupMetrics()
