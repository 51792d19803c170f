"""A notice that one rule demands, and groups of which is known that another rule decides."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.patterns import EVERYTHING
from tests.exhaustive.maintenance.plan.test_notify import DAY, Story, waiting
from tests.fakes.groups import NOW

BY_TOPIC = """\
    version: 1
    defaults: {contact: all@example.com}
    rules:
      - {name: audits, match: {topics: "audit*"}, action: delete, idle: 1d, notice: 2d}
      - {name: rest, action: delete, idle: 1d}
    """
BY_TYPE = BY_TOPIC.replace('topics: "audit*"', "types: consumer")


@pytest.mark.parametrize("policy", [BY_TOPIC, BY_TYPE], ids=["topics", "types"])
async def test_a_group_whose_rule_demands_no_notice_is_deleted(policy: str, tmp_path: Path) -> None:
    """A plan marks it never, so its owner was never notified, and each deletion kept it: ``not_notified``."""
    story = Story(tmp_path, "pay1", policy=policy)
    plan = await story.plan(NOW)
    assert plan.group_ids == ["pay1"]
    story.notify(plan, NOW + timedelta(minutes=5))
    assert await story.delete(plan, NOW + timedelta(minutes=10)) == {"pay1": ("deleted", "safe")}
