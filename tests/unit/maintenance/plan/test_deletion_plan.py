from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.maintenance.plan.deletion_plan import (
    DeletionPlan,
    KeptGroup,
    PlannedGroup,
    check_digest,
    load_plan,
    require_applicable,
    save_plan,
)
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.storage import Layout
from tests.fakes.groups import CLUSTER_ID, NOW

ID = "20260301T120000Z-0123abcd"

texts = st.text(max_size=12)
numbers = st.none() | st.integers(0, 2**53)
planned_groups = st.builds(
    PlannedGroup,
    group_id=texts,
    group_type=texts,
    protocol_type=texts,
    state=texts,
    partitions=st.integers(0, 1000),
    lag=numbers,
    idle_since=st.none() | texts,
    idle_seconds=st.none() | st.floats(0, 1e12),
    reason=texts,
    fingerprint=st.text("0123456789abcdef", min_size=64, max_size=64),
)
kept_groups = st.builds(KeptGroup, group_id=texts, verdict=texts, reason=texts)


def plan(**changes: Any) -> DeletionPlan:
    values: dict[str, Any] = {
        "plan_id": ID,
        "cluster": "prod",
        "kafka_cluster_id": CLUSTER_ID,
        "snapshot_id": ID,
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=1),
        "policy": PlanPolicy(),
        "counts": {"found": 2, "planned": 1},
        "warnings": ("look",),
        "groups": (group("dead"),),
        "kept": (KeptGroup(group_id="busy", verdict="live", reason="in use"),),
    }
    return DeletionPlan(**{**values, **changes})


def group(group_id: str, **changes: Any) -> PlannedGroup:
    values: dict[str, Any] = {
        "group_id": group_id,
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": "Empty",
        "partitions": 1,
        "lag": 3,
        "idle_since": NOW.isoformat(),
        "idle_seconds": 1e6,
        "reason": "idle",
        "fingerprint": "a" * 64,
    }
    return PlannedGroup(**{**values, **changes})


@given(
    st.lists(planned_groups, max_size=5, unique_by=lambda item: item.group_id),
    st.lists(kept_groups, max_size=5),
    st.lists(texts, max_size=3),
)
def test_a_plan_reads_back_as_it_was_written(
    groups: list[PlannedGroup], kept: list[KeptGroup], warnings: list[str]
) -> None:
    made = plan(groups=tuple(groups), kept=tuple(kept), warnings=tuple(warnings))
    read = DeletionPlan.from_json(json.loads(json.dumps(made.to_json())))
    assert read == made
    assert read.digest == made.digest


OF_AN_EARLIER_VERSION = """{"format": 1, "plan_id": "20260301T120000Z-0123abcd", "cluster": "prod",
 "kafka_cluster_id": "aBcDeFgHiJkLmNoPqRsTuV", "snapshot_id": "20260301T120000Z-0123abcd",
 "created_at": "2026-03-01T12:00:00+00:00", "expires_at": "2026-03-02T12:00:00+00:00",
 "policy": {"include": ["*"], "exclude": [], "protected": ["__*"], "min_idle_seconds": 604800.0, "min_observations": 2,
  "max_groups": 500, "max_share": 0.5, "max_plan_age_seconds": 86400.0, "allow_hidden_topics": false},
 "counts": {"found": 2, "planned": 1}, "warnings": ["look"],
 "groups": [{"group_id": "dead", "group_type": "classic", "protocol_type": "consumer", "state": "Empty",
             "partitions": 1, "lag": 3,
             "idle_since": "2026-03-01T12:00:00+00:00", "idle_seconds": 1000000.0, "reason": "idle",
             "fingerprint": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}],
 "kept": [{"group_id": "busy", "verdict": "live", "reason": "in use"}],
 "digest": "71021bec2871bc7b247e86e5a11fc694f3d87403f287046c90c4216586bca1f3"}"""
"""A plan without a view of the cluster, as it was written."""


def test_a_plan_of_an_earlier_version_is_still_a_plan() -> None:
    read = DeletionPlan.from_json(json.loads(OF_AN_EARLIER_VERSION))
    assert (read.group_ids, read.view, read.digest) == (["dead"], None, json.loads(OF_AN_EARLIER_VERSION)["digest"])


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    nested = [leaf for key, value in items for leaf in leaves(value, (*path, key))]
    return nested or [path]


