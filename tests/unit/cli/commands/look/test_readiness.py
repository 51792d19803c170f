"""The command ``readiness``: each group with its status, and an exit code for what could not be read."""

import pytest

from airflow_kafka_groups.cli.commands import look
from airflow_kafka_groups.kafka.admin.readiness import MoveStatus
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.cli.commands.conftest import Cli

KAFKA_4 = ApiVersions({3: (0, 13), 9: (1, 9)})
KAFKA_3 = ApiVersions({1: (0, 17), 9: (1, 9)})


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.api_versions = {1: KAFKA_4, 2: KAFKA_4}
    admin.groups = {
        "live": FakeGroup(members=2),
        "idle": FakeGroup(),
        "share": FakeGroup(type=GroupType.SHARE, protocol_type="share"),
        "new": FakeGroup(type=GroupType.CONSUMER, members=1),
    }


def test_every_group_has_a_row(cli: Cli) -> None:
    code, found, _ = cli("readiness")
    assert (code, {row["group_id"]: row["status"] for row in found}) == (
        0,
        {"idle": "no_members", "live": "ready", "new": "moved", "share": "other"},
    )
    assert tuple(found[0]) == look.READINESS_COLUMNS
    assert found[1]["moves_to"] == "range"


def test_the_groups_are_chosen_by_name_pattern_and_status(cli: Cli) -> None:
    assert [row["group_id"] for row in cli("readiness", "live", "live")[1]] == ["live"]
    assert [row["group_id"] for row in cli("readiness", "--include", "*e*", "--exclude", "share")[1]] == [
        "idle",
        "live",
        "new",
    ]
    assert [row["group_id"] for row in cli("readiness", "--status", "moved", "--status", "other")[1]] == [
        "new",
        "share",
    ]
    assert cli("readiness", "live", "--include", "x")[0] == 2


def test_one_old_broker_blocks_the_groups(cli: Cli, admin: FakeAdmin) -> None:
    admin.api_versions = {1: KAFKA_4, 2: KAFKA_3}
    (row,) = cli("readiness", "live")[1]
    assert row["status"] == "blocked"
    assert "Kafka 3.9" in row["blockers"][0]


def test_what_cannot_be_described_or_is_not_there_makes_the_exit_code_3(cli: Cli, admin: FakeAdmin) -> None:
    code, found, said = cli("readiness", "nobody")
    assert (code, found[0]["status"]) == (3, "unknown")
    assert "do not exist, first 'nobody'" in said
    admin.describe_errors["live"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    code, found, said = cli("readiness", "live", "idle")
    assert (code, [row["group_id"] for row in found]) == (3, ["idle"])
    assert "'live'" in said


def test_an_incomplete_listing_is_printed_and_said_to_be_short(cli: Cli, admin: FakeAdmin) -> None:
    admin.missing_brokers = {2: broker_error("COORDINATOR_LOAD_IN_PROGRESS")}
    code, found, said = cli("readiness")
    assert (code, bool(found)) == (3, True)
    assert "groups may be missing: 2" in said


def test_a_group_that_is_gone_since_the_listing_is_shown(cli: Cli, admin: FakeAdmin) -> None:
    admin.groups["idle"].state = GroupState.DEAD
    code, found, _ = cli("readiness", "--status", "unknown")
    assert (code, [row["group_id"] for row in found]) == (0, ["idle"])


def test_the_statuses_of_the_option_are_those_of_the_judge() -> None:
    assert list(look._STATUSES) == list(MoveStatus)
