import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError, PolicyError
from airflow_kafka_groups.operators.plan import CheckPolicyOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

POLICY = """\
    version: 1
    limits: {max_gap: 1d, max_share: 1}
    rules:
      - {name: kept, match: {groups: "k*"}, action: keep, idle: 1h}
      - {name: slow, match: {groups: "s*"}, action: delete, idle: 900d}
      - {name: rest, action: delete, idle: 2h, observations: 3}
    """


def check(**arguments: Any) -> dict[str, Any]:
    operator = CheckPolicyOperator(task_id="policy", **arguments)
    result: dict[str, Any] = operator.execute({})
    assert json.loads(json.dumps(result)) == result
    return result


def test_the_job_is_asked_for_the_least_of_the_rules_that_delete(tmp_path: Path) -> None:
    found = check(policy_file=str(write_policy(tmp_path, POLICY)), min_idle_seconds="604800", max_gap_seconds="172800")
    assert (found["min_idle_seconds"], found["min_observations"], found["max_gap_seconds"]) == (7_200.0, 2, 86_400.0)
    assert (found["rules"], len(found["digest"])) == (["kept", "slow", "rest", "default"], 64)


@pytest.mark.parametrize("nothing", ["", None])
def test_without_a_file_the_arguments_count(nothing: str | None) -> None:
    found = check(policy_file=nothing, min_idle_seconds="60", min_observations="4", max_gap_seconds="9")
    assert (found["min_idle_seconds"], found["min_observations"], found["max_gap_seconds"]) == (60.0, 4, 9.0)
    assert (found["policy_file"], found["digest"], found["rules"]) == (None, None, [])


def test_a_file_that_is_wrong_fails_the_first_task(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy.yaml, line 2: rule is not a setting; did you mean 'rules'"):
        check(policy_file=str(write_policy(tmp_path, "version: 1\nrule: []\n")))
    with pytest.raises(PolicyError, match="is missing"):
        check(policy_file=str(tmp_path / "elsewhere.yaml"))
    with pytest.raises(ConfigurationError, match="absolute path"):
        check(policy_file="policy.yaml")


@pytest.fixture
def judged(admin: FakeAdmin, tmp_path: Path) -> str:
    return scene.judged_once(admin, tmp_path, ["a", "k1", "s1"], ["live"])


def planned(folder: Path, snapshot_id: str, text: str = POLICY, **arguments: Any) -> dict[str, Any]:
    path = write_policy(folder, text)
    return scene.plan(folder, snapshot_id=snapshot_id, policy_file=path.as_uri(), **arguments)


def test_a_plan_by_a_file(judged: str, tmp_path: Path) -> None:
    summary = planned(tmp_path, judged, POLICY.replace("max_gap: 1d, ", ""))
    assert [group["group_id"] for group in summary["first_groups"]] == ["a"]
    assert {name: summary["counts"][name] for name in ("by_rule", "waiting", "planned")} == {
        "by_rule": 1, "waiting": 1, "planned": 1,
    }  # fmt: skip
    header = json.loads(Path(summary["plan_path"]).read_text())
    assert header["policy"]["file"]["path"] == (tmp_path / "policy.yaml").as_uri(), "as it was given"


def test_the_limits_of_the_file_count(judged: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="judged with --max-gap-seconds 172800; the policy's max_gap_seconds is 86400"):
        planned(tmp_path, judged)


def test_without_a_file_that_can_be_read_there_is_no_plan(judged: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        scene.plan(tmp_path, snapshot_id=judged, policy_file=str(tmp_path / "none.yaml"))
    with pytest.raises(PolicyError):
        planned(tmp_path, judged, "version: 1\nrules: []\n")
    assert not (tmp_path / scene.CLUSTER / "plans").exists()


def test_a_notice_longer_than_the_brokers_retention_makes_no_plan(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup()}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a"})
    manifest = tmp_path / scene.CLUSTER / "manifests" / f"{snapshot_id}.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "offsets_retention_minutes": 1_440}))
    text = "version: 1\ndefaults: {contact: x}\nrules: [{name: r, action: delete, idle: 2h, notice: 1d}]\n"
    with pytest.raises(PlanError, match=r"offsets\.retention\.minutes"):
        planned(tmp_path, snapshot_id, text)
    warnings = planned(tmp_path, snapshot_id, text.replace("notice: 1d", "notice: 23h"))["warnings"]
    assert any("rule 'r' waits for" in warning for warning in warnings)
