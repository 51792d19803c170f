"""A judgement outlives the snapshots that it rests on, and what speaks against it outlives both."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.plan import make_plan as plan_snapshot
from airflow_kafka_groups.ledger.verdicts import Verdicts, load_verdicts
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene
from tests.unit.operators.pruning.test_what_pruning_keeps import MINE, ago, restore, run, snapshot, write

pytestmark = pytest.mark.safety


def judged_since(storage: Path, cluster: str, snapshot_id: str, days: int | None) -> None:
    """Let the judgement of a snapshot rest on those of so many days; ``None``: by a version that did not say."""
    if days is not None:
        summary = storage / cluster / f"summaries/verdicts/{snapshot_id}.json"
        summary.write_text(json.dumps({**json.loads(summary.read_text()), "oldest_observation": ago(days).isoformat()}))


@pytest.mark.parametrize(("days", "kept"), [(30, True), (None, True), (1, False)])
def test_the_record_of_a_restore_outlives_the_judgements_that_rest_on_snapshots_from_before_it(
    admin: FakeAdmin, tmp_path: Path, days: int | None, kept: bool
) -> None:
    """The snapshots from before it went, and it after them: by today's judgement its group was idle for a month."""
    judged_since(tmp_path, scene.CLUSTER, scene.judged_once(admin, tmp_path, ["a"], ["live"]), days)
    snapshot(tmp_path, 30)
    record, _ = restore(tmp_path, 5, "a"), restore(tmp_path, 0)
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == 0
    assert len(run(tmp_path, snapshot=3, change=3).removed["snapshot"]) == 1
    assert scene.plan(tmp_path, max_share=1)["counts"]["planned"] == (0 if kept else 1)
    assert record.exists() is kept


def test_a_plan_heeds_the_record_whose_judgement_is_taken_back_after_the_plan_has_read_it(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job judges the same snapshot again, and deletes its summary first: a pruning then sees no judgement."""
    judged = scene.judged_once(admin, tmp_path, ["a"], ["live"])
    judged_since(tmp_path, scene.CLUSTER, judged, 30)
    record, _ = restore(tmp_path, 5, "a"), restore(tmp_path, 0)

    def load(*of: Any) -> Verdicts:
        verdicts = load_verdicts(*of)
        (tmp_path / scene.CLUSTER / f"summaries/verdicts/{judged}.json").unlink()
        assert len(run(tmp_path, snapshot=3, change=3).removed["change"]) == 1
        return verdicts

    monkeypatch.setattr(plan_snapshot, "load_verdicts", load)
    assert (scene.plan(tmp_path, max_share=1)["counts"]["planned"], record.exists()) == (0, False)


@pytest.mark.parametrize(("of", "kept"), [(MINE, True), ("another", False)])
def test_so_it_does_where_another_connection_s_folder_has_the_judgement(
    admin: FakeAdmin, tmp_path: Path, of: str, kept: bool
) -> None:
    judged_since(tmp_path, scene.CLUSTER, scene.judged_once(admin, tmp_path, ["a"], ["live"]), 30)
    (tmp_path / scene.CLUSTER).rename(tmp_path / "judging")
    record, _ = restore(tmp_path, 5, "a"), restore(tmp_path, 0)
    record.write_text(json.dumps({**json.loads(record.read_text()), "kafka_cluster_id": of}))
    assert len(run(tmp_path, snapshot=3, change=3).removed["change"]) == (0 if kept else 1)
    assert record.exists() is kept


@pytest.mark.parametrize(("of", "kept"), [(MINE, True), ("another", False)])
def test_so_it_does_where_that_connection_leads_to_a_standby_for_now(
    admin: FakeAdmin, tmp_path: Path, of: str, kept: bool
) -> None:
    """The newest snapshot beside the judgement is of the standby; a plan by it is carried out when all is back."""
    judged = scene.judged_once(admin, tmp_path, ["a"], ["live"])
    judged_since(tmp_path, scene.CLUSTER, judged, 30)
    (tmp_path / scene.CLUSTER).rename(tmp_path / "judging")
    content = json.loads((tmp_path / f"judging/manifests/{judged}.json").read_text())
    newer = {**content, "snapshot_id": f"{judged[:-8]}ffffffff", "kafka_cluster_id": "standby"}
    write(tmp_path, f"manifests/{newer['snapshot_id']}.json", newer, "judging")
    record, _ = restore(tmp_path, 5, "a"), restore(tmp_path, 0)
    record.write_text(json.dumps({**json.loads(record.read_text()), "kafka_cluster_id": of}))
    assert len(run(tmp_path, snapshot=3, change=3).removed["change"]) == (0 if kept else 1)
    assert record.exists() is kept
