"""A policy file: read, checked by its schema and its own tests, and turned into rules. Any error: nothing is planned.

A keep file (patterns of groups to keep, one a line) and an owner file (``pattern: owner``) lie beside the policy, so
that owners can answer in a file of their own. The digest covers all of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from airflow_kafka_groups.durations import LONGEST_SECONDS, SECONDS, parse_duration, show_duration
from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError, StorageError
from airflow_kafka_groups.judge.policy.lint import lint, rule_places
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.judge.policy.quiet_times import QuietTimes, read_quiet_times
from airflow_kafka_groups.judge.policy.rules import (
    DEFAULT_RULE,
    Match,
    Rule,
    RuleAction,
    RuleFacts,
    RuleMatcher,
    Ruling,
    facts_of,
    facts_of_all,
)
from airflow_kafka_groups.judge.policy.yaml_lines import Document, Path, Problems, did_you_mean, read_yaml
from airflow_kafka_groups.observe.patterns import ALWAYS_PROTECTED, GroupFilter, check_patterns, is_regex, spellings_of
from airflow_kafka_groups.storage.access import raised_by
from airflow_kafka_groups.storage.disk import LARGEST
from airflow_kafka_groups.storage.json_files import read_named
from airflow_kafka_groups.storage.layout import StoragePath
from airflow_kafka_groups.storage.paths import CLUSTER_NAME_RULE, is_cluster_name
from airflow_kafka_groups.storage.url_secrets import has_secret, is_webhook


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """One cluster of a fleet.

    :param name: the cluster's folder in the storage.
    :param conn_id: the id of its connection.
    """

    name: str
    conn_id: str


def read_clusters(problems: Problems, given: Mapping[str, Mapping[str, Any] | None]) -> tuple[FleetCluster, ...]:
    """Return the clusters in the order of the file, and add what cannot be meant to the problems.

    :param given: the section ``clusters``, checked by the schema.
    """
    found: dict[str, FleetCluster] = {}
    folders: dict[str, str] = {}
    for name, settings in given.items():
        path: Path = ("clusters", name)
        conn_id = (settings or {}).get("connection", name)
        if conn_id != conn_id.strip():
            problems.add((*path, "connection"), f"(got {conn_id!r}) begins or ends with a space: remove it")
        elif not is_cluster_name(name):
            problems.add(path, f"cannot be the name of a folder: {CLUSTER_NAME_RULE}")
        elif (other := folders.get(name.lower())) is not None:
            problems.add(path, f"differs from {other!r} in case only, and some storages take both for one: rename it")
        elif conn_id in found:
            problems.add(
                (*path, "connection"),
                f"(got {conn_id!r}) is that of {found[conn_id].name!r}: two folders for one cluster are two histories. "
                "Remove one",
            )
        else:
            folders[name.lower()] = name
            found[conn_id] = FleetCluster(name, conn_id)
    return tuple(found.values())


def keep_lines(problems: Problems, name: str, content: bytes) -> Iterator[str]:
    """Yield the patterns of a keep file: one a line, with comments after ``#`` at the start of a line or a space.

    A line that may mean several patterns, such as one with a comma, is a problem. What may be a comment and may be part
    of an id keeps both.
    """
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as exc:
        raise PolicyError(f"{name} is not UTF-8: {exc}; save it as UTF-8") from exc
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare[:2] in ("", "#", "# "):
            continue
        if bare.startswith("#"):
            yield f"re:{re.escape(bare)}"  # a comment, or an id that begins so
            continue
        pattern = bare.partition(" #")[0].strip()
        try:
            if "," in pattern and (not is_regex(pattern) or re.search(r",\s*re:", pattern)):
                remedy = "has a comma: write one pattern a line, and '?' for a comma in an id"
                raise ConfigurationError("pattern", pattern, remedy)
            yield from check_patterns("pattern", dict.fromkeys((pattern, *spellings_of(line.removesuffix("\r")))))
        except ConfigurationError as exc:
            problems.found.append((number, f"{name}, line {number}: {exc}"))


READY_MADE: Mapping[str, Mapping[str, Any]] = {
    # kafka-console-consumer without --group: console-consumer-<number>.
    "console-consumers": {"match": {"groups": ["console-consumer-*"]}, "action": "delete", "idle": "1d"},
    # Spark's own groups; they belong to a query that has ended.
    "spark-kafka-sources": {
        "match": {"groups": ["spark-kafka-source-*", "spark-kafka-relation-*"]},
        "action": "delete",
        "idle": "2d",
    },
    # A group id made from a random UUID is never used again by the next process.
    "uuid-tails": {"match": {"families": ["uuid"]}, "action": "delete", "idle": "3d"},
    "preview-environments": {
        "match": {"groups": ["preview-*", "*-preview-*", "*.preview.*", "pr-[0-9]*", "*-pr-[0-9]*", "review-*"]},
        "action": "delete",
        "idle": "3d",
    },
}
"""The rules by name, as a file would have them. A file that uses one can set anything else in it."""


SCHEMA_FILE = "policy.schema.json"
NEEDED = ("version", "rules")
"""The keys that a policy must have."""


@cache
def policy_schema() -> dict[str, Any]:
    """Return the schema."""
    schema: dict[str, Any] = json.loads((files(__package__) / SCHEMA_FILE).read_text("utf-8"))
    return schema


@cache
def _validator() -> Any:
    """Return the validator. To JSON, ``2.0`` is an integer, and ``.nan`` a number that exceeds no limit."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    def is_integer(_: Any, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def is_number(checker: Any, value: Any) -> bool:
        if is_integer(checker, value):
            return abs(int(value)) <= sys.float_info.max  # an integer may have any number of digits
        return isinstance(value, float) and math.isfinite(value)

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": is_integer, "number": is_number})
    return extend(Draft202012Validator, type_checker=types)


