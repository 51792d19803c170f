"""A drill of a cluster with groups that lag behind the retention of their topics, as stale groups do."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators.test_drill import back_up, rehearse

OLD0, OLD1, NEW = TopicPartition("old", 0), TopicPartition("old", 1), TopicPartition("new", 0)


def test_a_group_of_which_nothing_can_be_restored_is_no_failure(admin: FakeAdmin, tmp_path: Path) -> None:
    """One group behind its topic's retention failed the drill of each week; one offset less, and it passed."""
    admin.groups = {"behind": FakeGroup({OLD0: 5, OLD1: 5}), "fine": FakeGroup({NEW: 7})}
    admin.ends = {OLD0: (100, 200), OLD1: (100, 200)}
    backup = back_up(tmp_path)
    found = rehearse(tmp_path, backup["plan_id"])
    assert (found["restored"], found["partitions"], found["failed"]) == (1, 1, {})
    assert list(found["skipped"]) == ["behind: old[0]", "behind: old[1]"]
    assert len(admin.deleted) == 1, "its own scratch group"


def test_a_drill_that_restores_nothing_proves_nothing(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"behind": FakeGroup({OLD0: 5})}
    admin.ends = {OLD0: (100, 200)}
    backup = back_up(tmp_path)
    with pytest.raises(MaintenanceError, match="cannot be restored"):
        rehearse(tmp_path, backup["plan_id"])
