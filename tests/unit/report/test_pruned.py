"""Pruned topics in the report of a clean-up, from real plans, runs and backups in the storage."""

import html
import shlex
from datetime import timedelta
from pathlib import Path

from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.report.facts import PrunedTopic, Pruning, gather_facts, prunings
from airflow_kafka_groups.report.html import render_report
from airflow_kafka_groups.report.sections import pruned_section
from airflow_kafka_groups.report.trend import point_of
from airflow_kafka_groups.storage.file_storage import FILES
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, Ticking
from tests.unit.change import scene
from tests.unit.change.prune_topics.scene import cluster, layout_in, plan, snapshots

OLD, LIVE = TopicPartition("old", 0), TopicPartition("live", 0)


async def prune(admin: FakeAdmin, folder: Path, *, dry_run: bool = False) -> str:
    layout = layout_in(folder)
    made = plan(layout, await snapshots(admin, layout, first=NOW - timedelta(hours=4)))
    now = Ticking(made.created_at)
    await delete_by_plan(admin, layout, made.plan_id, made.digest, scene.request(dry_run, now=now), prunes=True)
    return made.plan_id


def second() -> FakeGroup:
    """Return a group that reads ``live``, too, and has offsets of one partition of ``old``."""
    return FakeGroup({LIVE: 1, OLD: 5}, members=1, subscribed=frozenset({"live"}))


async def test_the_report_shows_what_was_pruned_and_how_it_is_undone(tmp_path: Path) -> None:
    admin, layout = cluster(second=second()), layout_in(tmp_path)
    plan_of_it = await prune(admin, tmp_path)
    made = await scene.planned(admin, layout)
    facts = gather_facts(layout, made, point_of(made, {}))
    assert not [note for note in facts.notes if "pruned" in note]
    ((plan_id, _, topics),) = facts.pruned
    assert (plan_id, topics) == (plan_of_it, [PrunedTopic("old", groups=2, partitions=3)])
    page = html.unescape(render_report(made, facts=facts, now=scene.LATER))
    assert 'Pruned topics <span class="count">1</span>' in page
    command = (
        f"airflow-kafka-groups restore --conn-id CONNECTION --cluster prod --storage-path {tmp_path} --yes {plan_of_it}"
    )
    assert command in page


async def test_dry_runs_other_clusters_and_old_prunings_are_not_shown(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    await prune(admin, tmp_path, dry_run=True)
    assert prunings(layout, CLUSTER_ID, NOW) == []
    other = tmp_path / "second"
    other.mkdir()
    await prune(cluster(), other)
    layout = layout_in(other)
    assert len(prunings(layout, CLUSTER_ID, NOW)) == 1
    assert prunings(layout, "another", NOW) == []
    assert prunings(layout, CLUSTER_ID, NOW + timedelta(days=31)) == []
    assert pruned_section([], "prod", "") == ""


async def test_a_pruning_that_cannot_be_read_is_said_and_does_not_fail_the_report(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan_id = await prune(admin, tmp_path)
    FILES.replace(layout.root / "prune_plans" / f"{plan_id}.json", b"{}")
    made = await scene.planned(admin, layout)
    facts = gather_facts(layout, made, point_of(made, {}))
    assert "Without pruned topics" in [note.partition(":")[0] for note in facts.notes]


def test_the_command_of_each_pruning_is_there_to_be_pasted() -> None:
    """Also of a month of daily ones: none is cut."""
    found = [Pruning(f"202611{day:02}T000000Z-00000000", NOW, [PrunedTopic("old", 1, 1)]) for day in range(1, 31)]
    page = html.unescape(pruned_section(found, "prod", "/mnt/kafka groups/of $HOME"))
    lines = page.partition('<pre tabindex="0">')[2].partition("</pre>")[0].splitlines()
    assert [shlex.split(line)[-1] for line in lines] == [each.plan_id for each in found]
    assert {shlex.split(line)[-3] for line in lines} == {"/mnt/kafka groups/of $HOME"}
