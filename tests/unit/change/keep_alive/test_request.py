"""What a keep-alive run may be asked for, and which groups it leaves alone."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.storage.layout import utc_now
from tests.fakes.groups import DOUBTS, FakeGroup, timeout
from tests.pages import DOCS
from tests.unit.change.keep_alive.test_service import EXACT, RETENTION, at, cluster, outcomes, run, simple


def test_named_groups_are_taken_once_and_whether_they_are_listed_or_not() -> None:
    assert KeepAliveRequest(group_ids=("a", "b", "a")).select(["b"]) == ["a", "b"]


def test_patterns_select_among_the_groups_that_are_listed() -> None:
    request = KeepAliveRequest(include=("a*",), exclude=("ab",))
    assert request.select(["a", "ab", "ac", "b"]) == ["a", "ac"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "group_ids, include"),
        ({"group_ids": ("a",), "include": ("b",)}, "group_ids, include"),
        ({"group_ids": ("a",), "exclude": ("b",)}, "group_ids, include"),
        ({"group_ids": (1,)}, "group_ids"),
        ({"include": ("re:[",)}, "include"),
        ({"group_ids": ("a",), "assignors": ()}, "assignors"),
        ({"group_ids": ("a",), "assignors": ("",)}, "assignors"),
        ({"group_ids": ("a",), "offsets_retention_minutes": 0}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "offsets_retention_minutes": True}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "observe_seconds": -1}, "observe_seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        KeepAliveRequest(**arguments)


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS)
async def test_a_group_that_cannot_be_read_has_failed(tmp_path: Path, doubt: dict[str, Any]) -> None:
    """Night after night, until the brokers forget it."""
    admin = cluster(a=simple(), b=simple())
    for name, value in doubt.items():
        setattr(admin, name, value)
    for dry_run in (True, False):
        report = await run(admin, tmp_path, "a", "b", dry_run=dry_run)
        assert outcomes(report)["a"] == "failed"
        assert set(report.problems()) == {"a"}
    assert admin.asked("alter") == ["b"]


@pytest.mark.parametrize(("at", "outcome"), [(2, "failed"), (3, "unknown")], ids=["before", "after"])
async def test_a_group_that_cannot_be_read_beside_its_membership_was_used_by_nobody(
    tmp_path: Path, at: int, outcome: str
) -> None:
    admin = cluster(a=FakeGroup(EXACT))

    def coordinator_goes(call: str) -> None:
        if call == "describe" and len(admin.asked("describe")) == at - 1:
            admin.describe_errors["a"] = timeout()

    admin.before = coordinator_goes
    report = await run(admin, tmp_path, "a", allow_membership=True)
    assert outcomes(report) == {"a": outcome}
    assert "somebody used it" not in report.groups[0].reason
    assert report.problems()


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_protected_group_is_left_alone_whether_a_membership_is_allowed_or_not(
    tmp_path: Path, allowed: bool
) -> None:
    """To allow one, as the reason said otherwise, would not have helped: the task failed each time."""
    admin = cluster(a=FakeGroup(EXACT))
    report = await run(admin, tmp_path, include=("*",), allow_membership=allowed, protects=lambda _: True)
    assert (outcomes(report), report.groups[0].reason) == ({"a": "left_alone"}, "the connection protects it")
    assert report.problems() == {}


async def test_a_run_that_finds_a_group_in_use_makes_it_due_no_earlier(tmp_path: Path) -> None:
    """As the page says: its record is that of the run before, whose commits the brokers still count from."""
    admin, began = cluster(a=simple()), utc_now()
    at_once = await run(admin, tmp_path, "a", now=at(began))
    admin.groups["a"] = simple(members=1)
    in_use = await run(admin, tmp_path, "a", now=at(began + RETENTION * 0.3))
    admin.groups["a"] = simple()
    later = await run(admin, tmp_path, "a", now=at(began + RETENTION * 0.5))
    assert [outcomes(each)["a"] for each in (at_once, in_use, later)] == ["kept_alive", "left_alone", "not_due"]
    page = " ".join((DOCS / "howto" / "keep-alive.md").read_text().split())
    assert "found the group in use changes nothing of that" in page
