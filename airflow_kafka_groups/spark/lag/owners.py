"""Owners of groups by rules: prefixes, and regular expressions, which are Java's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.session.settings import jvm_of

UNOWNED = "unowned"


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """The owner of groups whose id has a prefix, or matches a (Java) regular expression completely."""

    owner: str
    prefix: str | None = None
    regex: str | None = None

    @property
    def pattern(self) -> str:
        """The regular expression for complete ids; that of a prefix means nothing."""
        return rf"\A(?:{self.regex or ''})\z"


def parse_owners(spark: SparkSession, text: str, path: str) -> tuple[OwnerRule, ...]:
    """Parse a list of rules; the first matching rule applies.

    :param text: JSON such as ``[{"owner": "team-a", "prefix": "a."}, {"owner": "ops", "regex": "mon-[0-9]+"}]``.
    """
    try:
        if not isinstance(entries := json.loads(text), list):
            raise TypeError("it is no list")  # an empty object would be no rules at all
        rules = tuple(OwnerRule(**entry) for entry in entries)
        for rule in rules:
            if {type(rule.prefix), type(rule.regex)} != {str, type(None)}:
                raise ValueError(f"the rule of {rule.owner!r} must have either a prefix or a regex")
            if not rule.owner:
                raise ValueError("a rule has no owner")
            if not isinstance(rule.owner, str):
                raise ValueError(f"the owner {rule.owner!r} of a rule is no text")
            for part in (rule.owner, rule.prefix or rule.regex or ""):
                if any("\ud800" <= letter <= "\udfff" for letter in part):  # neither Java nor Arrow takes it
                    raise ValueError(f"{part!r} in the rule of {rule.owner!r} has half of a letter")
            if rule.regex is not None:
                _check_regex(spark, rule)
    except (ValueError, TypeError, RecursionError) as exc:
        remedy = f'{exc}. Write it as [{{"owner": "team-a", "prefix": "a."}}, {{"owner": "ops", "regex": "mon-.*"}}]'
        raise ArgumentError("--owners", path, remedy) from exc
    return rules


def _check_regex(spark: SparkSession, rule: OwnerRule) -> None:
    compiler = jvm_of(spark, "the check of regular expressions").java.util.regex.Pattern
    try:
        compiler.compile(rule.regex or "")
        compiler.compile(rule.pattern)  # an open quotation or comment would go on behind it
    except SPARK_ERRORS as exc:
        problem = f"the regex {rule.regex!r} of {rule.owner!r} is not one of Java's: {first_line(exc)}"
        raise ValueError(problem) from exc


def owner_of(rules: Sequence[OwnerRule]) -> Column:
    """Return the owner of a row's group, by the first rule that matches."""
    group_id, owner = F.col("group_id"), F.when(F.lit(False), UNOWNED)
    for rule in rules:  # one level, however many there are: Spark recurses into what is nested
        matches = group_id.rlike(rule.pattern) if rule.prefix is None else group_id.startswith(rule.prefix)
        owner = owner.when(matches, rule.owner)
    return owner.otherwise(UNOWNED)
