"""A look that found a group gone restarts the idle time of its topics, also if a later look found it in use."""

from datetime import datetime
from pathlib import Path

import pytest

from airflow_kafka_groups.ledger.journal import journal as journals
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.unit.change.prune_topics.scene import HOUR, cluster, kept, layout_in, plan, snapshots

pytestmark = pytest.mark.safety

GONE = GroupOutcome(group_id="app", outcome=Outcome.GONE, code="gone", reason="it does not exist any more")
ALIVE = GroupOutcome(group_id="app", outcome=Outcome.KEPT, code="has_members", reason="it has 2 member(s)")


def record(layout: Layout, at: datetime, outcome: GroupOutcome) -> None:
    """Write a clean-up's run, as its recheck records it."""
    journal = Journal(layout.base, CLUSTER_ID)
    header = {"run_id": f"run-{at:%H%M}", "request_id": f"plan-{at:%H%M}", "dry_run": False}
    run = journal.begin(header, at, after=journal.read())
    run.conclude([outcome], at)
    run.end([outcome], {"counts": {}}, at)


@pytest.mark.parametrize(
    "looks", [[GONE], [GONE, ALIVE], [ALIVE, GONE, ALIVE, ALIVE]], ids=["gone", "then alive", "long"]
)
@pytest.mark.parametrize("checkpoint", [False, True])
async def test_gone_restarts_the_idle_time_of_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[GroupOutcome], checkpoint: bool
) -> None:
    """At 1:20 it is found gone, and somebody makes it again before the snapshot at 2:00, with its old offsets."""
    if checkpoint:
        monkeypatch.setattr(journals, "CHECKPOINT_RUNS", 1)
    admin, layout = cluster(), layout_in(tmp_path)
    now = await snapshots(admin, layout)
    for number, outcome in enumerate(looks):
        record(layout, NOW + HOUR * 4 / 3 + HOUR / 30 * number, outcome)
    found = plan(layout, now)
    assert (found.group_ids, kept(found)) == ([], {"app [old]": "doubt"})
