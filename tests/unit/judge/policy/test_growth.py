import pytest

from airflow_kafka_groups.judge.policy.families import FastFamily, NewGroup, too_fast

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
