import hashlib
import json
import os
import traceback
from pathlib import Path
from textwrap import dedent

import pytest

from airflow_kafka_groups.exceptions import PolicyError, StorageError
from airflow_kafka_groups.judge.policy import yaml_lines
from airflow_kafka_groups.judge.policy.policy_file import FleetCluster, PolicyFile, compare_policies, load_policy
from airflow_kafka_groups.judge.policy.rules import RuleAction, RuleMatcher, facts_of
from tests.unit.judge.policy.files import policy_of, write_policy

DAY = 86_400.0
POLICY = """\
    version: 1
    defaults: {idle: 14d, observations: 3, contact: platform@example.com}
    limits: {max_groups: 50, max_share: 0.25, max_plan_age: 12h, max_gap: 2d, require_commit_log: true}
    protect: flink-*
    owners:
      payments: {groups: ["payments.*", "pay-*"], contact: payments@example.com}
    owner_from_id: "{owner}.*"
    keep_file: keep.txt
    owner_file: owners.yaml
    rules:
      - name: critical
        match: {groups: "*.critical.*"}
        action: keep
      - name: payments
        match: {owners: payments, types: [classic]}
        action: delete
        idle: 30d
        notice: 7d
        approval: always
        max_groups: 5
      - use: console-consumers
      - use: uuid-tails
        name: generated
        action: report
    """
KEEP = "# kept by their owners\npay-me   # since March\n\nre:batch-[0-9]+\n"
OWNERS = "'old-*': legacy\nsearch.*: search\n"


def complete(folder: Path) -> PolicyFile:
    return policy_of(folder, POLICY, keep_txt=KEEP, owners_yaml=OWNERS)


def test_a_complete_file_becomes_rules_in_order(tmp_path: Path) -> None:
    policy = complete(tmp_path)
    keep, critical, payments, console, generated, default = policy.rules
    assert [rule.name for rule in policy.rules] == [
        "keep_file", "critical", "payments", "console-consumers", "generated", "default",
    ]  # fmt: skip
    assert keep.action is RuleAction.KEEP
    assert keep.match.groups == ("pay-me", "pay-me   # since March", "re:batch-[0-9]+")
    assert (critical.action, critical.min_idle_seconds, critical.min_observations) == (RuleAction.KEEP, 14 * DAY, 3)
    assert (payments.min_idle_seconds, payments.notice_seconds, payments.approval) == (30 * DAY, 7 * DAY, True)
    assert (payments.max_groups, payments.match.owners, payments.match.types) == (5, ("payments",), ("classic",))
    assert (console.action, console.min_idle_seconds, console.min_observations) == (RuleAction.DELETE, DAY, 3)
    assert (generated.action, generated.match.families) == (RuleAction.REPORT, ("uuid",))
    assert (default.action, default.match.is_empty) == (RuleAction.KEEP, True)
    assert policy.protected == ("flink-*",)
    assert policy.limits == {
        "max_groups": 50, "max_share": 0.25, "max_plan_age_seconds": DAY / 2, "max_gap_seconds": 2 * DAY,
        "require_commit_log": True,
    }  # fmt: skip
    assert {name: policy.owners.owner_of(name) for name in ("pay-1", "old-x", "data-platform.app.x", "x")} == {
        "pay-1": "payments", "old-x": "legacy", "data-platform.app.x": "data-platform", "x": None,
    }  # fmt: skip
    assert (policy.owners.contact_of("payments"), policy.owners.contact_of("x")) == (
        "payments@example.com", "platform@example.com",
    )  # fmt: skip


def test_a_comparison_keeps_share_groups_whose_type_the_rule_does_not_name(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "version: 1\nrules:\n  - {name: all, action: delete, idle: 3d}\n")
    classic, share = compare_policies(None, policy, [("a", "classic"), ("s", "share")], None)
    assert classic.after == "delete after 3d, 2 snapshots (rule 'all')"
    assert share.after == "keep (rule 'all' does not name the type 'share')"


