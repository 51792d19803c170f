"""A field that is missing, or has a value that nobody writes, is named by an error of this package."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.exceptions import JournalError, MaintenanceError
from airflow_kafka_groups.ledger.approval import require_approval, seal_answer, seal_question
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, find_in_plan, load_plan, policy_of_plan
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.records import entries
from tests.unit.change.deletion.steps import cluster, delete
from tests.unit.change.scene import LATER, backed_up, layout_in

TASK = {"dag_id": "d"}
REMOTE = "9999-12-31T23:59:59-23:59"
"""A time to which nothing can be added."""


def _history(layout: Layout, plan: DeletionPlan) -> None:
    history = read_history(layout, plan.kafka_cluster_id)
    history.leases(LATER)


def _plan(layout: Layout, plan: DeletionPlan) -> None:
    load_plan(layout, plan.plan_id)


DAMAGE: list[tuple[str, str, Any, Callable[[Layout, DeletionPlan], object]]] = [
    *(("begun", name, value, _history) for name, value in (
        ("at", None), ("at", REMOTE), ("run_id", None), ("previous", None), ("previous", []),
        ("lease", {"group": "x"}), ("verified", "1"))),
    *(("answer", name, value,
       lambda layout, plan: require_approval(Ledger(layout, plan.kafka_cluster_id), plan, ApprovalTerms()))
      for name, value in (("at", None), ("person", "ann"), ("approved", "true"), ("approved", 1))),
    *(("prod/backups/*.json", "kafka_cluster_id", value, lambda layout, plan: load_backup(layout, plan.plan_id))
      for value in (float("inf"), 10**30, 5)),
    *(("prod/plans/*.json", "expires_at", float("nan"), read)
      for read in (_plan, lambda layout, plan: find_in_plan(layout, plan.plan_id, "a"),
                   lambda layout, plan: policy_of_plan(layout, plan.plan_id))),
    *(("prod/manifests/*.json", name, REMOTE, lambda layout, plan: load_manifest(layout, plan.snapshot_id))
      for name in ("started_at", "observed_at")),
]  # fmt: skip


@pytest.mark.parametrize(("place", "name", "value", "read"), DAMAGE)
async def test_a_damaged_field_is_named(
    place: str, name: str, value: Any, read: Callable[[Layout, DeletionPlan], object], tmp_path: Path
) -> None:
    """A value of ``None``: the field is missing."""
    layout, admin = layout_in(tmp_path), cluster("a")
    plan, _ = await backed_up(admin, layout)
    seal_question(layout, plan, TASK, LATER)
    seal_answer(layout, plan, asked_by=TASK, approved=True, person={"id": "7"}, responded_at=LATER.isoformat(),
                confirmed="1", excluded=None)  # fmt: skip
    for _ in range(2):
        await delete(admin, layout, plan, dry_run=True)
    entries(tmp_path, "ended")[-1].unlink()  # the second run was killed: nothing seals its first entry
    read(layout, plan)
    *_, path = entries(tmp_path, place) or sorted(tmp_path.glob(place))  # noqa: ASYNC240
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, name: value} if value is not None else _without(content, name)))
    if place == "answer":
        with pytest.raises(JournalError, match="is not what it was: the journal was changed"):
            read(layout, plan)
        (folded,) = tmp_path.glob("_journal/*/signs.parquet")  # noqa: ASYNC240
        folded.unlink()  # which knew the entry as it was
    with pytest.raises(MaintenanceError, match=r"damaged|not approved|changed after|does not follow"):
        read(layout, plan)


def _without(content: dict[str, Any], name: str) -> dict[str, Any]:
    del content[name]
    return content