@pytest.mark.parametrize("path", leaves(plan().to_json()), ids=str)
def test_any_edit_of_the_file_is_refused(path: tuple[Any, ...], tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    save_plan(layout, plan())
    file = tmp_path / "prod" / "plans" / f"{ID}.json"
    data = json.loads(file.read_text())
    target = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = "0" * 64 if target[path[-1]] != "0" * 64 else "1" * 64
    file.write_text(json.dumps(data))
    with pytest.raises(PlanError):
        load_plan(layout, ID)
    file.write_text(json.dumps(plan().to_json()))
    assert load_plan(layout, ID) == plan()


def test_groups_added_or_removed_by_hand_are_refused() -> None:
    data = plan().to_json()
    for edited in (
        {**data, "groups": []},
        {**data, "groups": data["groups"] * 2},
        {**data, "extra": 1},
        {key: value for key, value in data.items() if key != "digest"},
        {key: value for key, value in data.items() if key != "kept"},
    ):
        with pytest.raises(PlanError, match="changed after it was made"):
            DeletionPlan.from_json(edited)


def test_a_plan_with_a_fitting_digest_still_has_to_be_a_plan() -> None:
    from airflow_kafka_groups.contracts.digest import digest_of

    for broken in ({"format": 1}, {**plan().to_json(), "groups": [{"group_id": "g"}]}, {"format": 1, "policy": {}}):
        content = {key: value for key, value in broken.items() if key != "digest"}
        with pytest.raises(PlanError, match="damaged"):
            DeletionPlan.from_json({**content, "digest": digest_of(content)})


def test_a_plan_names_a_group_once_and_knows_its_offsets() -> None:
    with pytest.raises(PlanError, match="twice"):
        plan(groups=(group("g"), group("g")))
    with pytest.raises(PlanError, match="no fingerprint"):
        plan(groups=(group("g", fingerprint=""),))
    with pytest.raises(PlanError, match="cannot be written"):
        plan(groups=(group("g", idle_seconds=float("nan")),))


def test_plans_are_never_overwritten_and_stay_in_their_cluster(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    save_plan(layout, plan())
    with pytest.raises(PlanError, match="never changed"):
        save_plan(layout, plan())
    with pytest.raises(PlanError, match="not for 'other'"):
        save_plan(Layout(tmp_path, "other"), plan())
    (tmp_path / "other" / "plans").mkdir(parents=True)
    (tmp_path / "other" / "plans" / f"{ID}.json").write_bytes((tmp_path / "prod" / "plans" / f"{ID}.json").read_bytes())
    with pytest.raises(PlanError, match="of cluster 'prod'"):
        load_plan(Layout(tmp_path, "other"), ID)
    with pytest.raises(PlanError, match="missing"):
        load_plan(Layout(tmp_path, "none"), ID)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_cluster_id": "other"}, "check the connection"),
        ({"kafka_cluster_id": None}, "check the connection"),
        ({"kafka_cluster_id": ""}, "check the connection"),
        ({"now": NOW + timedelta(days=1)}, "expired"),
        ({"approved_digest": "b" * 64}, "not the approved one"),
        ({"approved_digest": ""}, "not the approved one"),
    ],
)
def test_a_plan_applies_here_and_now_or_not_at_all(changes: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"kafka_cluster_id": CLUSTER_ID, "now": NOW, "approved_digest": plan().digest}
    require_applicable(plan(), **fitting)
    with pytest.raises(PlanError, match=message):
        require_applicable(plan(), **{**fitting, **changes})


def test_two_clusters_without_a_name_are_not_the_same_cluster() -> None:
    with pytest.raises(PlanError, match="check the connection"):
        require_applicable(plan(kafka_cluster_id=""), kafka_cluster_id="", now=NOW)


@pytest.mark.parametrize("value", ["", "x" * 64, "A" * 64, None, 5])
def test_a_digest_looks_like_one(value: object) -> None:
    assert check_digest("digest", "a" * 64) == "a" * 64
    with pytest.raises(ConfigurationError, match="digest"):
        check_digest("digest", value)