def test_the_digest_is_that_of_the_file_and_of_those_beside_it(tmp_path: Path) -> None:
    path = write_policy(tmp_path, "version: 1\nrules: [{use: uuid-tails}]\n")
    assert load_policy(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()
    first = complete(tmp_path).digest
    listed = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in
              ("keep.txt", "owners.yaml", "policy.yaml")}  # fmt: skip
    assert (
        first == hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in listed.items()).encode()).hexdigest()
    )
    (tmp_path / "keep.txt").write_text(KEEP + "another\n")
    assert load_policy(tmp_path / "policy.yaml").digest != first


@pytest.mark.parametrize("place", ["policy.yaml", "keep.txt", "owners.yaml"])
@pytest.mark.parametrize("kind", ["device", "pipe", "large"])
def test_what_has_no_end_is_not_read(place: str, kind: str, tmp_path: Path) -> None:
    """``/dev/zero`` let a task grow to 6 GiB, and a pipe let it wait without an end."""
    text = "version: 1\nkeep_file: keep.txt\nowner_file: owners.yaml\nrules: [{name: all, action: keep}]\n"
    path = write_policy(tmp_path, text, keep_txt="", owners_yaml="")
    named = tmp_path / place
    named.unlink()
    if kind == "device":
        named.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(named)
    else:
        named.touch()
        os.truncate(named, 14 << 30)
    error, why = (PolicyError, "too large") if kind == "large" else (StorageError, "a device or a pipe")
    with pytest.raises(error, match=why):
        load_policy(path)


def test_a_folder_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"the policy is a folder: .*Name the file in it"):
        load_policy(tmp_path)


