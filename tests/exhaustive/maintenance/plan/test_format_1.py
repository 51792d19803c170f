"""Plans of the first format, and of its earliest version, are read still."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.contracts.digest import digest_of
from airflow_kafka_groups.contracts.evidence import recorded_sentence
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.maintenance.plan.deletion_plan import (
    DeletionPlan,
    find_in_plan,
    load_plan,
    save_plan,
)
from airflow_kafka_groups.maintenance.plan.plan_rows import KeptGroup
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.storage import Layout
from tests.exhaustive.maintenance.plan.test_deletion_plan import leaves
from tests.fakes.groups import NOW
from tests.unit.maintenance.plan.plans import ID, group, plan

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
    assert (read.evidence, recorded_sentence(read.evidence)) == (None, "evidence that was not recorded")
    assert (read.policy.max_gap_seconds, read.policy.require_commit_log) == (0.0, False)
    assert read.policy.to_json() == json.loads(OF_AN_EARLIER_VERSION)["policy"]


OLD = (
    b'{"format": 1, "plan_id": "20260301T120000Z-0123abcd", "cluster": "prod", "kafka_cluster_id": '
    b'"aBcDeFgHiJkLmNoPqRsTuV", "snapshot_id": "20260301T120000Z-0123abcd", "created_at": '
    b'"2026-03-01T12:00:00+00:00", "expires_at": "2026-03-02T12:00:00+00:00", "policy": {"include": ["*"], '
    b'"exclude": [], "protected": ["__*", "_confluent*", "_schemas*", "schema-registry*", "connect-*", "mm2-*", '
    b'"mirrormaker*", "mirror-maker*", "_kafka*", "_redpanda*", "redpanda*", "amazon.msk.*", "strimzi*", '
    b'"cruise-control*", "CruiseControl*"], "min_idle_seconds": 604800.0, "min_observations": 2, "max_groups": 500, '
    b'"max_share": 0.5, "max_plan_age_seconds": 86400.0, "allow_hidden_topics": false}, "counts": {"found": 2, '
    b'"planned": 1}, "warnings": ["look"], "groups": [{"group_id": "dead", "group_type": "classic", '
    b'"protocol_type": "consumer", "state": "Empty", "partitions": 1, "lag": 3, "idle_since": '
    b'"2026-03-01T12:00:00+00:00", "idle_seconds": 1000000.0, "reason": "idle", "fingerprint": '
    b'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "forecast": {"lag_unknown": 0, "lost": 3, '
    b'"lag_trend": -2.5, "lag_trend_since": "2026-03-01T12:00:00+00:00"}}, {"group_id": "caf\\u00e9", "group_type": '
    b'"classic", "protocol_type": "consumer", "state": "Empty", "partitions": 1, "lag": null, "idle_since": null, '
    b'"idle_seconds": null, "reason": "idle", "fingerprint": '
    b'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}], "kept": [{"group_id": "busy", "verdict": '
    b'"live", "reason": "in use"}], "digest": "837ce3f6db7d7342aa522363d46b5f573c53c15b327a659deaaefad68985b9df"}'
)
"""A plan as the versions before the header and the body wrote it."""


def old_plan(tmp_path: Path, content: bytes = OLD) -> Layout:
    file = tmp_path / "prod" / "plans" / f"{ID}.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return Layout(tmp_path, "prod")


def test_a_plan_of_the_first_format_is_read_still(tmp_path: Path) -> None:
    layout = old_plan(tmp_path)
    read = load_plan(layout, ID)
    dead = group("dead", forecast={"lag_unknown": 0, "lost": 3, "lag_trend": -2.5, "lag_trend_since": NOW.isoformat()})
    assert list(read.groups) == [dead, group("café", lag=None, idle_since=None, idle_seconds=None)]
    assert list(read.kept) == [KeptGroup(group_id="busy", verdict="live", reason="in use")]
    assert read.digest == "837ce3f6db7d7342aa522363d46b5f573c53c15b327a659deaaefad68985b9df"
    assert (read.expires_at, read.policy, dict(read.counts)) == (NOW + timedelta(days=1), PlanPolicy(), plan().counts)
    assert find_in_plan(layout, ID, "dead") == dead
    assert find_in_plan(layout, ID, "busy") == read.kept[0]
    with pytest.raises(PlanError, match="never changed"):
        save_plan(layout, plan())


@pytest.mark.parametrize("path", leaves(json.loads(OLD)), ids=str)
def test_any_edit_of_a_plan_of_the_first_format_is_refused(path: tuple[Any, ...], tmp_path: Path) -> None:
    data = json.loads(OLD)
    target = data
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = "0" * 64
    with pytest.raises(PlanError):
        load_plan(old_plan(tmp_path, json.dumps(data).encode()), ID)


def test_groups_added_or_removed_by_hand_are_refused() -> None:
    data = json.loads(OLD)
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
    for broken in ({"format": 1}, {**json.loads(OLD), "groups": [{"group_id": "g"}]}, {"format": 1, "policy": {}}):
        content = {key: value for key, value in broken.items() if key != "digest"}
        with pytest.raises(PlanError, match="damaged"):
            DeletionPlan.from_json({**content, "digest": digest_of(content)})
