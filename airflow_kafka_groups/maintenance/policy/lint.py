"""What a policy says and cannot mean: rules that never match, owners that nobody can notify, times that never pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_groups.maintenance.patterns import PatternSet
from airflow_kafka_groups.maintenance.policy.owners import OwnerRules
from airflow_kafka_groups.maintenance.policy.rules import Match, Rule
from airflow_kafka_groups.maintenance.policy.yaml_lines import Path, Problems

_WILD = frozenset("?[]")


def lint(rules: Sequence[Rule], owners: OwnerRules, problems: Problems) -> list[str]:
    """Add what cannot be meant to the problems, and return warnings for what may not be.

    :param rules: all rules; the last one is the default.
    :param owners: how owners are found.
    :param problems: of the policy file.
    """
    named = problems.document.value["rules"]
    first = len(rules) - 1 - len(named)  # 1 with a keep file
    for number, rule in enumerate(rules[:-1]):
        if number < first:
            continue
        path: Path = ("rules", number - first)
        covering = next((other for other in rules[:number] if covers(other.match, rule.match)), None)
        if covering is not None:
            problems.add(
                path,
                f"can never decide: rule {covering.name!r} before it matches every group that "
                f"{rule.name!r} matches. Move it up, or remove it",
            )
        if empty := _contradiction(rule.match):
            problems.add((*path, "match"), f"can never match: {empty}")
        if rule.deletes and rule.notice_seconds:
            for owner in (rule.owner,) if rule.owner else rule.match.owners:
                if owners.contact_of(owner) is None:
                    problems.add(
                        path,
                        f"demands a notice, and the owner {owner!r} has no contact: add one under owners, "
                        "or a contact to defaults",
                    )
    return [*_warnings(rules[:-1], owners, "max_gap" in problems.document.value.get("limits", {}))]


def _warnings(rules: Iterable[Rule], owners: OwnerRules, gap_is_limited: bool) -> Iterable[str]:
    for rule in rules:
        if rule.match.clients and not gap_is_limited:
            yield (
                f"rule {rule.name!r} matches by last client, and limits have no max_gap: the last client is not known "
                "of a group whose offsets moved after a snapshot saw its members. Set max_gap to the longest time "
                "between two snapshots"
            )
        if rule.deletes and rule.notice_seconds and not (rule.owner or rule.match.owners or owners.default_contact):
            yield (
                f"rule {rule.name!r} demands a notice: groups without an owner, or whose owner has no contact, are "
                "kept. A contact in defaults receives them"
            )


def covers(earlier: Match, later: Match) -> bool:
    """Return whether every group that the later conditions match is matched by the earlier ones, too.

    False where the conditions alone do not show it.
    """
    if earlier.excepted and earlier.excepted != later.excepted:
        return False
    for name in ("owners", "types", "families"):
        wanted, given = getattr(earlier, name), getattr(later, name)
        if wanted and not (given and set(given) <= set(wanted)):
            return False
    for name in ("groups", "topics", "clients"):
        if not _patterns_cover(getattr(earlier, name), getattr(later, name)):
            return False
    return True


def _patterns_cover(earlier: Sequence[str], later: Sequence[str]) -> bool:
    if not earlier:
        return True
    if not later:
        return False
    # A glob with stars alone that matches another glob's spelling matches all that the other matches.
    simple = PatternSet("groups", tuple(glob for glob in earlier if _is_simple(glob)))
    return all(pattern in earlier or (_is_simple(pattern) and simple.match(pattern)) for pattern in later)


def _is_simple(pattern: str) -> bool:
    return not pattern.startswith("re:") and _WILD.isdisjoint(pattern)


def _contradiction(match: Match) -> str | None:
    if match.groups and match.excepted and _patterns_cover(match.excepted, match.groups):
        return "everything in groups is excepted"
    return None


def against_retention(rules: Iterable[Rule], retention_minutes: int | None) -> tuple[list[str], list[str]]:
    """Return what the brokers' ``offsets.retention.minutes`` means for a policy: errors, and warnings.

    :param rules: the rules.
    :param retention_minutes: the smallest of all brokers; ``None`` where it is not known.
    """
    deleting = [rule for rule in rules if rule.deletes]
    if retention_minutes is None:
        longest = max((rule.min_idle_seconds + rule.notice_seconds for rule in deleting), default=0.0)
        return [], [] if not longest else [
            "the brokers' offsets.retention.minutes is not known. They forget the offsets of an empty group after it "
            "(by default 7 days): groups that have to be idle for longer never become stale (this policy waits for "
            f"up to {longest / 86_400:.3g} days)"
        ]
    days, errors, warnings = retention_minutes / 1_440, list[str](), list[str]()
    for rule in deleting:
        idle, notice = rule.min_idle_seconds, rule.notice_seconds
        if notice >= retention_minutes * 60:
            errors.append(
                f"rule {rule.name!r}: a notice of {notice / 86_400:.3g} days is no shorter than the {days:.3g} days "
                "after which brokers forget the offsets of an empty group (offsets.retention.minutes): shorten it"
            )
        elif idle + notice >= retention_minutes * 60:
            warnings.append(
                f"rule {rule.name!r} waits for {(idle + notice) / 86_400:.3g} days (idle time and notice), and brokers "
                f"forget the offsets of an empty group after {days:.3g} days (offsets.retention.minutes): most of its "
                "groups are gone before. Raise the retention, or lower idle or notice"
            )
    return errors, warnings