def check_schema(problems: Problems) -> None:
    """Add what the schema forbids. Each description in the schema is the remedy."""
    for error in _validator()(policy_schema()).iter_errors(problems.document.value):
        path: Path = tuple(error.absolute_path)
        if error.instance is None and not path:
            problems.add(path, "is empty: begin with 'version: 1', and 'rules:' with at least one rule")
            continue
        if error.validator == "additionalProperties":
            known = list(error.schema["properties"])
            for key in sorted(set(error.instance) - set(known)):
                problems.add((*path, key), f"is not a setting; {did_you_mean(key, known)}")
        elif error.validator == "required":
            for name in sorted(set(error.validator_value) - set(error.instance)):
                problems.add(path, f"lacks {name!r}: add it")
        else:
            value = "" if isinstance(error.instance, dict | list) else f"(got {error.instance!r}) "
            wanted = error.schema.get("description", error.message)
            problems.add(path, f"{value}must be as follows: {wanted}")


def run_tests(
    tests: Sequence[Mapping[str, Any]],
    rules: Sequence[Rule],
    owners: OwnerRules,
    problems: Problems,
    protected: Sequence[str],
) -> None:
    """Add a problem for each test that fails.

    :param tests: the section of the file, checked by the schema.
    :param protected: patterns of groups that no rule may delete: they are kept, as a plan keeps them.
    """
    if not tests:
        return
    matcher = RuleMatcher(rules)
    names = [rule.name for rule in rules]
    safe = GroupFilter(protected=(*ALWAYS_PROTECTED, *protected))
    for place, test in enumerate(tests):
        path: Path = ("tests", place)
        topics = test.get("topics", ())
        facts = facts_of(
            test["group"],
            owners,
            group_type=test.get("type", "classic"),
            topics=frozenset([topics] if isinstance(topics, str) else topics),
            client=test.get("client"),
        )
        ruling = matcher.rule_for(facts)
        is_safe = ruling.rule.deletes and safe.protects(test["group"])
        found = {
            "rule": ruling.rule.name,
            "action": (RuleAction.KEEP if is_safe else ruling.rule.action).value,
            "owner": ruling.rule.owner or facts.owner,
        }
        if "rule" in test and test["rule"] not in names:
            problems.add((*path, "rule"), f"(got {test['rule']!r}) is no rule of this file")
            continue
        for name, value in found.items():
            if name in test and test[name] != value:
                by = "" if name == "rule" else f" (by rule {ruling.rule.name!r})"
                if is_safe and name == "action":
                    by = f" ({safe.why_not(test['group'])})"
                expected = f"expected {test[name]!r}, got {value!r}{by}"
                problems.add((*path, name), f"fails for group {test['group']!r}: {expected}")


