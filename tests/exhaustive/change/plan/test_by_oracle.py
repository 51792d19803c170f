"""Plans of random policies are what the documents say of them."""

import asyncio
import json
import re
import tempfile
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import load_policy
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from tests.exhaustive.change.plan import oracle
from tests.fakes.admin import FakeAdmin
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, judge, layout_in, snapshot

DAY = 86_400.0
IDS = {
    "pay.a": (None, None), "pay.a-7": ("pay.a-<number>", "number"), "Pay.a": (None, None), "job[1]": (None, None),
    "job1": (None, None), "caf\u00e9.x": (None, None), "cafe\u0301.x": (None, None), ".x": (None, None),
    "x.3f2504e0-4f89-41d3-9a0c-0305e82c3301-7": ("x.<uuid>-<number>", "uuid"),
    "pay.a-2026-01-31": ("pay.a-<date>", "date"), "a b": (None, None), "a+b": (None, None),
}  # fmt: skip
PATTERNS = ["*", "pay*", "pay.a*", "job[1]", "job?", "caf\u00e9*", "cafe\u0301.x", "*.x*", "re:.*", "re:pay\\..*|x",
            "a?b", "a+b", "[ap]*", "*-7", "?ay.a"]  # fmt: skip


def some(values: list[str]) -> st.SearchStrategy[Any]:
    """Return one of the values, or a list of them."""
    one = st.sampled_from(values)
    return st.one_of(one, st.lists(one, min_size=1, max_size=3, unique=True))


matches = st.fixed_dictionaries(
    {},
    optional={
        "groups": some(PATTERNS),
        "except": some(PATTERNS),
        "owners": some(["pay", "search", "x"]),
        "types": some(["classic", "consumer"]),
        "families": some(["uuid", "number", "date", "pay.a-<number>"]),
        "topics": some(["t*", "u", "re:[tv]"]),
        "clients": some(["c*"]),
    },
)
idle, observations = st.sampled_from(["1d", "36h", "7d", "0.7d"]), st.sampled_from([2, 3])
rules = st.fixed_dictionaries(
    {"action": st.sampled_from(["delete", "delete", "delete", "keep", "report", "keep-alive"])},
    optional={"match": matches, "idle": idle, "observations": observations, "max_groups": st.integers(0, 2),
              "max_share": st.sampled_from([0.1, 0.3, 1])},
)  # fmt: skip
policies = st.fixed_dictionaries(
    {"rules": st.lists(rules, min_size=1, max_size=4)},
    optional={
        "defaults": st.fixed_dictionaries({}, optional={"action": st.just("delete"), "idle": idle}),
        "protect": some(["job[1]", "caf\u00e9*", "pay.a-*"]),
        "owners": st.just({"pay": {"groups": ["pay*", "?ay.*"]}, "search": {"groups": "re:job.*"}}),
        "owner_from_id": st.just("{owner}.*"),
        "limits": st.fixed_dictionaries({}, optional={"max_groups": st.integers(1, 4), "max_share": st.just(0.3)}),
    },
)
groups = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["classic", "classic", "consumer", "unknown"]),
        "topics": st.lists(st.sampled_from(["t1", "u", "v"]), min_size=1, max_size=2, unique=True),
        "idle": st.sampled_from([DAY - 1, DAY, 36 * 3_600.0, 0.7 * DAY, 60_480.0, 7 * DAY, 8 * DAY]),
        "observations": st.integers(1, 4),
        "verdict": st.sampled_from(["stale", "stale", "stale", "live", "settling"]),
    }
)
clusters = st.dictionaries(st.sampled_from(sorted(IDS)), groups, min_size=1)


@settings(max_examples=40, deadline=None)
@given(policies, clusters, st.sampled_from([(), ("job[1]",), ("a*",)]), st.integers(1, 8))
def test_a_plan_is_what_the_documents_say(
    policy: dict[str, Any], cluster: dict[str, Any], exclude: tuple[str, ...], max_groups: int
) -> None:
    policy = {**policy, "rules": [{"name": f"r{n}", **rule} for n, rule in enumerate(policy["rules"])]}
    every = [
        {"id": group_id, "family": IDS[group_id][0], "shape": IDS[group_id][1], **facts}
        for group_id, facts in sorted(cluster.items())
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policy.yaml")
        path.write_text(json.dumps({"version": 1, **policy}, ensure_ascii=False))
        try:
            file = load_policy(path)
        except PolicyError as error:
            told = str(error)
            for n, rule in enumerate(policy["rules"]):
                if f"rules[{n}] can never decide" in told:
                    for facts in every:
                        assert oracle.deciding(policy, facts)[-1]["name"] != rule["name"], told
                # Of several owners or families, one is meant.
                never = rf"rules\[{n}\]\.match\.(\w+) (?:\(got '(.*?)'\))?[^\n]*never match"
                for condition, value in re.findall(never, told):
                    alone = {**rule["match"], condition: value or rule["match"][condition]}
                    assert not any(oracle.holds(policy, {**rule, "match": alone}, facts) for facts in every), told
            assume(False)
        limits = PlanPolicy(
            exclude=exclude, protected=(), max_groups=max_groups, max_share=0.6, max_gap_seconds=0
        ).by_file(file)
        admin = FakeAdmin()
        for facts in every:
            admin.add(facts["id"], *((topic, 0, 5) for topic in facts["topics"]),
                      type=GroupType(facts["type"]))  # fmt: skip
        reader = asyncio.run(snapshot(admin, layout_in(Path(folder))))
        judged = [
            verdict._replace(
                group_type=facts["type"],
                idle_seconds=facts["idle"],
                idle_since=verdict.observed_at - timedelta(seconds=facts["idle"]),
                observations=facts["observations"],
                verdict=facts["verdict"],
            )
            for verdict, facts in zip(judge(reader), every, strict=True)
        ]
        plan = make_plan(verdicts_of(judged), reader, limits, LATER, owners=file.owners)
        edited = replace(file, digest="f" * 64)
        kept_later = kept_by_newer_policy(plan, edited)
        asks_more = any({"topics", "clients"} & set(rule.get("match", {})) for rule in policy["rules"])
        assert asks_more or not kept_later, kept_later
    against = {facts["id"]: oracle.reasons_to_keep(policy, facts, exclude) for facts in every}
    free = [facts for facts in every if not against[facts["id"]]]
    wanted = oracle.planned(policy, free, len(every), max_groups, Decimal("0.6"))
    assert plan.group_ids == wanted
    for kept in plan.kept:
        assert kept.verdict in (against[kept.group_id] or {"over_cap"}), kept
    rows: list[PlannedGroup | KeptGroup] = [*plan.groups, *plan.kept]
    for row in rows:
        (facts,) = (facts for facts in every if facts["id"] == row.group_id)
        assert (row.owner, row.family) == (oracle.owner_of(policy, facts), facts["family"])
        if not plan.kept or row.rule != "default":
            assert row.rule in {rule["name"] for rule in oracle.deciding(policy, facts)}