RULE = "rules: [{name: r, match: {groups: 'a*'}, action: delete}]"
WRONG = {
    "no file at all": (None, "the policy is missing: there is no"),
    "empty": ("", "policy.yaml, line 1: is empty: begin with 'version: 1', and 'rules:' with at least one rule"),
    "a list": ("- a\n", "policy.yaml, line 1: .* must be a mapping with the keys version and rules"),
    "a tab": ("version: 1\nrules:\n\t- name: r\n", "policy.yaml, line 3: this is no YAML: .*indent by spaces"),
    "no rules": ("version: 1\n", "policy.yaml, line 1: lacks 'rules': add it"),
    "no YAML": ("version: 1\nrules: [\n", "policy.yaml, line 3: this is no YAML"),
    "a tag": ("version: !!python/object:os.system 1\nrules: []\n", "policy.yaml, line 1: this is no YAML"),
    "a key twice": ("version: 1\nversion: 1\n", "policy.yaml, line 2: version is there twice"),
    "a key that is no string": ("version: 1\n1: 2\n", "line 2: the key 1 must be a string"),
    "an unknown key": (f"version: 1\nrulez: []\n{RULE}", "line 2: rulez is not a setting; did you mean 'rules'"),
    "an unknown key of a rule": (
        "version: 1\nrules:\n- name: r\n  action: delete\n  idel: 7d\n",
        r"policy.yaml, line 5: rules\[0\].idel is not a setting; did you mean 'idle'",
    ),
    "an unknown condition": (
        "version: 1\nrules:\n- name: r\n  action: delete\n  match: {group: x}\n",
        r"line 5: rules\[0\].match.group is not a setting; did you mean 'groups'",
    ),
    "no version": (RULE, "line 1: lacks 'version'"),
    "a later version": (f"version: 2\n{RULE}", r"line 1: version \(got 2\) must be as follows: the version"),
    "no unit": (
        "version: 1\nrules:\n- {name: r, action: delete, idle: 7}",
        r"line 3: rules\[0\].idle \(got 7\) must be as follows: a time: a number and a unit",
    ),
    "no time": ("version: 1\nrules:\n- {name: r, action: delete, idle: 0d}", r"rules\[0\].idle .*above 0"),
    "one observation": ("version: 1\nrules:\n- {name: r, action: delete, observations: 1}", "at least 2"),
    "an unknown action": ("version: 1\nrules:\n- {name: r, action: remove}", r"\(got 'remove'\) must be as follows"),
    "no action": ("version: 1\nrules:\n- name: r\n", r"line 3: rules\[0\] must be as follows: a rule has a name"),
    "a bad pattern": (
        "version: 1\nrules:\n- {name: r, action: keep, match: {groups: 're:('}}", "correct the regular expression"
    ),
    "an empty list": ("version: 1\nrules:\n- {name: r, action: delete, match: {groups: []}}", "groups is empty"),
    "an unknown type": ("version: 1\nrules:\n- {name: r, action: delete, match: {types: queue}}", "one of classic"),
    "a family's name without a shape": (
        "version: 1\nrules:\n- {name: r, action: delete, match: {families: 'app-<uid>'}}", "one of uuid"
    ),
    "an unknown shape": ("version: 1\nrules:\n- {name: r, action: delete, match: {families: uid}}", "one of uuid"),
    "no such ready-made rule": (
        "version: 1\nrules:\n- use: console-consumer\n", "no ready-made rule; did you mean 'console-consumers'"
    ),
    "a name twice": ("version: 1\nrules:\n- {name: r, action: keep, match: {groups: a}}\n- {name: r, action: keep}",
                     r"line 4: rules\[1\].name \(got 'r'\) is taken"),
    "a reserved name": ("version: 1\nrules:\n- {name: default, action: keep}", "is taken"),
    "a keep file elsewhere": (f"version: 1\nkeep_file: ../keep\n{RULE}", "beside the policy, without a folder"),
    "no keep file": (f"version: 1\nkeep_file: keep.txt\n{RULE}", "the keep_file of policy.yaml is missing"),
    "a naming rule without an owner": (f"version: 1\nowner_from_id: 'x.*'\n{RULE}", "must contain {owner} once"),
    "a boolean as a pattern": ("version: 1\nrules:\n- {name: r, action: keep, match: {groups: no}}", "in quotes"),
    "a name with a line's end": ('version: 1\nrules: [{name: "a\\n", action: keep}]\n', r"the rule's name: letters"),
    "an owner without a name": (f"version: 1\nowners: {{'': {{groups: x}}}}\n{RULE}", "line 2: owners .*not blank"),
    "a blank owner": (f"version: 1\nowners: {{' ': {{groups: x}}}}\n{RULE}", "line 2: owners .*not blank"),
    "a number of thousands of digits": (f"version: 1\nmax_groups: {'1' * 5_000}\n{RULE}", "line 2: 1.* cannot be read"),
    "and as hexadecimal": (f"version: 1\nmax_groups: 0x{'f' * 4_000}\n{RULE}", "line 2: 0xf.* cannot be read"),
    "a tag that its value is not of": (f"version: 1\nmax_groups: !!bool x\n{RULE}", "line 2: x cannot be read"),
    "a number by tag that is empty": (f"version: 1\nmax_groups: !!int ''\n{RULE}", "line 2: .*cannot be read"),
    "a time by tag that is none": (f"version: 1\nmax_groups: !!timestamp x\n{RULE}", "line 2: x cannot be read"),
    "an alias to itself": ("version: &a [*a]\n", "this is no YAML|values"),
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "hunter2\n",
        'sasl.jaas.config=PlainLoginModule required username="u" password="hunter2";\n',
        "[smtp]\nsmtp_password = hunter2\n",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        "broker:9092:*:user:hunter2:\n",
        "password: *hunter2\n",
        "password: !hunter2 x\n",
        "password: &hunter2 x\nother: &hunter2 y\n",
        *("hunter2: ann\nhunter2: bob\n", "password: !!int hunter2\n", "[[pin, !!bool hunter2]]\n"),
    ],
)
def test_a_file_of_secrets_that_is_named_as_the_policy_is_not_shown(text: str, tmp_path: Path) -> None:
    """Who triggers a run names the file, and reads the log: a worker can read more files than they may."""
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(PolicyError, match=r"policy.yaml, line \d") as caught:
        load_policy(tmp_path / "policy.yaml")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("text", ["4711: ann\n", "pin: 4711-99-88\n", "{pins: {4711: ann}}\n"])
