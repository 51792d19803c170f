from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED


@pytest.mark.parametrize(
    "bad",
    [
        {"min_idle_seconds": 0},
        {"min_idle_seconds": float("nan")},
        {"min_idle_seconds": "7d"},
        {"min_idle_seconds": True},
        {"min_observations": 1},
        {"max_groups": 0},
        {"max_groups": 1.5},
        {"max_groups": True},
        {"max_share": 0},
        {"max_share": 1.01},
        {"max_share": 50},
        {"refuse_share": 0},
        {"refuse_share": 1.01},
        {"max_plan_age_seconds": -1},
        {"max_plan_age_seconds": 1e300},
        {"include": "a*"},
        {"exclude": ["re:["]},
        {"protected": [""]},
        {"max_gap_seconds": -1},
        {"max_gap_seconds": float("inf")},
        {"require_commit_log": "yes"},
    ],
)
def test_a_policy_that_makes_no_sense_names_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(bad))}"):
        PlanPolicy(**bad)


def test_a_share_may_be_all_groups() -> None:
    policy = PlanPolicy(max_share=1, refuse_share=1)
    assert (policy.max_share, policy.refuse_share) == (1, 1)


@pytest.mark.parametrize("policy", [PlanPolicy(), PlanPolicy(max_gap_seconds=172_800, require_commit_log=True)])
def test_a_policy_reads_back_as_it_was_written_and_lacks_nothing(policy: PlanPolicy) -> None:
    written = policy.to_json()
    assert PlanPolicy.from_json(written) == policy
    for name in written:
        with pytest.raises(TypeError, match=f"lacks {name}"):
            PlanPolicy.from_json({key: value for key, value in written.items() if key != name})


def test_an_exclude_does_not_lose_the_protected_patterns() -> None:
    policy = PlanPolicy(exclude=["mine-*"])  # type: ignore[arg-type]
    assert policy.exclude == ("mine-*",)
    assert policy.protected == DEFAULT_PROTECTED
    assert PlanPolicy.from_json(policy.to_json()) == policy
