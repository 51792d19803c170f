"""Keeping groups alive, by the operator and from the command line, where it is a dry run by default."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.commands import change
from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, GroupsFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import KeepOffsetsAliveOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

T0 = TopicPartition("t", 0)
NOW = ("--observe-seconds", "0")


def keep(storage: Path, **arguments: Any) -> dict[str, Any]:
    return scene.run(KeepOffsetsAliveOperator, storage, **{"observe_seconds": 0, **arguments})


@pytest.fixture(autouse=True)
def sleeping(admin: FakeAdmin) -> None:
    admin.log = (0, 10)
    admin.groups = {
        "simple": FakeGroup({T0: 5}, protocol_type=""),
        "classic": FakeGroup({T0: 5}),
        "live": FakeGroup({T0: 5}, members=1),
    }


def test_without_yes_nothing_is_committed(admin: FakeAdmin, stored: Cli) -> None:
    times = ("--offsets-retention-minutes", "60", "--margin-seconds", "600")
    code, found, said = stored("keep-alive", "simple", *times, *NOW)
    assert (code, admin.asked("alter"), found["dry_run"]) == (0, [], True)
    assert (found["retention_seconds"], found["margin_seconds"]) == (3_600.0, 600.0)
    assert [tuple(group) for group in found["groups"]] == [change.KEEP_ALIVE_COLUMNS]
    assert (found["groups"][0]["outcome"], found["groups"][0]["not_forgotten_before"]) == ("would_keep_alive", None)
    assert "--yes" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        # Whoever gives one expects a membership, by which a classic group is kept alive at all.
        ("--assignor mine", "--assignor (got ['mine']): is that of a member: give --allow-membership, too"),
        ("--offsets-retention-minutes 0", "--offsets-retention-minutes (got '0')"),
    ],
)
def test_an_option_that_cannot_count_is_refused(admin: FakeAdmin, stored: Cli, option: str, said: str) -> None:
    code, found, error = stored("keep-alive", "classic", *option.split(), "--yes", *NOW)
    assert (code, found, admin.asked("alter"), said in error) == (2, None, [], True), error


def test_patterns_that_match_nothing_are_worth_a_warning(
    stored: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, said = stored("keep-alive", "--include", "clasic", "--yes", *NOW)
    assert (code, found["groups"]) == (0, [])
    assert "no group matches" in said
    assert sum(keep(tmp_path, include=["simpel", "re:clasic.*"])["counts"].values()) == 0
    assert "No group matches ('simpel', 're:clasic.*')" in capsys.readouterr().out


def test_yes_commits_and_says_until_when(admin: FakeAdmin, stored: Cli) -> None:
    code, found, _ = stored("keep-alive", "--include", "*", "--allow-membership", "--yes", *NOW)
    by_id = {group["group_id"]: group for group in found["groups"]}
    assert (code, by_id["live"]["outcome"]) == (3, "left_alone")
    assert (by_id["classic"]["outcome"], by_id["simple"]["outcome"]) == ("kept_alive", "kept_alive")
    assert by_id["classic"]["not_forgotten_before"] is not None
    assert sorted(admin.asked("alter")) == ["classic", "simple"]
    assert Path(found["result_path"]).exists()


def test_brokers_that_list_nothing_are_no_matter_of_the_patterns(admin: FakeAdmin, stored: Cli) -> None:
    admin.groups, admin.missing_brokers = {}, {2: ConnectionFailedError("b2:9092", "is away")}
    code, _, said = stored("keep-alive", "--include", "classic", "--yes", *NOW)
    assert code == 1
    assert "is away" in said
    assert "Check the patterns" not in said


def test_groups_are_kept_alive_and_the_others_named(site: Site) -> None:
    found = keep(site.storage, include=["*"], allow_membership=True, interval_seconds="86400")
    assert (found["counts"]["kept_alive"], found["counts"]["left_alone"], found["partitions"]) == (2, 1, 2)
    assert "in use" in found["left_alone"]["live"]
    assert sorted(site.admin.asked("alter")) == ["classic", "simple"]
    assert (site.admin.joined, found["margin_seconds"], found["not_kept"]) == ({"classic": ["t"]}, 864_000.0, {})
    assert Path(found["result_path"]).name.endswith("-result.json")
    again = keep(site.storage, include=["*"])
    assert (again["counts"]["not_due"], len(site.admin.asked("alter"))) == (2, 2)
    assert [group["group_id"] for group in json.loads(Path(again["result_path"]).read_text())["groups"]] == ["live"]


def test_a_group_that_will_be_forgotten_is_a_failure_after_the_others_were_kept(site: Site, stored: Cli) -> None:
    code, found, _ = stored("keep-alive", "classic", "--yes", *NOW)
    assert (code, found["groups"][0]["outcome"], site.admin.asked("alter")) == (1, "needs_membership", [])
    assert stored("keep-alive", "gone", "--yes", *NOW)[0] == 1
    with pytest.raises(GroupsFailedError, match=r"allow_membership"):
        keep(site.storage, group_ids='["classic", "simple"]')
    assert site.admin.asked("alter") == ["simple"]
    with pytest.raises(GroupsFailedError, match=r"forgotten"):
        keep(site.storage, group_ids=["gone"])


def test_a_read_only_connection_keeps_nothing_alive(site: Site) -> None:
    site.connect(read_only=True)
    with pytest.raises(ConfigurationError, match="read-only"):
        keep(site.storage, group_ids=["simple"])
    site.connect(protected_groups=["simple"])
    assert "protects" in keep(site.storage, group_ids=["simple"])["left_alone"]["simple"]
    assert site.admin.asked("alter") == []
