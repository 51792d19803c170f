from pathlib import Path
from typing import Any

import pytest

from tests.fakes.admin import FakeAdmin
from tests.fakes.lease import FakeLease
from tests.unit.operators import scene
from tests.unit.operators.hitl import Airflow


@pytest.fixture
def leases() -> FakeLease:
    """Return the lease of that cluster."""
    return FakeLease()


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch, leases: FakeLease) -> FakeAdmin:
    """Return a cluster in memory behind the connection ``kafka_groups_default``."""
    from airflow_kafka_groups.change import lease
    from airflow_kafka_groups.kafka import maintenance_client

    fake = FakeAdmin(log=(0, 10))
    fake.ids = {"t": "id-of-t", "u": "id-of-u"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
    monkeypatch.setattr(maintenance_client, "MaintenanceClient", lambda config, settings: fake)
    monkeypatch.setattr(lease, "deletion_lease", lambda config, group_id, **asked: leases.take(**asked))
    return fake


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """Let a test answer what tasks ask."""
    return Airflow(monkeypatch)


@pytest.fixture
def site(admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> scene.Site:
    """Return that cluster with a storage."""
    return scene.Site(admin, tmp_path, monkeypatch)


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    """Return a plan to delete the groups a and b."""
    return scene.planned_once(admin, tmp_path, ["a", "b"], ["live"])


@pytest.fixture
def backed_up(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    """Return such a plan with its backup."""
    return scene.planned_once(admin, tmp_path, ["a", "b"], ["live"], backed_up=True)
