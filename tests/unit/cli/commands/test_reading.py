"""The commands that only read: list, describe, offsets, lag."""

import pytest

from airflow_kafka_groups.cli import main, options
from airflow_kafka_groups.cli.commands import look
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {
        "b": FakeGroup({T0: 5, T1: 10}),
        "a": FakeGroup({U0: 9}, members=2),
        "share": FakeGroup({T0: 7}, type=GroupType.SHARE, protocol_type="share"),
    }


def test_list_is_sorted_and_filtered(cli: Cli) -> None:
    code, found, _ = cli("list")
    assert (code, [group["group_id"] for group in found]) == (0, ["a", "b", "share"])
    assert tuple(found[0]) == look.LIST_GROUPS_COLUMNS
    assert (found[0]["state"], found[0]["type"]) == ("Stable", "classic")
    assert [group["group_id"] for group in cli("list", "--include", "*a*", "--exclude", "a")[1]] == ["share"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(("list --state sleeping", "sleeping"), ("list --type big", "big"), ("list --include re:(", "re:(")),
        *(("lag --include re:(", "--include (got 're:('"), ("offsets b --include a", "name groups or give patterns")),
        *(("lag --max-lag -1", "at least 0"), ("lag --limit -1", "at least 0")),
        ("lag --sort lagg", "name one of group_id, partitions, lag"),
    ],
)
def test_what_cannot_be_chosen_is_bad_usage(cli: Cli, words: str, said: str) -> None:
    code, found, error = cli(*words.split())
    assert (code, found, said in error) == (2, None, True), error


def test_an_incomplete_list_is_printed_and_reported(cli: Cli, admin: FakeAdmin) -> None:
    admin.missing_brokers = {2: broker_error("COORDINATOR_LOAD_IN_PROGRESS")}
    code, found, said = cli("list")
    assert (code, len(found)) == (3, 3)
    assert "groups may be missing: 2" in said
    for command in ("offsets", "lag"):
        code, found, said = cli(command)
        assert (code, bool(found)) == (3, True), "what there is, and that it is short"
        assert "groups may be missing: 2" in said


def test_describe_has_a_row_for_each_member(cli: Cli) -> None:
    code, found, _ = cli("describe", "a", "b")
    assert (code, [group["group_id"] for group in found]) == (0, ["a", "a", "b"])
    assert tuple(found[0]) == look.DESCRIBE_COLUMNS
    assert found[2]["member_id"] is None


def test_a_group_that_does_not_exist_is_dead(cli: Cli) -> None:
    code, found, _ = cli("describe", "gone")
    assert (code, found[0]["state"], found[0]["type"]) == (3, GroupState.DEAD.value, None)


def test_an_assignment_is_short() -> None:
    from airflow_kafka_groups.kafka.models import MemberDescription

    member = MemberDescription(member_id="m", client_id="c", host="h", assignment=(U0, T1, T0))
    assert look._assignment(member) == ["t[0,1]", "u[0]"]


def test_offsets_has_a_row_for_each_commit(cli: Cli) -> None:
    code, found, _ = cli("offsets")
    assert code == 0
    assert tuple(found[0]) == look.OFFSETS_COLUMNS
    rows = [(row["group_id"], row["topic"], row["partition"], row["offset"]) for row in found]
    assert rows == [("a", "u", 0, 9), ("b", "t", 0, 5), ("b", "t", 1, 10), ("share", "t", 0, 7)]
    assert {row["group_id"] for row in cli("offsets", "b")[1]} == {"b"}
    assert cli("offsets", "--include", "x*")[:2] == (0, [])


def test_a_group_that_cannot_be_read_is_named(cli: Cli, admin: FakeAdmin) -> None:
    admin.offset_errors = {"a": broker_error("GROUP_AUTHORIZATION_FAILED")}
    code, found, said = cli("offsets")
    assert (code, {row["group_id"] for row in found}) == (3, {"b", "share"})
    assert "error: 'a'" in said


@pytest.mark.parametrize("command", ["offsets", "lag"])
def test_a_group_that_does_not_exist_has_no_lag_of_0(cli: Cli, admin: FakeAdmin, command: str) -> None:
    admin.groups["bare"] = FakeGroup({}, members=1)
    code, found, said = cli(command, "b", "orders", "bare")
    assert (code, {row["group_id"] for row in found} - {"bare"}) == (3, {"b"})
    assert "1 group(s) do not exist, first 'orders'" in said
    assert cli("offsets", "b", "bare")[0] == 0
    code, found, said = cli("lag", "b", "bare")
    assert (code, {row["group_id"]: row["lag"] for row in found}) == (3, {"b": 5, "bare": None})
    assert "the lag of 1 group(s) is not known, first 'bare'" in said


