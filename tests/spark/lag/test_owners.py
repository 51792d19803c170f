"""Who owns a group: the first rule that fits, by prefix or by a regular expression as Java reads it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.owners import OwnerRule, owners_of
from tests.unit.judge.test_report import GROUPS, OWNERS

pytestmark = pytest.mark.spark

RULES = [OwnerRule("team", prefix="a."), OwnerRule("ops", regex="mon-[0-9]+"), OwnerRule("rest", prefix="a")]
PREFIXES = [rule for rule in RULES if rule.prefix is not None]


def test_owners_are_those_of_the_first_rule_by_prefix_or_javas_regex(spark: SparkSession) -> None:
    unowned = dict.fromkeys(GROUPS, "unowned")
    assert owners_of(lambda: spark, RULES, GROUPS) == unowned | OWNERS
    assert owners_of(lambda: spark, PREFIXES, GROUPS) == unowned | OWNERS | {"mon-1": "unowned"}
    assert owners_of(lambda: spark, PREFIXES[::-1], ["a.1"]) == {"a.1": "rest"}
    assert owners_of(lambda: spark, (), GROUPS) == unowned
    assert owners_of(lambda: spark, RULES, ()) == {}


def test_there_may_be_thousands_of_rules(spark: SparkSession) -> None:
    rules = [OwnerRule("ops", regex="mon-[0-9]+"), *(OwnerRule(f"o{n}", prefix=f"p{n}.") for n in range(2_000))]
    found = {"p0.a": "o0", "p1999.a": "o1999", "mon-1": "ops", "p.": "unowned"}
    assert owners_of(lambda: spark, rules, found) == found
