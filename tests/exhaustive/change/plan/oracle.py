"""What docs/howto/policy.md and docs/formats.md say of a plan, read naively: no code of the package is used.

A group is a mapping with ``id``, ``type``, ``topics``, ``family``, ``shape``, ``idle``, ``observations`` and
``verdict``; a policy is what its YAML file has.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

Facts = Mapping[str, Any]
_HOURS = {"d": 24, "h": 1}


def seconds(text: str) -> float:
    return float(Decimal(text[:-1]) * _HOURS[text[-1]] * 3_600)


def as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def is_like(pattern: str, text: str) -> bool:
    """Whether a pattern matches, letter by letter. No glob matches the empty id."""
    if pattern.startswith("re:"):
        return re.fullmatch(pattern[3:], text) is not None
    return bool(text) and _glob(pattern, text)


def _glob(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_glob(pattern[1:], text[start:]) for start in range(len(text) + 1))
    if not text:
        return False
    if pattern[0] == "[" and "]" in pattern[2:]:
        end = pattern.index("]", 2)
        return text[0] in pattern[1:end] and _glob(pattern[end + 1 :], text[1:])
    return pattern[0] in (text[0], "?") and _glob(pattern[1:], text[1:])


def is_kept_by(pattern: str, text: str) -> bool:
    """Whether a pattern that keeps does: as it is spelled, the same letters composed otherwise, and ``*`` all ids."""
    pattern, composed = (unicodedata.normalize("NFC", each) for each in (pattern, text))
    return pattern == "*" or composed == pattern or is_like(pattern, composed) or is_like(pattern, text)


def owner_of(policy: Facts, facts: Facts) -> str | None:
    """The owner without a rule's: by the mapping, else by what the id begins with."""
    for name, owner in policy.get("owners", {}).items():
        if any(is_like(pattern, facts["id"]) for pattern in as_list(owner.get("groups", []))):
            return str(name)
    if policy.get("owner_from_id") == "{owner}.*" and (before := facts["id"].partition("."))[0] and before[1]:
        return str(before[0])
    return None


def holds(policy: Facts, rule: Facts, facts: Facts) -> bool | None:
    """Whether a rule matches; ``None`` where it may. The last client of no group is known here."""
    deletes, match = rule["action"] == "delete", rule.get("match", {})
    wanted, unwanted = (is_like, is_kept_by) if deletes else (is_kept_by, is_like)
    by_client = any("clients" in each.get("match", {}) for each in policy["rules"])
    found: list[bool | None] = []
    for name, value in match.items():
        values = as_list(value)
        if name == "groups":
            found.append(any(wanted(pattern, facts["id"]) for pattern in values))
        elif name == "except":
            found.append(not any(unwanted(pattern, facts["id"]) for pattern in values))
        elif name == "owners":
            owner = owner_of(policy, facts)
            found.append(None if owner is None and by_client else owner in values)
        elif name == "types":
            found.append(None if facts["type"] == "unknown" else facts["type"] in values)
        elif name == "families":
            found.append(facts["shape"] in values or facts["family"] in values)
        elif name == "topics":
            found.append(any(is_like(pattern, topic) for pattern in values for topic in facts["topics"]))
        else:
            found.append(None)
    return False if False in found else None if None in found else True


def full(policy: Facts, rule: Facts) -> dict[str, Any]:
    """A rule with what it leaves out."""
    defaults = {"idle": "7d", "observations": 2, "notice": "0d", **policy.get("defaults", {})}
    return {**defaults, **rule}


def deciding(policy: Facts, facts: Facts) -> list[dict[str, Any]]:
    """The rule that decides, and before it those that may match."""
    maybe = []
    for rule in [*policy["rules"], {"name": "default", **{"action": "keep", **policy.get("defaults", {})}}]:
        outcome = holds(policy, rule, facts)
        if outcome is not False:
            maybe.append(full(policy, rule))
        if outcome:
            return maybe
    raise AssertionError("the default matches every group")


def reasons_to_keep(policy: Facts, facts: Facts, exclude: Sequence[str] = ()) -> set[str]:
    """All names of reasons for which a group is kept, beside notices and caps."""
    if facts["verdict"] != "stale":
        return {facts["verdict"]}
    rules, found = deciding(policy, facts), set[str]()
    if any(is_kept_by(pattern, facts["id"]) for pattern in as_list(policy.get("protect", []))):
        found.add("protected")
    if any(is_kept_by(pattern, facts["id"]) for pattern in exclude) or not facts["id"]:
        found.add("excluded")
    for rule in rules:
        if rule["action"] != "delete" and (rule is rules[-1] or rules[-1]["action"] == "delete"):
            found.add("reported" if rule["action"] == "report" else "by_rule")
    if facts["idle"] < max(seconds(rule["idle"]) for rule in rules):
        found.add("waiting")
    if facts["observations"] < max(rule["observations"] for rule in rules):
        found.add("waiting")
    return found


def planned(policy: Facts, candidates: Sequence[Facts], found: int, max_groups: int, max_share: Decimal) -> list[str]:
    """The ids of the planned groups, in order: the longest idle within the caps of rules and of the plan."""
    taken: dict[str, int] = {}
    chosen = []
    for facts in sorted(candidates, key=lambda each: (-each["idle"], each["id"])):
        rules = deciding(policy, facts)
        caps = [(rule["name"], rule["max_groups"]) for rule in rules if "max_groups" in rule]
        caps += [(rule["name"], int(found * Decimal(str(rule["max_share"])))) for rule in rules if "max_share" in rule]
        if all(taken.get(name, 0) < cap for name, cap in caps):
            chosen.append(facts["id"])
            for rule in rules:
                taken[rule["name"]] = taken.get(rule["name"], 0) + 1
    limits = policy.get("limits", {})
    most = min(max_groups, limits.get("max_groups", max_groups), int(found * max_share))
    return chosen[: min(most, int(found * Decimal(str(limits.get("max_share", 1)))))]
