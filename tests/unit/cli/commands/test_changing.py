"""Changing offsets from the command line: a dry run by default, and the same guards as the operators."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.commands import change
from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition
from airflow_kafka_groups.storage.json_files import write_listing
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER, Site, changes

pytestmark = pytest.mark.safety

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {
        "a": FakeGroup({T0: 5, T1: 2, U0: 9}),
        "b": FakeGroup({T0: 7}),
        "live": FakeGroup({T0: 5}, members=1),
    }


@pytest.mark.parametrize(
    ("words", "moved", "skips", "rereads"),
    [
        (("--to", "latest"), {T0: 10, T1: 10, U0: 10}, 5 + 8 + 1, 0),
        (("--to", "earliest", "--topic", "t"), {T0: 0, T1: 0, U0: 9}, 0, 7),
        (("--shift-by=-3",), {T0: 2, T1: 0, U0: 6}, 0, 3 + 2 + 3),
        (("--ago", "2h"), {T0: 8, T1: 8, U0: 8}, 3 + 6, 1),
        (("--timestamp", "2026-01-31T12:00:00+00:00"), {T0: 8, T1: 8, U0: 8}, 3 + 6, 1),
    ],
)
def test_a_reset_shows_what_it_skips_and_reads_again_before_it_is_made(
    admin: FakeAdmin, stored: Cli, words: tuple[str, ...], moved: Any, skips: int, rereads: int
) -> None:
    before = dict(admin.groups["a"].positions)
    admin.by_time = dict.fromkeys((T0, T1, U0), ListedOffset(8))
    code, found, said = stored("reset", "a", *words)
    assert (code, found["dry_run"], admin.groups["a"].positions) == (0, True, before)
    (row,) = found["groups"]
    assert tuple(row) == change.CHANGE_COLUMNS
    assert (row["outcome"], row["skips"], row["rereads"]) == ("would_change", skips, rereads)
    assert "--yes" in said
    code, found, said = stored("reset", "a", *words, "--yes")
    assert (code, found["counts"]["changed"], admin.groups["a"].positions) == (0, 1, moved)
    assert (found["skips"], found["rereads"]) == (skips, rereads)


def test_records_that_were_removed_before_are_neither_skipped_nor_read_again(admin: FakeAdmin, stored: Cli) -> None:
    admin.log = (4, 10)
    _, found, _ = stored("reset", "a", "--to", "latest", "--topic", "t")
    assert found["skips"] == 5 + 6, "of t[1], the group had read on at 4"


def test_who_is_alive_or_protected_is_kept_and_on_record(site: Site, stored: Cli) -> None:
    site.connect(protected_groups=["b"])
    code, found, _ = stored("reset", "a", "b", "live", "--to", "latest", "--topic", "t", "--yes")
    assert (code, found["counts"]["kept"], found["counts"]["changed"]) == (3, 2, 1)
    reasons = {row["group_id"]: row["reason"] for row in found["groups"] if row["outcome"] == "kept"}
    assert "1 member" in reasons["live"]
    assert "protects" in reasons["b"]
    assert site.admin.groups["b"].positions == {T0: 7}
    before, result = changes(site.storage)
    assert (before["what"], result["counts"]["changed"], Path(found["record"]).exists()) == ("reset", 1, True)
    assert stored("delete-offsets", "a", "b", "--topic", "t", "--yes")[0] == 1
    site.connect(read_only=True)
    for words in (("reset", "a", "--to", "latest"), ("set", "a", "t:0=1"), ("delete-offsets", "a", "--topic", "t")):
        assert stored(*words, "--yes")[0] == 2
    assert stored("delete", "a", "--yes", "--observe", "0.01")[0] == 2
    assert site.admin.groups["a"].positions == {T0: 10, T1: 10, U0: 9}


def test_a_shift_that_was_killed_is_continued_and_one_that_ended_is_made_again(site: Site, stored: Cli) -> None:
    words = ("reset", "a", "b", "--shift-by", "1", "--topic", "t", "--yes")
    killed = False

    def kill(call: str) -> None:
        nonlocal killed
        if call == "alter" and not killed:
            killed = True
            site.admin.commit("a", *T0, 6)  # the broker had committed one partition of one group by then
            raise KeyboardInterrupt

    site.admin.before = kill
    assert stored(*words)[0] == 130
    (before,) = changes(site.storage)
    assert stored(*words)[0] == 0
    assert [site.admin.groups[id_].positions for id_ in "ab"] == [{T0: 6, T1: 3, U0: 9}, {T0: 8}]
    assert stored(*words)[0] == 0
    assert [site.admin.groups[id_].positions for id_ in "ab"] == [{T0: 7, T1: 4, U0: 9}, {T0: 9}]
    assert before["groups"][0]["before"]


def test_offsets_go_out_as_kafkas_tool_exports_them_and_come_back(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--conn-id", "kafka_groups_default", "--storage-path", str(site.storage), "--cluster", CLUSTER)

    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([*words, *options[: 2 if words[0] == "offsets" else None], "-o", "csv"]) == code
        return capsys.readouterr().out

    assert run("offsets", "b") == "t,0,7\n"
    assert run("offsets", "a", "b") == "a,t,0,5\na,t,1,2\na,u,0,9\nb,t,0,7\n"
    plan = site.storage / "plan.csv"
    plan.write_text(run("reset", "a", "b", "--shift-by", "1"))
    assert plan.read_text() == "a,t,0,6\na,t,1,3\na,u,0,10\nb,t,0,8\n"
    run("reset", "b", "--from-file", str(plan), "--yes")
    assert [site.admin.groups[id_].positions for id_ in "ab"] == [{T0: 5, T1: 2, U0: 9}, {T0: 8}]
    assert run("reset", "--from-file", str(plan), "--yes") == plan.read_text()
    assert [site.admin.groups[id_].positions for id_ in "ab"] == [{T0: 6, T1: 3, U0: 10}, {T0: 8}]
    assert run("set", "b", "t:0=3", "t:1=99", "--yes") == "t,0,3\nt,1,10\n"
    assert site.admin.groups["b"].positions == {T0: 3, T1: 10}


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("t,0,1\n", (), "line 1 is not of the form"),
        ("a,t,0,1\na,t,0,2\n", (), "line 2 is not of the form"),
        ("GROUP,TOPIC,PARTITION,OFFSET\n", (), "line 1 is not of the form"),
        ("a,t,0,-1\n", (), "line 1 is not of the form"),
        ("a,t,0,1\n", ("b",), "has no offset of group 'b'"),
        ("", (), "has no offset"),
        ("a,t,0,1\n", ("a", "--topic", "t"), "the file names the topics"),
        ("a,t,0,1\n", ("a", "--to", "latest"), "give exactly one of them"),
        (None, (), "does not exist"),
    ],
)
def test_a_file_of_offsets_that_cannot_be_is_refused_with_its_line(
    site: Site, stored: Cli, content: str | None, words: tuple[str, ...], said: str
) -> None:
    plan = site.storage / "plan.csv"
    if content is not None:
        plan.write_text(content)
    code, _, error = stored("reset", *words, "--from-file", str(plan), "--yes")
    assert code == 2
    assert said in error
    assert site.admin.calls == []


def test_both_offsets_of_each_partition_are_shown_where_that_is_asked_for(stored: Cli) -> None:
    _, found, _ = stored("set", "a", "t:0=3", "--partitions")
    assert found["partitions"] == [dict(zip(change.OF_PARTITIONS, ("a", "t", 0, 5, 3), strict=True))]


def test_a_group_is_created_only_where_that_is_asked_for(admin: FakeAdmin, stored: Cli) -> None:
    assert stored("set", "new", "t:0=3", "--yes")[0] == 3
    assert "new" not in admin.groups
    assert stored("set", "new", "t:0=3", "--create", "--yes")[0] == 0
    assert admin.groups["new"].positions == {T0: 3}


@pytest.mark.parametrize("text", ["t:0", "t=3", "t:x=3", "t:0=-3", ":0=3"])
def test_an_offset_that_cannot_be_read_is_bad_usage(admin: FakeAdmin, stored: Cli, text: str) -> None:
    assert stored("set", "a", text, "--yes")[0] == 2
    assert stored("set", "a", "t:0=1", "t:0=2", "--yes")[0] == 2
    assert admin.calls == []


def test_offsets_of_a_topic_are_deleted_unless_a_member_reads_it(admin: FakeAdmin, stored: Cli) -> None:
    code, found, _ = stored("delete-offsets", "a", "b", "--topic", "t")
    assert (code, found["partitions"], found["counts"]["would_change"]) == (0, 3, 2)
    code, found, said = stored("delete-offsets", "a", "b", "live", "--topic", "t", "--yes")
    assert (code, found["counts"]["changed"], found["counts"]["kept"]) == (1, 2, 1)
    assert "a member reads t" in said
    assert [admin.groups[id_].positions for id_ in ("a", "b", "live")] == [{U0: 9}, {}, {T0: 5}]


def test_doubt_about_one_group_deletes_no_offset(admin: FakeAdmin, stored: Cli) -> None:
    admin.errors["b"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    assert stored("delete-offsets", "a", "b", "--topic", "t", "--yes")[0] == 1
    assert admin.groups["a"].positions == {T0: 5, T1: 2, U0: 9}


def test_named_groups_are_watched_backed_up_and_deleted(site: Site, stored: Cli) -> None:
    code, found, said = stored("delete", "a", "live", "--observe", "0.01")
    assert (code, found["counts"]["would_delete"], found["counts"]["kept"], site.admin.deleted) == (3, 1, 1, [])
    assert "--yes" in said
    code, found, said = stored("delete", "a", "live", "--observe", "0.01", "--yes")
    assert (code, found["counts"]["deleted"], set(site.admin.groups)) == (3, 1, {"b", "live"})
    assert f"restore {found['plan_id']}" in said
    assert stored("restore", found["plan_id"], "--yes")[0] == 0
    assert site.admin.groups["a"].positions == {T0: 5, T1: 2, U0: 9}


def test_a_group_that_does_not_exist_ends_a_deletion_before_it_begins(admin: FakeAdmin, stored: Cli) -> None:
    code, _, said = stored("delete", "a", "gone", "--observe", "0.01", "--yes")
    assert (code, admin.deleted) == (2, [])
    assert "do not exist" in said
    assert stored("delete", "a", "gone", "--observe", "0.01", "--ignore-missing", "--yes")[0] in (0, 3)
    assert admin.deleted == ["a"]


@pytest.fixture
def deleted(backed_up: dict[str, Any], stored: Cli, admin: FakeAdmin) -> str:
    """Return a plan whose groups are deleted."""
    assert stored("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes")[0] == 0
    assert set(admin.groups) == {"live"}
    return str(backed_up["plan_id"])


def test_without_yes_nothing_is_restored(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, said = stored("restore", deleted)
    assert (code, set(admin.groups), found["dry_run"]) == (0, {"live"}, True)
    assert {group["outcome"] for group in found["groups"]} == {"would_change"}
    assert [tuple(group) for group in found["groups"]] == [change.CHANGE_COLUMNS] * 2
    assert "--yes" in said


def test_yes_restores_the_groups_that_are_named(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, _ = stored("restore", deleted, "a", "--yes")
    assert (code, set(admin.groups)) == (0, {"live", "a"})
    assert found["counts"]["changed"] == 1
    record = Path(found["record"])
    assert json.loads(record.read_text())["what"] == "restore"
    before = record.with_name(record.name.replace("-result", "-before"))
    assert [group["group_id"] for group in json.loads(before.read_text())["groups"]] == ["a"]
    assert stored("restore", deleted, "--yes")[0] == 0
    assert set(admin.groups) == {"live", "a", "b"}


def test_a_group_that_is_protected_is_kept(site: Site, deleted: str, stored: Cli) -> None:
    site.connect(protected_groups=["b"])
    code, found, _ = stored("restore", deleted, "--yes")
    assert (code, set(site.admin.groups)) == (3, {"live", "a"})
    assert found["counts"]["kept"] == 1
    site.connect(read_only=True)
    assert stored("restore", deleted, "b", "--yes")[0] == 2
    assert set(site.admin.groups) == {"live", "a"}


def test_a_group_that_is_in_no_backup_is_bad_usage(admin: FakeAdmin, deleted: str, stored: Cli) -> None:
    code, found, said = stored("restore", deleted, "live", "--yes")
    assert (code, found) == (2, None)
    assert "not in the backup" in said


def test_what_was_restored_is_told_also_where_it_cannot_be_recorded(site: Site, deleted: str, stored: Cli) -> None:
    """The disk is full when the result is written: the offsets are committed by then."""

    def full(folder: Any, name: str, *more: Any) -> Any:
        if name.endswith("-result.json"):
            raise StorageError(f"{folder}/{name} could not be written: No space left on device")
        return write_listing(folder, name, *more)

    site.patch.setattr("airflow_kafka_groups.change.restore.change_offsets.write_listing", full)
    code, found, said = stored("restore", deleted, "--yes")
    assert (code, found, set(site.admin.groups)) == (1, None, {"live", "a", "b"})
    assert "No space left on device" in said
    assert "changed 2" in said
    code, _, said = stored("restore", deleted)
    assert code == 1
    assert "changed" not in said.partition("No space")[2], "a dry run has changed nothing"
