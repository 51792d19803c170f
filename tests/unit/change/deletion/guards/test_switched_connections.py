"""A connection leads to the cluster by now, and its folder is another cluster's by its newest snapshot."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.unit.change import scene
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.scene import LATER, backed_up, layout_in

pytestmark = pytest.mark.safety

Step = Callable[[FakeAdmin, Layout, DeletionPlan, str], Awaitable[object]]


async def kept_alive(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    request = KeepAliveRequest(group_ids=(group_id,), observe_seconds=0)
    return await keep_alive(admin, switched, request, protects=lambda _: False, dry_run=False)


async def restored(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    """Restore what is there still, as a person does who wants to be sure."""
    return await scene.restored(admin, switched, plan.plan_id, group_id, of=Layout(switched.base, plan.cluster))


async def shown_in_use(admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str) -> object:
    admin.groups[group_id] = FakeGroup(members=1)
    taken = await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=2)))
    admin.groups[group_id] = FakeGroup()
    return taken


async def shown_in_use_when_the_id_is_known(
    admin: FakeAdmin, switched: Layout, plan: DeletionPlan, group_id: str
) -> object:
    """Brokers that start may not know their cluster's id yet."""
    admin.cluster = None
    await take_snapshot(admin, switched, now=Ticking(LATER + timedelta(hours=1)))
    admin.cluster = CLUSTER_ID
    return await shown_in_use(admin, switched, plan, group_id)


@pytest.mark.parametrize(
    ("step", "fate"),
    [
        (kept_alive, "kept:excluded"),
        (restored, "kept:excluded"),
        (shown_in_use, "kept:alive_before"),
        (shown_in_use_when_the_id_is_known, "kept:alive_before"),
    ],
)
async def test_what_it_writes_during_a_deletion_is_heeded(
    step: Step, fate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other clusters' folders are looked into once, when the deletion begins."""
    admin, layout, switched = (
        FakeAdmin({"a": FakeGroup(), "b": FakeGroup()}),
        layout_in(tmp_path),
        Layout(tmp_path, "s"),
    )
    plan, _ = await backed_up(admin, layout)
    admin.cluster = "another"
    await take_snapshot(admin, switched, now=Ticking(NOW))
    admin.cluster = CLUSTER_ID
    first, second = plan.group_ids
    real = admin.delete_consumer_groups

    async def meanwhile(group_ids: Any, **how: Any) -> Any:
        deleted = await real(group_ids, **how)
        await step(admin, switched, plan, second)
        return deleted

    monkeypatch.setattr(admin, "delete_consumer_groups", meanwhile)
    report = await delete(admin, layout, plan, now=Ticking(LATER + timedelta(hours=3)), chunk_size=1)
    assert fates(report) == {first: "deleted:safe", second: fate}
