"""docs/howto/deletion-went-wrong.md: its DAG undoes a deletion, and its function tells what happened to a group."""

import json
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.change.restore import earlier_tries as in_flight
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from tests.dags.airflow_env import ROOT
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import Planned, Site

CONN_ID = "kafka_groups_default"


def snippet(name: str) -> str:
    page = (ROOT / "docs/howto/deletion-went-wrong.md").read_text()
    found = re.search(rf"<!-- START {name} -->\n```python\n(.*?)```\n<!-- END {name} -->", page, re.DOTALL)
    assert found, f"the page has lost {name}"
    return found[1]


def undo(storage: Path, plan_id: str, groups: list[str] | None, *, dry_run: bool) -> dict[str, Any]:
    """Run the page's DAG with the reader's own plan, groups and storage."""
    code = snippet("undo_deletion")
    for own, shown in ((plan_id, "20261122T081500Z-1a2b3c4d"), (str(storage), "/srv/kafka-groups")):
        assert code.count(shown) == 1
        code = code.replace(shown, own)
    assert code.count('["orders-1"]') == 1
    code = code.replace('["orders-1"]', repr(groups))
    names: dict[str, Any] = {}
    exec(compile(code, "undo_deletion", "exec"), names)
    task = names["dag"].get_task("restore")
    task.render_template_fields({"params": {"dry_run": dry_run}})
    result = task.execute({})
    assert isinstance(result, dict)
    return result


def happened(storage: Path, group_id: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    names: dict[str, Any] = {}
    exec(compile(snippet("what_happened"), "what_happened", "exec"), names)
    capsys.readouterr()
    names["what_happened"](group_id, CONN_ID, str(storage), scene.CLUSTER)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def before(admin: FakeAdmin, backed_up: dict[str, Any]) -> dict[str, Any]:
    """What the groups have committed before they are deleted."""
    return {name: dict(admin.groups[name].offsets) for name in ("a", "b")}


@pytest.mark.safety
@pytest.mark.parametrize("groups", [["a"], None], ids=["one", "all"])
@pytest.mark.promise(2)
def test_the_page_undoes_a_deletion(
    site: Site, backed_up: Planned, before: dict[str, Any], groups: list[str] | None
) -> None:
    deleted = site.apply(backed_up)
    assert (deleted["plan_id"], sorted(site.admin.groups)) == (backed_up["plan_id"], ["live"])
    wanted = groups or ["a", "b"]
    assert undo(site.storage, deleted["plan_id"], groups, dry_run=True)["counts"]["would_change"] == len(wanted)
    assert sorted(site.admin.groups) == ["live"]
    assert undo(site.storage, deleted["plan_id"], groups, dry_run=False)["counts"]["changed"] == len(wanted)
    assert {name: site.admin.groups[name].offsets for name in wanted} == {name: before[name] for name in wanted}
    assert undo(site.storage, deleted["plan_id"], groups, dry_run=False)["counts"]["unchanged"] == len(wanted)
    site.apply(backed_up)
    assert sorted(site.admin.groups) == sorted([*wanted, "live"]), "the task is cleared, and deletes nothing twice"


@pytest.mark.safety
def test_what_was_interrupted_is_undone_and_told(
    site: Site, backed_up: Planned, before: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    real = site.admin.delete_consumer_groups

    async def killed(group_ids: Any, **_: Any) -> Any:
        await real(["a"])
        raise KeyboardInterrupt

    site.patch.setattr(site.admin, "delete_consumer_groups", killed)
    time_passes = SimpleNamespace(now=count(step=30.0).__next__)  # what is on its way is waited for
    site.patch.setattr(in_flight, "clock", time_passes)
    with pytest.raises(KeyboardInterrupt):
        site.apply(backed_up)
    for group_id in ("a", "b"):
        said = happened(site.storage, group_id, capsys)
        assert said[0].startswith("unknown (possibly_deleted)")
        assert "counts as deleted: True" in said[1]
        assert f"plan: {backed_up['plan_id']}" in said[2]
    counts = undo(site.storage, backed_up["plan_id"], None, dry_run=False)["counts"]
    assert (counts["changed"], counts["unchanged"]) == (1, 1)
    assert {name: site.admin.groups[name].offsets for name in before} == before


def test_the_journal_says_why_a_group_was_kept_and_nothing_of_others(
    site: Site, backed_up: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    site.admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 9})
    site.apply(backed_up)
    first, second, _ = happened(site.storage, "a", capsys)
    assert first.startswith("kept (moved)")
    assert "counts as deleted: False" in second
    assert happened(site.storage, "never heard of", capsys) == []


def test_what_the_page_says_that_a_restore_refuses_is_what_it_says(site: Site, backed_up: Planned) -> None:
    site.apply(backed_up)
    site.admin.groups["a"] = FakeGroup({TopicPartition("t", 0): 9})
    site.admin.groups["b"] = FakeGroup(members=1)
    kept = undo(site.storage, backed_up["plan_id"], None, dry_run=False)["kept"]
    assert "used since the backup" in kept["a"]
    assert "member" in kept["b"]


def test_what_deleted_some_offsets_only_is_found_where_the_page_says(
    site: Site, backed_up: Planned, before: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {where.topic for where in before["a"]}
    site.run(DeleteGroupOffsetsOperator, group_ids=["a"], topics=sorted(topics))
    assert happened(site.storage, "a", capsys) == [], "a page that ends here blames the brokers"
    page = (ROOT / "docs/howto/deletion-went-wrong.md").read_text()
    assert "`DeleteGroupOffsetsOperator` deleted is in `changes/<run>-before.json`" in page
    (record,) = (site.folder / "changes").glob("*-before.json")
    (group,) = json.loads(record.read_text())["groups"]
    offsets: dict[str, Any] = {
        of["topic"]: dict(zip(of["partitions"], of["offsets"], strict=True)) for of in group["before"]
    }
    site.run(AlterGroupOffsetsOperator, offsets={"a": offsets}, create=True)
    assert site.admin.groups["a"].positions == {where: commit.offset for where, commit in before["a"].items()}


def test_to_overwrite_all_of_a_backup_sets_back_what_was_never_deleted_and_the_page_warns_of_it(
    site: Site, backed_up: Planned
) -> None:
    site.admin.commit("b", "t", 0, 9)
    site.apply(backed_up)
    assert "b" in site.admin.groups, "kept: it has moved"
    restore: Any = {"plan_id": backed_up["plan_id"], "overwrite": True}
    named = site.run(RestoreGroupOffsetsOperator, group_ids=["a"], **restore)
    assert (named["counts"]["changed"], site.admin.groups["b"].positions[TopicPartition("t", 0)]) == (1, 9)
    site.run(RestoreGroupOffsetsOperator, **restore)
    assert site.admin.groups["b"].positions[TopicPartition("t", 0)] != 9
    page = (ROOT / "docs/howto/deletion-went-wrong.md").read_text()
    (row,) = (line for line in page.splitlines() if "`overwrite=True`" in line)
    assert "Name the group in `group_ids`" in row