KEEP_FILE_RULE = "keep_file"
"""The name of the rule that the keep file amounts to. It is the first."""
_DEFAULTS: Mapping[str, Any] = {"action": "keep", "idle": "7d", "observations": 2, "notice": "0d"}
_REFUSED_CONTACT = (
    "is a URL with a secret in it, and plans, reports and records show it: put the URL into an Airflow connection, and "
    "name a channel or that connection here"
)
_LIMITS = {"max_plan_age": "max_plan_age_seconds", "max_gap": "max_gap_seconds"}


@dataclass(frozen=True, kw_only=True)
class PolicyFile:
    """A policy file.

    :param digest: the SHA-256 of its bytes; with files beside it, of one line for each, as ``sha256sum`` writes it.
    :param rules: its rules; the last one matches every group.
    :param limits: limits of a complete plan, by the names of ``PlanPolicy``.
    :param protected: patterns of groups that no rule may delete.
    :param warnings: what is allowed, and may not be meant.
    :param clusters: the clusters that it is for; none for any.
    :param quiet: the times in which nothing is deleted.
    :param notify: the notifier of owners, see ``PlanPolicy.notify``.
    :param places: where the rules are, by name, for messages.
    """

    path: str
    digest: str
    rules: tuple[Rule, ...]
    limits: Mapping[str, Any]
    protected: tuple[str, ...]
    owners: OwnerRules
    warnings: tuple[str, ...]
    clusters: tuple[FleetCluster, ...]
    quiet: QuietTimes
    notify: Mapping[str, str]
    places: Mapping[str, str] = field(compare=False)

    def rule(self, groups: Sequence[tuple[str, str]]) -> list[tuple[RuleFacts, Ruling]]:
        """Return what is known of planned groups, and what the rules say: a plan has no topics and no last clients.

        :param groups: the id and the type of each.
        """
        unknown = [None] * len(groups)
        facts = facts_of_all([one[0] for one in groups], self.owners, [one[1] for one in groups], unknown, unknown)
        return list(zip(facts, RuleMatcher(self.rules).rule_all(facts), strict=True))

    def require_cluster(self, name: str) -> None:
        """Raise ``PolicyError`` if the file names its clusters, and this is none of them.

        :param name: the cluster's folder in the storage.
        """
        names = [cluster.name for cluster in self.clusters]
        if names and name not in names:
            raise PolicyError(
                f"the policy {self.path} is for the clusters {', '.join(names)}, and not for {name!r}: add it to "
                "clusters, or use its own policy"
            )


def load_policy(path: StoragePath) -> PolicyFile:
    """Read a policy and the files beside it.

    Raises ``PolicyError`` that names every problem with its line, also for a test of the file that fails, and
    ``StorageError``.
    """
    content = _read(path, "the policy")
    problems = Problems(read_yaml(content, path.name, NEEDED))
    check_schema(problems)
    problems.raise_if_any()
    value = problems.document.value
    beside = {
        name: _read(path.parent / value[name], f"the {name} of {path.name}")
        for name in ("keep_file", "owner_file")
        if name in value
    }
    owners = _owners(problems, beside.get("owner_file"))
    rules = _rules(problems, beside.get("keep_file"))
    protected = _patterns(problems, ("protect",), value.get("protect", ()))
    clusters = read_clusters(problems, value.get("clusters", {}))
    quiet = read_quiet_times(
        problems,
        value.get("timezone", "UTC"),
        _strings(value.get("quiet_hours", ())),
        _strings(value.get("holidays", ())),
    )
    limits = _limits(problems, value.get("limits", {}))
    if limits.get("max_plan_age_seconds") == 0:
        problems.add(("limits", "max_plan_age"), "is 0: no plan could be applied. Write a time above 0, such as 12h")
    problems.raise_if_any()
    warnings = lint(rules, owners, problems, protected, limits.get("max_gap_seconds", 0.0))
    run_tests(value.get("tests", ()), rules, owners, problems, protected)
    problems.raise_if_any()
    every = {path.name: content, **{value[name]: data for name, data in beside.items()}}
    return PolicyFile(
        path=str(path),
        digest=_digest(every),
        rules=rules,
        limits=limits,
        protected=protected,
        owners=owners,
        warnings=tuple(warnings),
        clusters=clusters,
        quiet=quiet,
        notify=value.get("notify", {}),
        places={rule.name: problems.document.where(path) for rule, path in rule_places(rules, problems)},
    )


