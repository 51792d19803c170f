"""Which topics of a partial backup were pruned: those that a run of its plan deleted or may have deleted."""

from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.change.restore.from_backup import pruned_names
from airflow_kafka_groups.exceptions import OutcomeUnknownError
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, broker_error
from tests.unit.change.prune_topics.scene import cluster, layout_in, planned, prune

pytestmark = pytest.mark.safety


async def test_what_was_deleted_or_may_have_been_counts_and_what_was_refused_does_not(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    for group_id in ("lost", "refused"):
        admin.groups[group_id] = cluster().groups["app"]
    of = await planned(admin, layout)
    admin.forget_errors = {"lost": OutcomeUnknownError("lost"), "refused": broker_error("GROUP_AUTHORIZATION_FAILED")}
    await prune(admin, layout, of)
    await prune(admin, layout, of, dry_run=True)
    assert pruned_names(layout, load_backup(layout, of.plan_id)) == {"app [old]", "lost [old]"}


async def test_without_a_journal_that_can_be_read_it_is_not_known(tmp_path: Path) -> None:
    admin: FakeAdmin = cluster()
    layout = layout_in(tmp_path)
    of = await planned(admin, layout)
    await prune(admin, layout, of)
    backup = load_backup(layout, of.plan_id)
    assert pruned_names(layout, backup) == {"app [old]"}
    (entry,) = (tmp_path / "_journal" / CLUSTER_ID).glob("*.json")
    content = entry.read_bytes()
    entry.write_bytes(b"damaged")
    assert pruned_names(layout, backup) is None
    entry.write_bytes(content.replace(of.plan_id.encode(), b"20200101T000000Z-00000000"))
    assert pruned_names(layout, backup) is None, "no run of the plan"
