"""Keeping groups alive from the command line: a dry run by default."""

from pathlib import Path

import pytest

from airflow_kafka_groups.cli.commands import change
from airflow_kafka_groups.exceptions import ConnectionFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli

T0 = TopicPartition("t", 0)
NOW = ("--observe-seconds", "0")


@pytest.fixture(autouse=True)
def sleeping(admin: FakeAdmin) -> None:
    admin.log = (0, 10)
    admin.groups = {
        "simple": FakeGroup({T0: 5}, protocol_type=""),
        "classic": FakeGroup({T0: 5}),
        "live": FakeGroup({T0: 5}, members=1),
    }


def test_without_yes_nothing_is_committed(admin: FakeAdmin, stored: Cli) -> None:
    code, found, said = stored("keep-alive", "simple", *NOW)
    assert (code, admin.asked("alter"), found["dry_run"]) == (0, [], True)
    assert [tuple(group) for group in found["groups"]] == [change.KEEP_ALIVE_COLUMNS]
    assert (found["groups"][0]["outcome"], found["groups"][0]["not_forgotten_before"]) == ("would_keep_alive", None)
    assert "--yes" in said


def test_an_assignor_that_nobody_would_offer_is_refused(admin: FakeAdmin, stored: Cli) -> None:
    """Whoever gives one expects a membership, by which a classic group is kept alive at all."""
    code, found, said = stored("keep-alive", "classic", "--assignor", "mine", "--yes", *NOW)
    assert (code, found, admin.asked("alter")) == (2, None, [])
    assert "--assignor (got ['mine']): is that of a member: give --allow-membership, too" in said


def test_patterns_that_match_nothing_are_worth_a_warning(stored: Cli) -> None:
    code, found, said = stored("keep-alive", "--include", "clasic", "--yes", *NOW)
    assert (code, found["groups"]) == (0, [])
    assert "no group matches" in said


def test_yes_commits_and_says_until_when(admin: FakeAdmin, stored: Cli) -> None:
    code, found, _ = stored("keep-alive", "--include", "*", "--allow-membership", "--yes", *NOW)
    by_id = {group["group_id"]: group for group in found["groups"]}
    assert (code, by_id["live"]["outcome"]) == (3, "left_alone")
    assert (by_id["classic"]["outcome"], by_id["simple"]["outcome"]) == ("kept_alive", "kept_alive")
    assert by_id["classic"]["not_forgotten_before"] is not None
    assert sorted(admin.asked("alter")) == ["classic", "simple"]
    assert Path(found["result_path"]).exists()


def test_a_group_that_will_be_forgotten_makes_the_command_fail(admin: FakeAdmin, stored: Cli) -> None:
    code, found, _ = stored("keep-alive", "classic", "--yes", *NOW)
    assert (code, found["groups"][0]["outcome"], admin.asked("alter")) == (1, "needs_membership", [])
    assert stored("keep-alive", "gone", "--yes", *NOW)[0] == 1


def test_numbers_are_checked(admin: FakeAdmin, stored: Cli) -> None:
    assert stored("keep-alive", "simple", "--offsets-retention-minutes", "0", "--yes", *NOW)[0] == 2
    code, found, _ = stored(
        "keep-alive", "simple", "--offsets-retention-minutes", "60", "--margin-seconds", "600", *NOW
    )
    assert (code, found["retention_seconds"], found["margin_seconds"]) == (0, 3_600.0, 600.0)


def test_brokers_that_list_nothing_are_no_matter_of_the_patterns(admin: FakeAdmin, stored: Cli) -> None:
    admin.groups, admin.missing_brokers = {}, {2: ConnectionFailedError("b2:9092", "is away")}
    code, _, said = stored("keep-alive", "--include", "classic", "--yes", *NOW)
    assert code == 1
    assert "is away" in said
    assert "Check the patterns" not in said
