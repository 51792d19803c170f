import pyarrow as pa
import pytest

from airflow_kafka_groups.ledger.plan_rows import KeptGroup, KeptGroups, PlannedGroups, Target
from tests.unit.change.plan.plans import group

GROUPS = [group(f"g{number}", lag=None if number == 1 else number, partitions=number) for number in (3, 1, 2)]
KEPT = [KeptGroup(group_id=name, verdict="live", reason="in use") for name in ("b", "a", "g1")]


def test_columns_are_a_sequence_of_groups() -> None:
    planned = PlannedGroups.of(GROUPS)
    assert (len(planned), planned[0], planned[-1], planned[1:]) == (3, GROUPS[0], GROUPS[2], tuple(GROUPS[1:]))
    assert planned == GROUPS
    assert planned == PlannedGroups.of(GROUPS) != PlannedGroups.of(reversed(GROUPS))
    assert PlannedGroups.of([]) == ()
    assert PlannedGroups.of([]) != KeptGroups.of([])
    assert list(planned.take([2, 0])) == [GROUPS[2], GROUPS[0]]
    assert (planned.total("lag"), planned.total("partitions"), PlannedGroups.of([]).total("lag")) == (5, 6, 0)
    assert list(planned.targets()) == [each.target for each in GROUPS]
    assert list(planned.targets())[1] == Target("g1", "classic", "consumer", "a" * 64, GROUPS[1].partitions)
    assert repr(planned) == "<PlannedGroups: 3>"
    with pytest.raises(IndexError):
        planned[3]


def test_kept_groups_are_sorted() -> None:
    assert KeptGroups.of(KEPT).column("group_id") == ["a", "b", "g1"]


@pytest.mark.parametrize("changes", [{"mood": 3}, {"idle_since": "yesterday"}, {"lag": "many"}])
def test_what_no_column_can_have_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, pa.ArrowException)):
        PlannedGroups.of([group("g", **changes)])
