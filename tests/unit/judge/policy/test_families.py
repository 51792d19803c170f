import re
from datetime import timedelta
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.judge.policy import families
from airflow_kafka_groups.judge.policy.families import (
    Family,
    FastFamily,
    Member,
    NewGroup,
    TailShape,
    family_of,
    summarize,
    too_fast,
)
from tests.fakes.groups import NOW

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.mark.parametrize(
    ("group_id", "family"),
    [
        (f"report-{UUID}", "report-<uuid>"),
        (f"report_{UUID.upper()}", "report_<uuid>"),
        (f"app{UUID.replace('-', '')}", "app<uuid>"),
        (UUID, "<uuid>"),
        (f"spark-kafka-source-{UUID}-123456-driver-0", "spark-kafka-source-<uuid>-<number>-driver-<number>"),
        ("console-consumer-48213", "console-consumer-<number>"),
        ("app-blue-v12", "app-blue-<version>"),
        ("app-1.4.2", "app-<version>"),
        ("orders.v3", "orders.<version>"),
        ("job-2026-03-01", "job-<date>"),
        ("job_20260301", "job_<date>"),
        ("job-20260301T1200Z", "job-<date>"),
        ("build-3fa9c1d", "build-<hash>"),
        ("web-7d9f8b6c5d-x2k4z", "web-<hash>"),
        ("app-12", "app-<number>"),
        ("app-v1-20", "app-v1-<number>"),
        ("20-1.5", "20-<version>"),
        ("v1.2026.03.01", "v1.<date>"),
        ("1960-2026-03-01", "1960-<date>"),
        ("app-1@v2_3", "app-1@<version>"),
        ("20261399", "<number>"),
        ("orders", None),
        ("feedface", None),
        ("app-defaced", None),
        ("kafka2", None),
        ("payments-prod", None),
        ("", None),
    ],
)
def test_a_family_is_found_by_the_shape_of_the_tail(group_id: str, family: str | None) -> None:
    found = family_of(group_id)
    assert (None if found is None else found.name) == family
    assert found is None or f"<{found.shape}>" in found.name


@given(st.text(max_size=200))
def test_any_id_has_at_most_one_family_and_quickly(group_id: str) -> None:
    found = family_of(group_id)
    assert found is None or "<" in found.name


@pytest.mark.parametrize("letters", ["@", ".", "a.", "1.", "#1a"])
def test_an_id_of_the_longest_kind_is_looked_at_near_its_end_only(letters: str) -> None:
    """By count, not by time: from each separator on, all that follows is tried, which took 15 s for one id."""
    tried = list[int]()

    class Counted:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def search(self, text: str, start: int = 0) -> re.Match[str] | None:
            tried.append(len(text) - start)
            return self.pattern.search(text, start)

    with patch.object(families, "_TAILS", tuple(map(Counted, families._TAILS))):
        assert family_of(f"{letters * 1_000}!") is None
        assert family_of(f"{letters * 1_000}-{'7' * 2_000}") == Family(f"{letters * 1_000}-<number>", TailShape.NUMBER)
        assert family_of(f"{letters * 1_000}-1.2.{'7' * 100}") == Family(
            f"{letters * 1_000}-<version>", TailShape.VERSION
        )
    assert sum(size for size in tried if size > 1_000) <= 5_000
    assert family_of("7" * 1_000) == Family("<number>", TailShape.NUMBER)
    assert family_of(f"x{'7' * 1_000}") is None


@given(st.uuids(), st.uuids(), st.text(max_size=20))
def test_two_ids_that_differ_in_their_uuid_are_one_family(one: object, other: object, prefix: str) -> None:
    names = {family.name for each in (one, other) if (family := family_of(f"{prefix}-{each}")) is not None}
    assert len(names) == 1


def member(number: int, days_ago: float | None, planned: bool = False, family: str = "f-<number>") -> Member:
    seen = None if days_ago is None else NOW - timedelta(days=days_ago)
    return Member(f"f-{number}", family, "team" if number % 2 else None, planned, seen)


