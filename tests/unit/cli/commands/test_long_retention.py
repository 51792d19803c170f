"""Brokers that keep offsets for ever: ``offsets.retention.minutes=2147483647``, which is 4,083 years."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.kafka.cluster_admin.client import OffsetsRetention
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene

MOST = 2**31 - 1


@pytest.fixture
def forever(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def retention() -> OffsetsRetention:
        return OffsetsRetention(by_broker={1: MOST}, defaults=frozenset(), errors={})

    monkeypatch.setattr(admin, "offsets_retention", retention)


@pytest.mark.parametrize("yes", [(), ("--yes",)])
@pytest.mark.usefixtures("forever", "planned")
def test_keep_alive(stored: Cli, yes: tuple[str, ...]) -> None:
    _, found, said = stored("keep-alive", "a", "--observe", "0", *yes)
    assert found is not None, said


@pytest.mark.usefixtures("forever")
def test_clean_up(admin: FakeAdmin, stored: Cli, tmp_path: Path) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}
    code, found, said = stored("snapshot")
    assert code == 0, said
    scene.judge(tmp_path, found["snapshot_id"], ["a", "b"])
    code, plan, said = stored("plan", "--max-share", "1")
    assert code == 0, said
    for words in (("metrics",), ("prune-topics",), ("explain", "a")):
        code, found, said = stored(*words)
        assert code in (0, 3), (words, said)
        assert found is not None, (words, said)
    stored("backup", "--plan-id", plan["plan_id"], "--digest", plan["digest"])
    code, found, said = stored("apply", plan["plan_id"], "--digest", plan["digest"], "--yes")
    assert code == 0, said
