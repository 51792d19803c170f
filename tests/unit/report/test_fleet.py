import json
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.report import fleet
from airflow_kafka_groups.report.fleet import ClusterRun, ClusterState, fleet_totals, render_fleet, write_fleet_report
from airflow_kafka_groups.report.page import HEAD
from airflow_kafka_groups.storage.file_storage import FILES
from tests.fakes.groups import NOW

RUNS = [
    ClusterRun(
        cluster="east",
        conn_id="kafka_east",
        state=ClusterState.DONE,
        plan_id="p1",
        dry_run=False,
        counts={"found": 1_000, "stale": 30, "planned": 20},
        outcomes={"deleted": 19, "kept": 1},
        marked=3,
        notified={"pay": 2},
        report="s3://bucket/groups/east/reports/p1.html",
        warnings=["the cap allows 20", "the cap allows 20"],
    ),
    ClusterRun(cluster="north", conn_id="north", state=ClusterState.SKIPPED, skipped_at="approve", plan_id="p2"),
    ClusterRun(cluster="<b>west", conn_id="west", state=ClusterState.FAILED, failed_at="list_offsets"),
]


def test_the_totals_are_those_of_all_clusters() -> None:
    assert fleet_totals(RUNS) == {
        "clusters": 3,
        "done": 1,
        "skipped": 1,
        "failed": 1,
        "groups": 1_000,
        "stale": 30,
        "planned": 20,
        "outcomes": {"deleted": 19, "kept": 1},
        "failed_clusters": ["<b>west"],
    }
    assert fleet_totals([])["clusters"] == 0


def test_the_page_begins_with_what_failed_and_escapes_everything() -> None:
    page = render_fleet(RUNS, NOW)
    assert page.startswith(HEAD)
    assert page.index(">&lt;b&gt;west<br>") < page.index(">north<br>") < page.index(">east<br>")
    assert "<b>west" not in page
    assert "&lt;b&gt;west failed at list_offsets" in page
    assert page.count("the cap allows 20") == 1
    assert "3 clusters: 1 done, 1 skipped, 1 failed. 1,000 groups, 30 stale, 20 planned: deleted 19, kept 1." in page
    assert '<a href="../../east/reports/p1.html">report</a>' in page


def test_it_is_written_as_page_and_as_json_beside_the_clusters(tmp_path: Path) -> None:
    page = write_fleet_report(tmp_path, "20260301T120000Z-0123abcd", RUNS, NOW)
    assert page == tmp_path / "_fleet" / "reports" / "20260301T120000Z-0123abcd.html"
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["totals"] == fleet_totals(RUNS)
    assert [each["state"] for each in data["clusters"]] == ["done", "skipped", "failed"]


def test_a_fleet_of_many_clusters_is_on_the_page_and_the_page_does_not_say_otherwise() -> None:
    """All 1,024 were there, below the sentence that only the first 200 are."""
    runs = [ClusterRun(cluster=f"c{n:04}", conn_id="c", state=ClusterState.DONE) for n in range(1_024)]
    page = render_fleet(runs, NOW)
    assert ("c0000<br>" in page, "c1023<br>" in page) == (True, True)
    assert "are shown" not in page


@pytest.mark.parametrize("kept", [1, 3])
def test_of_many_roll_ups_the_newest_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Two files of each clean-up of a fleet stayed for good: nothing removed any."""
    monkeypatch.setattr(fleet, "_KEPT", kept)
    (folder := tmp_path / "_fleet/reports").mkdir(parents=True)
    (folder / "notes.json").write_text("{}")
    ids = [f"2026030{day}T120000Z-0123abcd" for day in range(1, 5)]
    for run_id in ids:
        write_fleet_report(tmp_path, run_id, RUNS, NOW)
    left = [f"{run_id}.{kind}" for run_id in ids[-kept:] for kind in ("html", "json")]
    assert sorted(path.name for path in folder.iterdir()) == [*left, "notes.json"]


def test_where_nothing_can_be_removed_the_roll_up_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise StorageError(f"{path} could not be removed")

    monkeypatch.setattr(fleet, "_KEPT", 1)
    monkeypatch.setattr(FILES, "remove", refuse)
    ids = [f"2026030{day}T120000Z-0123abcd" for day in range(1, 4)]
    assert [write_fleet_report(tmp_path, run_id, RUNS, NOW).name for run_id in ids] == [f"{each}.html" for each in ids]