def test_families_are_counted_with_their_newest_member_and_growth() -> None:
    members = [member(1, 30), member(2, 20, True), *(member(n, n - 2.5) for n in range(3, 10)), member(99, 1, True)]
    (family,) = summarize([*members, Member("x-1", "x-<number>", None, True, NOW)], NOW)
    assert (family.name, family.groups, family.planned, family.owners) == ("f-<number>", 10, 2, ("team",))
    assert (family.newest, family.newest_at) == ("f-3", (NOW - timedelta(days=0.5)).isoformat())
    assert family.growth_per_day == round(8 / 7, 2)
    assert family.to_json()["owners"] == ["team"]


def test_growth_is_not_known_while_the_history_is_short_or_a_time_is_missing() -> None:
    """Everything is new to the first snapshot."""
    assert summarize([member(1, 3), member(2, 3)], NOW)[0].growth_per_day is None
    (family,) = summarize([member(1, 30), member(2, None)], NOW)
    assert (family.growth_per_day, family.newest) == (None, "f-1")
    assert summarize([member(1, None), member(2, None)], NOW)[0].newest is None


def test_families_that_grow_too_fast_come_first_with_one_group_too() -> None:
    fast = [FastFamily("x-<number>", "r", 3.0, 1.0)]
    members = [*(member(n, 9, True) for n in range(3)), Member("x-1", "x-<number>", None, False, NOW)]
    found = summarize(members, NOW, fast)
    assert [family.name for family in found] == ["x-<number>", "f-<number>"]
    assert found[0].to_json()["too_fast"] == [{"rule": "r", "per_day": 3.0, "allowed_per_day": 1.0}]
    assert "too_fast" not in found[1].to_json()


def test_the_largest_deletions_come_first_and_at_most_200_families() -> None:
    members = [member(n, 9, family=f"{n % 250}-<number>", planned=n % 250 == 7) for n in range(500)]
    found = summarize(members, NOW)
    assert (len(found), found[0].name, found[0].planned) == (200, "7-<number>", 2)


ONE = NewGroup("a-<uuid>", "r", 50.0)
OTHER = NewGroup("a-<uuid>", "s", 0.0)


@pytest.mark.parametrize(
    ("count", "days", "per_day"), [(50, 1.0, None), (51, 1.0, 51.0), (100, 2.0, None), (101, 2.0, 50.5)]
)
def test_a_family_is_too_fast_above_what_its_rule_allows_a_day(count: int, days: float, per_day: float | None) -> None:
    assert [fast.per_day for fast in too_fast([ONE] * count, days)] == ([] if per_day is None else [per_day])


def test_each_rule_counts_the_groups_that_it_decides_about_and_the_furthest_above_comes_first() -> None:
    found = too_fast([*[ONE] * 40, *[OTHER] * 20, *[NewGroup("b-<date>", None, 5.0)] * 6], 1.0)
    assert found == [FastFamily("a-<uuid>", "s", 20.0, 0.0), FastFamily("b-<date>", None, 6.0, 5.0)]
    assert found[0].to_json() == {"rule": "s", "per_day": 20.0, "allowed_per_day": 0.0}
    assert [fast.sentence().partition(": ")[0] for fast in found] == [
        "family 'a-<uuid>' grows by 20 groups a day, and 0 are allowed (rule 's', max_growth_per_day)",
        "family 'b-<date>' grows by 6 groups a day, and 5 are allowed (max_growth_per_day)",
    ]


def test_the_sentence_of_a_long_name_is_short() -> None:
    assert len(FastFamily("x" * 30_000, "r", 2.0, 1.0).sentence()) < 300


def test_a_family_that_grows_a_little_faster_is_not_said_to_grow_as_fast_as_is_allowed() -> None:
    (fast,) = too_fast([NewGroup("f-<uuid>", "r", 50)] * 51, 1.0199)
    assert "grows by 50.01 groups a day, and 50 are allowed" in fast.sentence()