def _read(path: StoragePath, what: str) -> bytes:
    try:
        content = read_named(path, what, LARGEST, PolicyError)
    except StorageError as exc:
        if isinstance(raised_by(exc), IsADirectoryError):
            raise PolicyError(f"{what} is a folder: {path}. Name the file in it") from exc
        raise
    if content is None:
        raise PolicyError(f"{what} is missing: there is no {path}. Correct the path")
    return content


def _digest(every: Mapping[str, bytes]) -> str:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in every.items()}
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    return hashlib.sha256("".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()).hexdigest()


def _limits(problems: Problems, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _LIMITS.get(name, name): _duration(problems, ("limits", name), value) if name in _LIMITS else value
        for name, value in given.items()
    }


def _duration(problems: Problems, path: Path, text: str) -> float:
    """Read a duration, which has the form that the schema demands. One that is too long is a problem."""
    try:
        return parse_duration(text)
    except ValueError as exc:
        problems.add(path, str(exc))
        return LONGEST_SECONDS


def _strings(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]  # by the schema


def _patterns(problems: Problems, path: Path, value: object) -> tuple[str, ...]:
    found = _strings(value)
    try:
        return check_patterns("", found)
    except ConfigurationError as exc:
        problems.add(path, str(exc).lstrip())
        return ()


def _rules(problems: Problems, keep_file: bytes | None) -> tuple[Rule, ...]:
    """Return the rules in order: the keep file's, the policy's, and the default."""
    value = problems.document.value
    defaults = {**_DEFAULTS, **value.get("defaults", {})}
    found: list[Rule] = []
    if keep_file is not None:
        patterns = tuple(keep_lines(problems, value["keep_file"], keep_file))
        if patterns:
            found.append(_rule(problems, ("keep_file",), {"action": "keep", "match": {"groups": patterns}}, defaults))
    for place, given in enumerate(value["rules"]):
        path: Path = ("rules", place)
        made: Mapping[str, Any] = {}
        if "use" in given:
            if given["use"] not in READY_MADE:
                problems.add(
                    (*path, "use"),
                    f"(got {given['use']!r}) is no ready-made rule; {did_you_mean(given['use'], list(READY_MADE))}",
                )
                continue
            made = READY_MADE[given["use"]]
        rule = {"name": given.get("use"), **made, **given}
        if rule["name"] in (DEFAULT_RULE, KEEP_FILE_RULE) or any(rule["name"] == other.name for other in found):
            problems.add((*path, "name"), f"(got {rule['name']!r}) is taken: choose another name")
            continue
        found.append(_rule(problems, path, rule, defaults))
    return (*found, _rule(problems, ("defaults",), {"name": DEFAULT_RULE}, defaults))


