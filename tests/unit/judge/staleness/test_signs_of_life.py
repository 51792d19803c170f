"""What an incomplete snapshot shows ends an idle time; what it lacks, and how often it was taken, means nothing."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from tests.histories.judged import judge
from tests.histories.judged import verdicts as written
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, expect, hour, seen, snapshot_id, verdicts

MEMBER: dict[str, Any] = {"state": "Stable", "members": 1}
SIGNS: dict[str, dict[str, Any]] = {
    "member": MEMBER,
    "member-unread": {**MEMBER, "error": "offsets not read"},
    "state": {"state": "PreparingRebalance", "members": 0},
    "state-not-known": {"state": "Unknown", "members": None},
    "moved": {"offsets": {("t", 0): 11}},
    "went-back": {"offsets": {("t", 0): 9}},
    "metadata": {"offsets": {("t", 0): (10, None, "m")}},
    "other-type": {"group_type": "consumer"},
    "other-protocol": {"protocol_type": ""},
}
NO_SIGNS: dict[str, dict[str, Any]] = {
    "idle": {},
    "unread": {"error": "COORDINATOR_NOT_AVAILABLE", "offsets": {}},
    "unread-state": {"error": "COORDINATOR_NOT_AVAILABLE", "offsets": {}, "state": "Unknown", "members": None},
}
ABSENT = "absent"


@pytest.mark.promise(1)
def test_each_sign_of_life_ends_the_idle_time_and_nothing_else_does() -> None:
    groups = [*SIGNS, *NO_SIGNS, ABSENT]
    history = [seen(number, group=group) for number in range(4) for group in groups]
    history += [seen(1.5, group=group, **shown) for group, shown in {**SIGNS, **NO_SIGNS}.items()]
    history.append(seen(1.5, group="only-here"))
    judged = verdicts(history, incomplete=[1.5])
    expect(
        judged,
        *(
            {
                "group_id": group,
                "first_seen_at": hour(0),
                "idle_since": hour(2) if group in SIGNS else hour(0),
                "idle_seconds": HOUR if group in SIGNS else 3 * HOUR,
                "observations": 2 if group in SIGNS else 4,
                "verdict": "settling" if group in SIGNS else "stale",
            }
            for group in sorted(groups)
        ),
    )


def test_a_sign_of_life_that_came_after_a_complete_observation_counts_whichever_snapshot_began_first() -> None:
    """A long snapshot with an id before that of hour 1 saw the group after the snapshot of hour 1 did."""
    history = [seen(number) for number in range(4)]
    history.append(seen(0.5, at=hour(1) + timedelta(seconds=5), **MEMBER))
    expect(verdicts(history, incomplete=[0.5]), {"idle_since": hour(2), "observations": 2, "verdict": "settling"})


EVERY: dict[str, Any] = {"include": ["*"], "exclude": []}
FEWER: dict[str, dict[str, Any]] = {
    "named": {**EVERY, "group_ids": ["used"]},  # as offsets_to_spark takes one
    "included": {**EVERY, "include": ["u*"]},
    "excluded": {**EVERY, "exclude": ["idle"]},
}


@pytest.mark.parametrize("scope", FEWER.values(), ids=FEWER)
def test_a_snapshot_of_some_groups_ends_the_idle_time_of_no_other_group(tmp_path: Path, scope: dict[str, Any]) -> None:
    for number in (0, 1, 3):
        write_snapshot(tmp_path, number, [*seen(number, group="idle"), *seen(number, group="used")], scope=EVERY)
    write_snapshot(tmp_path, 2, seen(2, group="used", **MEMBER), scope=scope)
    summary = judge(tmp_path)
    idle, used = written(tmp_path, 3)
    facts = ("group_id", "verdict", "idle_seconds", "observations")
    assert [idle[name] for name in facts] == ["idle", "stale", 3 * HOUR, 3]
    assert [used[name] for name in facts] == ["used", "settling", 0, 1]
    why = "looked for some groups only: only signs of life in it count"
    assert summary["skipped"] == [{"name": snapshot_id(2), "why": why}]


def test_a_snapshot_of_named_groups_is_judged_only_if_it_is_asked_for(tmp_path: Path) -> None:
    for number in (0, 2):
        write_snapshot(tmp_path, number, [*seen(number, group="idle"), *seen(number, group="used")], scope=EVERY)
    for number in (3, 4):
        write_snapshot(tmp_path, number, seen(number, group="used"), scope=FEWER["named"])
    found = judge(tmp_path)
    assert (found["snapshot_id"], found["groups"]) == (snapshot_id(2), 2)
    assert [(skipped["name"], skipped["why"]) for skipped in found["skipped"]] == [
        (snapshot_id(number), "looked for some groups only") for number in (4, 3)
    ]
    found = judge(tmp_path, "--snapshot-id", snapshot_id(4))
    assert (found["snapshot_id"], found["groups"]) == (snapshot_id(4), 1)
    for number in (0, 2):
        (tmp_path / CLUSTER / "manifests" / f"{snapshot_id(number)}.json").unlink()
    assert judge(tmp_path)["snapshot_id"] == snapshot_id(4), "there is no other"


def test_a_snapshot_by_other_patterns_between_those_of_the_site_ends_no_idle_time(tmp_path: Path) -> None:
    """As by ``snapshot --include``, where all others exclude some groups."""
    own: dict[str, Any] = {**EVERY, "exclude": ["internal*"]}
    for number in (0, 1, 3):
        write_snapshot(tmp_path, number, [*seen(number, group="idle"), *seen(number, group="used")], scope=own)
    write_snapshot(tmp_path, 2, seen(2, group="used", **MEMBER), scope=FEWER["included"])
    summary = judge(tmp_path)
    assert [(row["group_id"], row["verdict"], row["observations"]) for row in written(tmp_path, 3)] == [
        ("idle", "stale", 3),
        ("used", "settling", 1),
    ]
    why = "looked for some groups only: only signs of life in it count"
    assert summary["skipped"] == [{"name": snapshot_id(2), "why": why}]


def test_the_days_of_a_history_count_from_the_judged_snapshot(tmp_path: Path) -> None:
    """Not from a newer one of named groups, which would leave out the one to judge and be judged itself."""
    for number in (0, 1, 23):
        write_snapshot(tmp_path, number, [*seen(number, group="idle"), *seen(number, group="used")], scope=EVERY)
    write_snapshot(tmp_path, 48, seen(48, group="used"), scope=FEWER["named"])
    found = judge(tmp_path, "--max-days", "1")
    assert (found["snapshot_id"], found["groups"], found["snapshots_used"]) == (snapshot_id(23), 2, 3)
    assert found["skipped"] == [{"name": snapshot_id(48), "why": "looked for some groups only"}]


def test_snapshots_that_name_all_groups_of_the_judged_one_count(tmp_path: Path) -> None:
    """As of a site that names its groups in another order, and fewer of them by now."""
    for number, names in enumerate((["idle", "other"], ["other", "left", "idle"], ["other"], ["other", "idle"])):
        rows = [row for name in sorted(names) for row in seen(number, group=name)]
        write_snapshot(tmp_path, number, rows, scope={**EVERY, "group_ids": names})
    judge(tmp_path)
    assert [(row["group_id"], row["observations"]) for row in written(tmp_path, 3)] == [("idle", 3), ("other", 3)]


def test_snapshots_of_other_patterns_do_not_count(tmp_path: Path) -> None:
    """Those of all groups do: they looked for these, too."""
    before, after = {**EVERY, "exclude": ["a"]}, {**EVERY, "exclude": ["a", "b"]}
    for number, scope in enumerate((EVERY, before, after)):
        write_snapshot(tmp_path, number, seen(number, group="idle"), scope=scope)
    judge(tmp_path)
    assert [row["observations"] for row in written(tmp_path, 2)] == [2]


def write_hours(base: Path, *numbers: float) -> None:
    for number in numbers:
        write_snapshot(base, number, [*seen(number, group="idle"), *seen(number, group="used")])


def test_an_incomplete_snapshot_is_reduced_as_a_complete_one(tmp_path: Path) -> None:
    write_hours(tmp_path, 0, 1, 2)
    assert judge(tmp_path)["verdicts"]["stale"] == 2
    write_snapshot(tmp_path, 2.5, seen(2.5, group="used", **MEMBER), complete=False, missing_brokers={"2": "down"})
    write_hours(tmp_path, 3)
    added = judge(tmp_path)
    assert (added["snapshots_reduced"], added["snapshots_used"], added["verdicts"]["stale"]) == (2, 4, 1)
    assert added["skipped"] == [
        {
            "name": snapshot_id(2.5),
            "why": "is not complete (missing from the listing: 2: down): only signs of life in it count",
        }
    ]
    assert [(row["group_id"], row["idle_seconds"], row["observations"]) for row in written(tmp_path, 3)] == [
        ("idle", 3 * HOUR, 4),
        ("used", 0.0, 1),
    ]


def test_an_incomplete_snapshot_that_cannot_be_read_stops_the_job(tmp_path: Path) -> None:
    write_hours(tmp_path, 0, 1)
    write_snapshot(tmp_path, 0.5, seen(0.5), complete=False)
    part = tmp_path / CLUSTER / "data" / snapshot_id(0.5) / "part-00000.parquet"
    part.unlink()
    with pytest.raises(SnapshotError, match=f"{snapshot_id(0.5)} is incomplete or was changed"):
        judge(tmp_path)


def test_one_of_another_kafka_cluster_shows_nothing(tmp_path: Path) -> None:
    write_hours(tmp_path, 0, 1, 2)
    write_snapshot(tmp_path, 1.5, seen(1.5, group="used", **MEMBER), complete=False, kafka_cluster_id="kafka-2")
    assert judge(tmp_path)["verdicts"]["stale"] == 2
