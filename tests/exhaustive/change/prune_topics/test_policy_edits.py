"""A policy that was edited since the plan can only keep topics."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.ledger.floors import SiteFloors
from tests.unit.change.prune_topics.scene import PRUNE, cluster, layout_in, outcomes, planned, prune

pytestmark = pytest.mark.safety
LONGER = PRUNE.replace("[{", "[{name: longer, match: {groups: x}, action: prune-topics, idle: 2h}, {")
"""Topics are looked at for so long that some are idle for longer than their rule demands."""


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
        (PRUNE.replace("name: prune", "name: another"), "kept:policy"),
        (f"{PRUNE}protect: [app]\n", "kept:policy"),
        (PRUNE.replace("rules: [", "rules: [{name: k, match: {topics: x}, action: keep}, "), "kept:policy"),
    ],
)
@pytest.mark.promise(1)
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


async def test_a_floor_that_was_raised_refuses_the_plan(tmp_path: Path) -> None:
    """As for a plan of groups, however long the topic has been idle: its rule has not asked for so much."""
    admin, layout, path = cluster(), layout_in(tmp_path), tmp_path / "policy.yaml"
    path.write_text(LONGER)
    of = await planned(admin, layout, file=load_policy(path))
    floors = SiteFloors(min_idle_seconds=4_800.0)
    with pytest.raises(PlanError, match=r"min_idle_seconds of 4800 counts in the rule.*make a new one"):
        await outcomes(admin, layout, of, policy=lambda: load_policy(path), floors=floors)