def _rule(problems: Problems, path: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Rule:
    """Build a rule. A value that cannot be is a problem, and the rule then keeps."""
    values = {**defaults, **given}
    name = values.get("name", KEEP_FILE_RULE)
    try:
        conditions = {key: _strings(value) for key, value in values.get("match", {}).items()}
        for key, some in conditions.items():
            if not some:
                problems.add((*path, "match", key), "is empty: remove it, or name what it is about")
        return Rule(
            name=name,
            action=RuleAction(values["action"]),
            match=Match(**{"excepted" if key == "except" else key: some for key, some in conditions.items()}),
            min_idle_seconds=_duration(problems, (*path, "idle"), values["idle"]),
            min_observations=values["observations"],
            notice_seconds=_duration(problems, (*path, "notice"), values["notice"]),
            max_groups=values.get("max_groups"),
            max_share=values.get("max_share"),
            approval=values.get("approval") == "always",
            owner=values.get("owner"),
            max_growth_per_day=values.get("max_growth_per_day"),
        )
    except ConfigurationError as exc:
        key = {"min_idle_seconds": ("idle",), "excepted": ("match", "except")}.get(exc.field, ("match", exc.field))
        problems.add((*path, *key), str(exc))
        return Rule(name=name, action=RuleAction.KEEP, min_idle_seconds=SECONDS["weeks"], min_observations=2)


def _owners(problems: Problems, owner_file: bytes | None) -> OwnerRules:
    value = problems.document.value
    owners = value.get("owners", {})
    mapping = [
        (pattern, name)
        for name, owner in owners.items()
        for pattern in _patterns(problems, ("owners", name, "groups"), owner.get("groups", ()))
    ]
    if owner_file is not None:
        mapping += _owner_lines(read_yaml(owner_file, value["owner_file"]))
    places: dict[Path, Mapping[str, Any]] = {("defaults",): value.get("defaults", {})}
    for path, given in (places | {("owners", name): owner for name, owner in owners.items()}).items():
        if _tells_secret(given.get("contact", "")):
            problems.add((*path, "contact"), _REFUSED_CONTACT)
    naming = value.get("owner_from_id")
    try:
        return OwnerRules(
            mapping=mapping,
            naming=naming,
            contacts={name: owner["contact"] for name, owner in owners.items() if "contact" in owner},
            default_contact=value.get("defaults", {}).get("contact"),
        )
    except ConfigurationError as exc:
        problems.add(("owner_from_id",), str(exc))
        return OwnerRules()


def _tells_secret(contact: str) -> bool:
    """Return whether one of a contact's words is a secret URL: what is beside a URL, such as an address, is no user."""
    return any(is_webhook(word) or ("://" in word and has_secret(word)) for word in contact.split())


def _owner_lines(document: Document) -> Iterator[tuple[str, str]]:
    problems = Problems(document)
    given = document.value if document.value is not None else {}
    if not isinstance(given, dict):
        problems.add((), "must be a mapping of patterns to owners, such as 'payments.*: payments'")
        given = {}
    for pattern, owner in given.items():
        if not isinstance(owner, str) or not owner.strip():
            problems.add((pattern,), f"(got {owner!r}) must be the name of an owner: put it in quotes")
        elif _patterns(problems, (pattern,), pattern):
            yield pattern, owner
    problems.raise_if_any()


NO_POLICY = "keep (no policy)"


class ChangedGroup(NamedTuple):
    """A group of which two policies say different things, each with the rule that decides."""

    group_id: str
    before: str
    after: str


def compare_policies(
    before: PolicyFile | None,
    after: PolicyFile,
    groups: Iterable[tuple[str, str]],
    topics: Mapping[str, frozenset[str]] | None,
) -> list[ChangedGroup]:
    """Return the groups that an edit changes, in their order.

    A condition on a group's last client is undecided here, and the stricter rule then counts, as in a plan.

    :param before: the policy before the edit; ``None``: there was none, and every group was kept.
    :param groups: the id and the type of each group.
    :param topics: the topics with committed offsets of each group; ``None``: not known.
    """
    listed = list(groups)
    said = [_said(policy, listed, topics) for policy in (before, after)]
    rows = zip(listed, *said, strict=True)
    return [ChangedGroup(group_id, old, new) for (group_id, _), old, new in rows if old != new]


def _said(
    policy: PolicyFile | None, groups: list[tuple[str, str]], topics: Mapping[str, frozenset[str]] | None
) -> list[str]:
    if policy is None:
        return [NO_POLICY] * len(groups)
    matcher, safe = RuleMatcher(policy.rules), GroupFilter(protected=(*ALWAYS_PROTECTED, *policy.protected))
    found = list[str]()
    for group_id, group_type in groups:
        known = None if topics is None else topics.get(group_id, frozenset())
        facts = facts_of(group_id, policy.owners, group_type=group_type, topics=known)
        rule = matcher.rule_for(facts).rule
        found.append("keep (protected)" if rule.deletes and safe.protects(group_id) else _demand(rule, group_type))
    return found


def _demand(rule: Rule, group_type: str) -> str:
    if (why := rule.why_kept(group_type)) is not None:
        return f"keep (rule {rule.name!r} {why})" if rule.deletes else f"{rule.action.value} (rule {rule.name!r})"
    parts = [f"delete after {show_duration(rule.min_idle_seconds)}, {rule.min_observations} snapshots"]
    parts += [f"notice {show_duration(rule.notice_seconds)}"] if rule.notice_seconds else []
    parts += ["approval"] if rule.approval else []
    return f"{', '.join(parts)} (rule {rule.name!r})"
