"""The operator that keeps groups alive: its arguments, its result, and when it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.keep_alive import KeepOffsetsAliveOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene

T0 = TopicPartition("t", 0)


def keep(storage: Path, **arguments: Any) -> dict[str, Any]:
    arguments = {"storage_path": str(storage), "cluster": scene.CLUSTER, "observe_seconds": 0, **arguments}
    found = KeepOffsetsAliveOperator(task_id="t", **arguments).execute({})
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.fixture(autouse=True)
def sleeping(admin: FakeAdmin) -> None:
    admin.log = (0, 10)
    admin.groups = {
        "simple": FakeGroup({T0: 5}, protocol_type=""),
        "classic": FakeGroup({T0: 5}),
        "live": FakeGroup({T0: 5}, members=1),
    }


def test_groups_are_kept_alive_and_the_others_named(admin: FakeAdmin, tmp_path: Path) -> None:
    found = keep(tmp_path, include=["*"], allow_membership=True, interval_seconds="86400")
    assert (found["counts"]["kept_alive"], found["counts"]["left_alone"], found["partitions"]) == (2, 1, 2)
    assert "in use" in found["left_alone"]["live"]
    assert sorted(admin.asked("alter")) == ["classic", "simple"]
    assert (admin.joined, found["margin_seconds"], found["not_kept"]) == ({"classic": ["t"]}, 864_000.0, {})
    assert Path(found["result_path"]).name.endswith("-result.json")
    again = keep(tmp_path, include=["*"])
    assert (again["counts"]["not_due"], len(admin.asked("alter"))) == (2, 2)
    assert [group["group_id"] for group in json.loads(Path(again["result_path"]).read_text())["groups"]] == ["live"]


def test_the_task_fails_for_a_group_that_will_be_forgotten_after_the_others_were_kept(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    with pytest.raises(GroupsFailedError, match=r"allow_membership"):
        keep(tmp_path, group_ids='["classic", "simple"]')
    assert admin.asked("alter") == ["simple"]
    with pytest.raises(GroupsFailedError, match=r"forgotten"):
        keep(tmp_path, group_ids=["gone"])


def test_patterns_that_match_nothing_keep_nothing_alive_and_the_log_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sum(keep(tmp_path, include=["simpel", "re:clasic.*"])["counts"].values()) == 0
    assert "No group matches ('simpel', 're:clasic.*')" in capsys.readouterr().out


def test_a_read_only_connection_keeps_nothing_alive(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = '{"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"%s": %s}}'
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", fields % ("read_only", "true"))
    with pytest.raises(ConfigurationError, match="read-only"):
        keep(tmp_path, group_ids=["simple"])
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", fields % ("protected_groups", '["simple"]'))
    assert "protects" in keep(tmp_path, group_ids=["simple"])["left_alone"]["simple"]
    assert admin.asked("alter") == []
