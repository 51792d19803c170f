from tests.dags.airflow_env import prepare_airflow

prepare_airflow()  # before any test module imports airflow

import pytest  # noqa: E402

from tests.unit.operators.fake_admin import FakeAdmin  # noqa: E402
from tests.unit.operators.fake_lease import FakeLease  # noqa: E402


@pytest.fixture
def leases() -> FakeLease:
    """Give the lease of that cluster."""
    return FakeLease()


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch, leases: FakeLease) -> FakeAdmin:
    """Give a cluster in memory behind the connection ``kafka_groups_default``."""
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

    fake = FakeAdmin()
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
    monkeypatch.setattr(KafkaGroupsHook, "get_conn", lambda self: self.settings and fake)
    monkeypatch.setattr(KafkaGroupsHook, "lease", lambda self, **asked: leases.take(**asked))
    return fake
