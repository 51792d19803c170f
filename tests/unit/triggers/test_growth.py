"""Families that grow too fast, as the trigger sees them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import RequestTimeoutError
from airflow_kafka_groups.judge.policy.families import GROWTH_SECONDS
from airflow_kafka_groups.triggers.events import GroupsEventTrigger
from airflow_kafka_groups.triggers.watch import FamilyGrowth
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.judge.policy.files import policy_of, write_policy
from tests.unit.triggers.conftest import payloads

RULES = """\
    version: 1
    rules:
      - {name: loads, match: {groups: "load-*", types: classic}, action: keep, max_growth_per_day: 2}
      - {name: rest, action: keep}
    """


def listing(prefix: str, *numbers: int, kind: str = "classic") -> dict[str, str]:
    return {f"{prefix}-{number}": kind for number in numbers}


def test_what_the_first_complete_listing_shows_is_not_new() -> None:
    growth = FamilyGrowth(1)
    growth.see(listing("a", 1), 0.0, complete=False)
    growth.see(listing("a", 1, 2, 3), 1.0, complete=True)
    assert growth.too_fast(None) == []
    growth.see(listing("a", 1, 2, 3, 4, 5), 2.0, complete=True)
    (fast,) = growth.too_fast(None)
    assert (fast.family, fast.per_day, [*growth.members(["a-<number>"])]) == ("a-<number>", 2.0, ["a-5", "a-4"])


def test_deleted_groups_count_for_a_day_and_a_broker_that_is_silent_makes_nothing_new() -> None:
    growth = FamilyGrowth(1)
    growth.see({}, 0.0, complete=True)
    growth.see(listing("a", 1, 2), 10.0, complete=True)
    growth.see({}, 20.0, complete=True)
    assert [fast.per_day for fast in growth.too_fast(None)] == [2.0]
    growth.see(listing("a", 1), 30.0, complete=True)
    assert [fast.per_day for fast in growth.too_fast(None)] == [3.0], "it was gone, and appeared again"
    growth.see({}, 40.0, complete=False)
    growth.see(listing("a", 1), 50.0, complete=True)
    assert [fast.per_day for fast in growth.too_fast(None)] == [3.0]
    growth.see({}, 10.0 + GROWTH_SECONDS, complete=True)
    assert growth.too_fast(None) == []


def test_each_rule_has_its_own_limit_and_an_edit_counts_at_once(tmp_path: Path) -> None:
    growth, policy = FamilyGrowth(), policy_of(tmp_path, RULES)
    growth.see({}, 0.0, complete=True)
    new = listing("load", 1, 2, 3) | listing("load-x", 1, 2, 3, kind="consumer") | listing("job", *range(50))
    growth.see({**new, "load-orders": "classic"}, 1.0, complete=True)
    assert [(fast.family, fast.rule, fast.per_day) for fast in growth.too_fast(policy)] == [
        ("load-<number>", "loads", 3.0)
    ]
    edited = policy_of(tmp_path, RULES.replace("max_growth_per_day: 2", "max_growth_per_day: 3"))
    assert growth.too_fast(edited) == []


async def test_it_fires_once_for_a_family_that_grows(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    def appear(*names: str) -> Callable[[], object]:
        return lambda: admin.groups.update({name: FakeGroup() for name in names})

    def fail() -> None:
        admin.missing_brokers = {2: RequestTimeoutError("no answer")}
        admin.groups["job-9"] = FakeGroup()

    def heal() -> None:
        admin.missing_brokers = {}

    admin.groups = {"job-1": FakeGroup(), "orders": FakeGroup()}
    trigger = GroupsEventTrigger(event="growing", max_growth_per_day=1, exclude=["skip-*"])
    script = [appear("job-2", "plain"), appear("skip-1", "skip-2", "job-3"), fail, heal, appear("x-1", "x-2")]
    first, second = await payloads(trigger, monkeypatch, script)
    assert (first["event"], first["count"], first["families"], first["groups"]) == (
        "growing",
        1,
        ["job-<number>"],
        ["job-3", "job-2"],
    )
    assert "grows by 2 groups a day, and 1 are allowed" in first["reasons"]["job-<number>"]
    assert (second["families"], second["groups"]) == (["x-<number>"], ["x-2", "x-1"])


async def test_a_policy_that_cannot_be_read_causes_no_event_and_loses_none(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_policy(tmp_path, "version: 2")
    trigger = GroupsEventTrigger(event="growing", policy_file=str(path))

    def appear() -> None:
        admin.groups = {f"load-{number}": FakeGroup() for number in range(3)}

    (event,) = await payloads(trigger, monkeypatch, [appear, lambda: write_policy(tmp_path, RULES)])
    assert "line 1: version (got 2) must be as follows" in capsys.readouterr().out
    assert (event["families"], sorted(event["groups"])) == (["load-<number>"], ["load-0", "load-1", "load-2"])
    assert "(rule 'loads', max_growth_per_day)" in event["reasons"]["load-<number>"]
