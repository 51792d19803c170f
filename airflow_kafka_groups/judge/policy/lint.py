"""What a policy says and cannot mean: rules that never match, owners that nobody can notify, times that never pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from airflow_kafka_groups.judge.policy.families import family_of
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.judge.policy.rules import Match, Rule
from airflow_kafka_groups.judge.policy.yaml_lines import Path, Problems, did_you_mean
from airflow_kafka_groups.observe.patterns import ALWAYS_PROTECTED, EVERYTHING, PatternSet, is_regex
from airflow_kafka_groups.shown import first_of

_EXACT = ("owners", "types", "families")
_PATTERNS = ("groups", "topics", "clients")


class Covering:
    """Patterns, of which is known whether they match all that others match. Globs are compiled when first needed."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self._known = frozenset(patterns)

    @cached_property
    def _simple(self) -> PatternSet:
        # A glob with stars alone that matches the spelling of another one without brackets matches all that it matches.
        return PatternSet([pattern for pattern in self.patterns if _is_glob(pattern, but="?[]")])

    def covers(self, later: Sequence[str]) -> bool:
        """Return whether they match all that others match. None at all match everything."""
        if not self.patterns:
            return True
        if not later:
            return False
        return all(
            pattern in self._known or (_is_glob(pattern, but="[") and self._simple.match(pattern)) for pattern in later
        )


class CoveringMatch:
    """The conditions of a rule, of which is known whether others are within them."""

    def __init__(self, match: Match) -> None:
        self._excepted = match.excepted
        self._exact = [(name, frozenset(wanted)) for name in _EXACT if (wanted := getattr(match, name))]
        self._patterns = [(name, Covering(wanted)) for name in _PATTERNS if (wanted := getattr(match, name))]

    def covers(self, later: Match) -> bool:
        """Return whether every group that the later conditions match is matched by these, too.

        False where the conditions alone do not show it.
        """
        if self._excepted and self._excepted != later.excepted:
            return False
        for name, wanted in self._exact:
            given = getattr(later, name)
            if not (given and wanted.issuperset(given)):
                return False
        return all(patterns.covers(getattr(later, name)) for name, patterns in self._patterns)


def _covering(later: Rule, earlier: Sequence[tuple[Rule, CoveringMatch]]) -> Rule | None:
    """Return the first earlier rule that matches every group that a rule matches; ``None`` if none is known to."""
    is_wider = not later.deletes and not _is_plain(later.match)  # than a rule that deletes by the same patterns
    for rule, conditions in earlier:
        if conditions.covers(later.match) and not (is_wider and rule.deletes and _has_patterns(rule.match)):
            return rule
    return None


def _has_patterns(match: Match) -> bool:
    return bool(match.groups or match.excepted or match.clients)


def _is_plain(match: Match) -> bool:
    """Whether the patterns match the same where they keep and where they delete."""
    patterns = (*match.groups, *match.excepted, *match.clients)
    return all(pattern.isascii() and _is_glob(pattern, but="?[]") for pattern in patterns)


def _is_glob(pattern: str, *, but: str) -> bool:
    """Return whether a pattern is a glob without some letters."""
    return not is_regex(pattern) and set(but).isdisjoint(pattern)


_SHOWN = 5


def rule_places(rules: Sequence[Rule], problems: Problems) -> list[tuple[Rule, Path]]:
    """Return the rules with their places in the file; that of the keep file has none.

    :param rules: all rules; the last one is the default.
    """
    named = len(problems.document.value["rules"])
    paths: list[Path] = [*(("rules", place) for place in range(named)), ("defaults",)]
    return list(zip(rules[-len(paths) :], paths, strict=True))


def lint(
    rules: Sequence[Rule], owners: OwnerRules, problems: Problems, protected: Sequence[str], max_gap_seconds: float
) -> list[str]:
    """Add what cannot be meant to the problems, and return warnings for what may not be.

    :param rules: all rules; the last one is the default.
    :param protected: patterns of groups that no rule may delete.
    :param max_gap_seconds: the limit of gaps between snapshots in the file; 0 for none.
    """
    by_client = any(rule.match.clients for rule in rules)
    safe, known = Covering((*ALWAYS_PROTECTED, *protected)), sorted({owner for _, owner in owners.mapping})
    places = rule_places(rules, problems)
    compared = [(rule, CoveringMatch(rule.match)) for rule in rules]
    for number, (rule, path) in enumerate(places[:-1], start=len(rules) - len(places)):  # the keep file's is before
        covering = _covering(rule, compared[:number])
        if covering is not None:
            problems.add(
                path,
                f"can never decide: rule {covering.name!r} before it matches every group that "
                f"{rule.name!r} matches. Move it up, or remove it",
            )
        for name, why in _never(rule, safe, None if by_client or owners.naming is not None else known):
            problems.add((*path, "match", name), why)
        if rule.deletes and rule.notice_seconds:
            for owner in (rule.owner,) if rule.owner else rule.match.owners:
                if owners.contact_of(owner) is None:
                    problems.add(
                        path,
                        f"demands a notice, and the owner {owner!r} has no contact: add one under owners, "
                        "or a contact to defaults",
                    )
    return [
        *([] if max_gap_seconds else first_of(_of_clients(rules), "rule(s) match by last client without a max_gap")),
        *first_of(_of_silent_owners(rules, owners), "rule(s) demand a notice of which some groups have no contact"),
    ]


def _of_clients(rules: Iterable[Rule]) -> list[str]:
    return [
        f"rule {rule.name!r} matches by last client, and limits have no max_gap: the last client is not known "
        "of a group whose offsets moved after a snapshot saw its members. Set max_gap to the longest time "
        "between two snapshots"
        for rule in rules
        if rule.match.clients
    ]


def _of_silent_owners(rules: Iterable[Rule], owners: OwnerRules) -> list[str]:
    silent = sorted({owner for _, owner in owners.mapping} - set(owners.contacts))
    those = f" ({', '.join(silent[:_SHOWN])}{' …' if len(silent) > _SHOWN else ''})" if silent else ""
    return [
        f"rule {rule.name!r} demands a notice: groups without an owner, or whose owner has no contact{those}, "
        "are kept. A contact in defaults receives them"
        for rule in rules
        if rule.deletes and rule.notice_seconds and not (rule.owner or rule.match.owners or owners.default_contact)
    ]


def _never(rule: Rule, protected: Covering, known: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield each condition that no group fulfils with the others, or that no deletion can be about, and why.

    :param known: the names of owners with groups; ``None`` where any name may be that of one.
    """
    match = rule.match
    if match.excepted and Covering(match.excepted).covers(match.groups or EVERYTHING):
        # No glob matches the empty id.
        what = "everything in groups, so the rule can never match" if match.groups else "every group that has a name"
        own = "" if match.groups else ", or write 're:^$' in groups for the one with the empty id"
        yield "except", f"excepts {what}. Remove the rule, or except less{own}"
    if rule.deletes and match.groups and protected.covers(match.groups):
        yield "groups", "are all protected, so the rule can never delete. Remove the rule, or protect less"
    if known is not None:
        for owner in match.owners:
            if owner not in known:
                hint = did_you_mean(owner, known) if known else "no owner has groups"
                yield "owners", f"(got {owner!r}) owns no groups, so it can never match; {hint}. Give it groups"
    if match.families and match.groups and all(_is_glob(group_id, but="*?[") for group_id in match.groups):
        found = [family for group_id in match.groups if (family := family_of(group_id)) is not None]
        if not any(family.name in match.families or family.shape in match.families for family in found):
            yield "families", "can never match: none of the ids in groups is of such a family. Use a pattern in groups"
