"""Thousands of owners with patterns of their own: each group is looked up by what the patterns begin with."""

import random
import re
from fnmatch import fnmatchcase
from unittest.mock import patch

from airflow_kafka_groups.judge.policy.owners import OwnerRules


def test_a_group_is_compared_with_the_patterns_that_begin_as_it_does() -> None:
    """By count, not by time: an expression of all patterns would try each of them for each group."""
    tried = 0
    compiled = re.compile

    class Counted:
        def __init__(self, pattern: str) -> None:
            self.pattern, self.size = compiled(pattern), pattern.count("|") + 1

        def match(self, text: str) -> re.Match[str] | None:
            nonlocal tried
            tried += self.size
            return self.pattern.match(text)

    with patch.object(re, "compile", Counted):
        rules = OwnerRules(mapping=[(f"team-{number:05}.*", f"owner {number}") for number in range(4000)])
        found = [rules.owner_of(f"team-{number:05}.app") for number in range(0, 4000, 40)]
    assert found == [f"owner {number}" for number in range(0, 4000, 40)]
    assert tried <= 2 * len(found)


def test_the_first_pattern_that_matches_counts_as_before() -> None:
    chance = random.Random(1)
    letters = "ab*?[]"
    for _ in range(300):
        drawn = ("".join(chance.choices(letters, k=chance.randint(1, 4))) for _ in range(12))
        globs = [glob for glob in drawn if glob != "[]"]  # the text of a list, which is refused
        rules = OwnerRules(mapping=[(glob, str(number)) for number, glob in enumerate(globs)])
        for _ in range(20):
            name = "".join(chance.choices("ab[]", k=chance.randint(1, 4)))
            expected = next((str(number) for number, glob in enumerate(globs) if fnmatchcase(name, glob)), None)
            assert rules.owner_of(name) == expected, (globs, name)