def test_nor_is_a_number_in_it(text: str, tmp_path: Path) -> None:
    """It is no key, and no date; what a value is was looked at before what the file is."""
    with pytest.raises(PolicyError, match=r"line 1: this is no policy") as caught:
        policy_of(tmp_path, text)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_line(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PolicyError, match=message):
        load_policy(path)


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as raised:
        policy_of(tmp_path, "version: 1\nrules:\n- {name: r, action: remove}\n- {name: s, action: keep, idle: x}\n")
    lines = str(raised.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["policy.yaml, line 3", "policy.yaml, line 4"]


def test_problems_of_the_files_beside_it_name_those(tmp_path: Path) -> None:
    text = dedent(POLICY)
    with pytest.raises(PolicyError, match=r"keep.txt, line 2: .*correct the regular expression"):
        policy_of(tmp_path, text, keep_txt="fine\nre:(\n", owners_yaml=OWNERS)
    with pytest.raises(PolicyError, match=r"owners.yaml, line 2: search\.\* \(got 7\) must be the name of an owner"):
        policy_of(tmp_path, text, keep_txt=KEEP, owners_yaml="old: legacy\nsearch.*: 7\n")


def test_aliases_cannot_grow_without_end(tmp_path: Path) -> None:
    lines = ["version: 1", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(PolicyError, match="more than 200,000 values"):
        policy_of(tmp_path, "\n".join(lines))


def test_what_follows_too_many_values_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a file of 4 MiB took a minute and 1.4 GB, before its values were counted."""
    monkeypatch.setattr(yaml_lines, "_MOST_VALUES", 10)
    with pytest.raises(PolicyError, match="more than 10 values: leave some out"):
        policy_of(tmp_path, "[" + "[]," * 10 + "]\n}")
    pairs = yaml_lines.read_yaml(b"{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}", "owners.yaml")
    assert len(pairs.value) == 9, "keys are no values: an owner file may have a line for each of 120,000 groups"


@pytest.mark.safety
@pytest.mark.parametrize(
    ("line", "kept", "not_kept"),
    [
        ("job #7", ["job #7", "job"], ["job #8"]),
        ("job #*", ["job #7", "job"], ["jobs"]),
        ("  job # Monday's", ["job", "job # Monday's"], ["Monday"]),
        ("#job, [a", ["#job, [a"], ["job", "#job"]),
        ("re:job #[0-9]", ["job #7", "job"], ["job #77"]),
        ("job\u20287", ["job\u20287"], ["job", "7"]),
        *((f"job{blank}", ["job", f"job{blank}"], [f"{blank}job"]) for blank in " \t\xa0\u3000"),
        ("job-? ", ["job-1", "job-? "], ["job-1 "]),
        ("job-1\r\njob-2\r", ["job-1", "job-2"], ["job-3"]),
        ("re:a{1,3}", ["aaa"], ["aaaa"]),
    ],
)
def test_a_line_that_can_be_read_in_two_ways_keeps_in_both(
    line: str, kept: list[str], not_kept: list[str], tmp_path: Path
) -> None:
    policy = policy_of(tmp_path, "version: 1\nkeep_file: keep.txt\nrules: [{name: a, action: delete}]\n", keep_txt=line)
    matcher = RuleMatcher(policy.rules)
    by = {id_: matcher.rule_for(facts_of(id_, policy.owners)).rule.name for id_ in (*kept, *not_kept)}
    assert by == {**dict.fromkeys(kept, "keep_file"), **dict.fromkeys(not_kept, "a")}


@pytest.mark.parametrize("line", ["a-*, b-*", "a,b,", "re:a{1,3}, re:b+", "re:job # no regex (", "ok\nre:("])
def test_a_line_that_is_no_pattern_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"keep.txt, line [12]: "):
        policy_of(tmp_path, "version: 1\nkeep_file: keep.txt\nrules: [{name: a, action: delete}]\n", keep_txt=line)


LISTS = (
    "flink-*, pay-*",
    "flink-*,pay-*",
    "['flink-*', 'pay-*']",
    '["flink-*"]',
    "re:flink-.*, re:pay-.*",
    "flink-*\npay-*",
)


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize(
    ("before", "where"),
    [
        ("protect: {}", "line 2: protect"),
        ("owners: {{pay: {{groups: {}}}}}", "line 2: owners.pay.groups"),
        ("rules: [{{name: a, action: delete, match: {{except: {}}}}}]", "line 2: rules[0].match.except"),
    ],
)
def test_a_list_in_one_string_is_no_pattern_that_keeps_nothing(
    before: str, where: str, text: str, tmp_path: Path
) -> None:
    rules = "" if "rules" in before else "rules: [{name: a, action: delete}]\n"
    with pytest.raises(PolicyError) as refused:
        policy_of(tmp_path, f"version: 1\n{before.format(json.dumps(text))}\n{rules}")
    assert f"{where} (got {text!r}) must be as follows: a string, or a list of strings" in str(refused.value)


def test_a_pattern_with_a_comma_stands_in_a_list_or_is_a_regular_expression(tmp_path: Path) -> None:
    rules = "rules: [{name: a, action: delete, match: {groups: 're:a{1,3}', except: '[ab]-[0-9]'}}]"
    policy = policy_of(tmp_path, f"version: 1\nprotect: ['a, b']\n{rules}\n")
    assert policy.protected == ("a, b",)
    assert policy.rules[0].match.groups == ("re:a{1,3}",)


def clusters(text: str, folder: Path) -> tuple[FleetCluster, ...]:
    return policy_of(folder, f"version: 1\n{text}\n{RULE}").clusters


def test_clusters_have_names_and_connections(tmp_path: Path) -> None:
    assert clusters("clusters:\n  prod: {connection: kafka_prod}\n  staging:\n", tmp_path) == (
        FleetCluster("prod", "kafka_prod"),
        FleetCluster("staging", "staging"),
    )
    assert clusters("", tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("clusters:\n  a: {connection: x}\n  b: {connection: x}", 4, "two histories. Remove one"),
        ("clusters:\n  a: {connection: b}\n  b:", 4, "two histories. Remove one"),
        ("clusters:\n  a: {connection: b}\n  c: {connection: 'b '}", 4, "(got 'b ') begins or ends with a space"),
        ("clusters:\n  a: {connection: ' '}", 3, "begins or ends with a space"),
        ("clusters:\n  ../a:", 3, "cannot be the name of a folder: use 1 to 100 letters"),
        ("clusters:\n  a:\n  A:", 4, "differs from 'a' in case only"),
        ("clusters:\n  a: {conection: x}", 3, "did you mean 'connection'?"),
        ("clusters:\n  a: {connection: ''}", 3, "the id of the cluster's connection"),
        ("clusters: {}", 2, "at least one"),
        ("clusters: [a]", 2, "by the names of their folders"),
    ],
)
def test_what_cannot_be_meant_of_clusters_names_its_line(text: str, line: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as error:
        clusters(text, tmp_path)
    assert f"policy.yaml, line {line}: clusters" in str(error.value)
    assert why in str(error.value)


def test_a_policy_that_names_its_clusters_is_for_no_other(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, f"version: 1\nclusters: {{prod: , staging: }}\n{RULE}")
    policy.require_cluster("prod")
    with pytest.raises(PolicyError, match="is for the clusters prod, staging, and not for 'test': add it to clusters"):
        policy.require_cluster("test")
    policy_of(tmp_path, f"version: 1\n{RULE}").require_cluster("test")
