"""The cluster that most tests of backups are about."""

from pathlib import Path

from airflow_kafka_groups.change.backup.file import BackedUpGroup
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.unit.change.scene import layout_in, planned

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def cluster() -> FakeAdmin:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5), ("t", 1, 6))
    admin.add("b", ("gone", 3, 9))
    admin.groups["b"].offsets[T1] = OffsetAndMetadata(0, 'note "é"', None)
    admin.ends = {T0: (2, 50), T1: (0, 7)}
    return admin


async def ready(folder: Path) -> tuple[FakeAdmin, Layout, DeletionPlan]:
    """Return the cluster, its storage, and a plan that is not backed up."""
    admin, layout = cluster(), layout_in(folder)
    return admin, layout, await planned(admin, layout)


def log_ends_of(group: BackedUpGroup) -> dict[TopicPartition, tuple[int, ...]]:
    """Return (log start, log end) of each partition, -1 for one that is not known."""
    return dict(zip(group.offsets, zip(*group.bounds, strict=True), strict=True))
