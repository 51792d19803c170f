"""A policy that was edited since the plan can only keep topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.maintenance.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.models import TopicPartition
from tests.fakes.groups import FakeGroup
from tests.unit.maintenance.prune_topics.scene import PRUNE, cluster, layout_in, outcomes, planned, prune

pytestmark = pytest.mark.safety


@pytest.mark.parametrize(
    ("edited", "fate"),
    [
        (f"# a comment\n{PRUNE}", "deleted:safe"),
        (PRUNE.replace("prune-topics", "keep"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 3h"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, observations: 4"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, notice: 1d"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, approval: always"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, max_groups: 0"), "kept:policy"),
        (f"{PRUNE}protect: [app]\n", "kept:policy"),
        (PRUNE.replace("rules: [", "rules: [{name: k, match: {topics: x}, action: keep}, "), "kept:policy"),
    ],
)
async def test_an_edit_of_the_policy_can_only_keep(tmp_path: Path, edited: str, fate: str) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(edited)

    def read() -> PolicyFile:
        return load_policy(path)

    assert await outcomes(admin, layout, of, policy=read) == {"app [old]": fate}
    with pytest.raises(PlanError, match="read it"):
        await prune(admin, layout, of)


@pytest.mark.parametrize("rule", ["prune", "another"])
async def test_the_cap_of_the_rule_that_decides_by_now_counts(tmp_path: Path, rule: str) -> None:
    """Also where an edit gives the groups to another rule than the plan names."""
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(PRUNE.replace("name: prune", f"name: {rule}").replace("idle: 1h", "idle: 1h, max_groups: 1"))
    found = await outcomes(admin, layout, of, policy=lambda: load_policy(path))
    assert found == {"app [old]": "deleted:safe", "zap [old]": "kept:policy"}