def test_what_a_user_may_not_see_is_said_where_lag_is_measured(cli: Cli, admin: FakeAdmin) -> None:
    admin.sees_topics = False
    assert "These lags may lack" in cli("lag")[2]


def test_lag_is_sorted_by_size(cli: Cli) -> None:
    code, found, _ = cli("lag")
    assert (code, [tuple(row.values()) for row in found]) == (0, [("b", 2, 5, 0), ("share", 1, 3, 0), ("a", 1, 1, 0)])
    assert tuple(found[0]) == look.LAG_COLUMNS
    _, found, _ = cli("lag", "b", "--partitions")
    assert tuple(found[0]) == look.OF_PARTITIONS
    assert [(row["partition"], row["lag"], row["flag"]) for row in found] == [(0, 5, "ok"), (1, 0, "ok")]


def test_too_much_lag_is_an_exit_code(cli: Cli) -> None:
    code, found, _ = cli("lag", "--max-lag", "4")
    assert (code, [row["group_id"] for row in found]) == (3, ["b"])
    assert cli("lag", "--max-lag", "5")[:2] == (0, [])


def test_a_lag_that_is_not_known_is_no_small_one(cli: Cli, admin: FakeAdmin) -> None:
    admin.groups["c"] = FakeGroup({T0: 99})
    code, found, said = cli("lag")
    assert (code, {row["group_id"]: row["lag"] for row in found}["c"]) == (3, None)
    assert "first 'c'" in said
    assert [row["group_id"] for row in cli("lag", "--max-lag", "1000")[1]] == ["c"]


def test_many_failures_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    options.report_failures({f"g{number:02}": broker_error("NOT_COORDINATOR") for number in range(25)})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "error: 5 more groups could not be read"


def test_what_was_lost_of_a_partition_that_could_not_be_read_is_not_known(cli: Cli, admin: FakeAdmin) -> None:
    admin.groups = {"c": FakeGroup({T0: 2})}
    admin.log = None
    admin.ends[T0] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    (row,) = cli("lag", "c", "--partitions")[1]
    assert (row["flag"], row["lag"], row["lost"]) == ("unknown", None, None)


def test_rows_are_sorted_by_a_column_and_limited(cli: Cli, admin: FakeAdmin) -> None:
    names = {
        words: [row["group_id"] for row in cli("lag", *words)[1]]
        for words in ((), ("--sort", "lag"), ("--sort", "group_id:desc"), ("--sort", "lag:desc", "--limit", "1"))
    }
    assert names == {
        (): ["b", "share", "a"],
        ("--sort", "lag"): ["a", "share", "b"],
        ("--sort", "group_id:desc"): ["share", "b", "a"],
        ("--sort", "lag:desc", "--limit", "1"): ["b"],
    }
    for command in (("list",), ("describe", "a", "b"), ("offsets",)):
        assert len(cli(*command, "--limit", "1")[1]) == 1


def test_rows_without_a_value_come_last(cli: Cli, admin: FakeAdmin) -> None:
    for order in ("leader_epoch", "member_id:desc"):
        command, last = (("describe", "a", "b"), "b") if order.startswith("member") else (("offsets",), "share")
        assert cli(*command, "--sort", order)[1][-1]["group_id"] == last


def test_a_csv_for_a_reset_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["offsets", "--limit", "1", "--conn-id", "kafka_groups_default", "-o", "csv"]) == 2
    assert "need all of it" in capsys.readouterr().err


def test_it_is_watched_until_it_is_interrupted(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = iter([5.0])

    def sleep(seconds: float) -> None:
        if next(pauses, None) != seconds:
            raise KeyboardInterrupt
        admin.groups = {"later": FakeGroup({T0: 1})}

    monkeypatch.setattr("time.sleep", sleep)
    assert main.main(["list", "--watch", "5s", "--conn-id", "kafka_groups_default", "-o", "csv"]) == 130
    printed = capsys.readouterr().out
    assert "later" in printed
    assert printed.count("group_id,state") == 2
