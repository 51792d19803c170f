"""What a policy file may say: the schema, and no secret in a contact."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from airflow_kafka_groups.durations import PATTERN, parse_duration
from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.families import TailShape
from airflow_kafka_groups.judge.policy.policy_file import READY_MADE, policy_schema
from airflow_kafka_groups.judge.policy.retention import against_retention
from airflow_kafka_groups.judge.policy.rules import Match, Rule, RuleAction
from tests.unit.judge.policy.files import policy_of

SCHEMA = policy_schema()
RULE = SCHEMA["properties"]["rules"]["items"]["properties"]
ROOT = Path(__file__).parents[4]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_it_has_what_the_model_has() -> None:
    """A setting that the model does not know, or that no file can set, is a mistake in one of the two."""
    spelled = {"idle": "min_idle_seconds", "observations": "min_observations", "notice": "notice_seconds"}
    settings = {spelled.get(name, name) for name in RULE} - {"use", "description"}
    assert settings == set(Rule.__slots__)
    conditions = {"excepted" if name == "except" else name for name in RULE["match"]["properties"]}
    assert conditions == set(Match.__slots__)
    assert SCHEMA["$defs"]["action"]["enum"] == list(RuleAction)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def test_no_object_takes_an_unknown_key() -> None:
    objects = [node for node in nodes({**SCHEMA, "required": []}) if node.get("type") == "object"]
    assert len(objects) == 10
    assert all("additionalProperties" in node and node["description"] for node in objects)


def test_every_setting_has_a_remedy() -> None:
    settings = [value for node in nodes(SCHEMA) for value in node.get("properties", {}).values()]
    assert len(settings) > 30
    for setting in settings:
        found = SCHEMA["$defs"][setting["$ref"].rpartition("/")[2]] if "$ref" in setting else setting
        assert found["description"]


@pytest.mark.parametrize(
    ("text", "expected"), [("7d", 604_800.0), ("1.5h", 5_400.0), ("30m", 1_800.0), ("90s", 90.0), ("2w", 1_209_600.0)]
)
def test_times(text: str, expected: float) -> None:
    assert re.fullmatch(SCHEMA["$defs"]["time"]["pattern"], text)
    assert SCHEMA["$defs"]["time"]["pattern"] == PATTERN
    assert parse_duration(text) == expected


@pytest.mark.parametrize("name", READY_MADE)
def test_a_ready_made_rule_can_be_used_by_its_name_and_changed(name: str, tmp_path: Path) -> None:
    used, changed, _ = policy_of(
        tmp_path,
        f"version: 1\nrules:\n- use: {name}\n- {{use: {name}, name: mine, action: report, match: {{groups: '*'}}}}\n",
    ).rules
    assert (used.name, used.action, used.match.is_empty) == (name, RuleAction.DELETE, False)
    assert used.min_idle_seconds >= 86_400
    assert (changed.name, changed.action, changed.match) == ("mine", RuleAction.REPORT, Match(groups=("*",)))


def test_the_shapes_are_on_the_page() -> None:
    page = (ROOT / "docs" / "howto" / "policy.md").read_text()
    assert all(f"`{shape}`" in page for shape in TailShape)
    assert all(f"`{name}`" in page for name in (*READY_MADE, *RuleAction, *RULE, *RULE["match"]["properties"]))


def test_the_example_of_the_documentation_is_a_policy(tmp_path: Path) -> None:
    example = (ROOT / "docs" / "howto" / "policy.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    assert "tests:" in example
    policy = policy_of(tmp_path, example)
    assert (len(policy.rules), policy.warnings) == (9, ())
    assert against_retention(policy.rules, 7 * 1_440) == ([], []), "it fits Kafka's default retention"


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("observations: 2.0", "rules[0].observations (got 2.0) must be as follows: how many snapshots"),
        ("max_groups: 10.0", "rules[0].max_groups (got 10.0) must be as follows: the most groups"),
        ("max_share: .nan", "rules[0].max_share (got nan) must be as follows: a share of all groups"),
        (f"max_growth_per_day: {10**400}", f"rules[0].max_growth_per_day (got {10**400}) must be as follows: how many"),
        ("max_growth_per_day: .inf", "rules[0].max_growth_per_day (got inf) must be as follows: how many new groups"),
    ],
)
def test_a_number_of_another_kind_is_named_with_its_line(tmp_path: Path, setting: str, remedy: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(f"policy.yaml, line 3: {remedy}")):
        policy_of(tmp_path, f"version: 1\nrules:\n  - {{name: a, action: delete, {setting}}}\n")


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [
        ("max_groups: 100.0", "limits.max_groups (got 100.0) must be as follows: the most groups of a plan"),
        ("max_share: .nan", "limits.max_share (got nan) must be as follows: a share of all groups"),
        ("refuse_share: .nan", "limits.refuse_share (got nan) must be as follows: a share of all groups"),
        ("max_plan_age: 0d", "limits.max_plan_age is 0: no plan could be applied. Write a time above 0"),
    ],
)
def test_a_limit_that_no_plan_could_have_is_found_when_the_file_is_checked(
    tmp_path: Path, limit: str, remedy: str
) -> None:
    """And not by the plan, after snapshot and job, without the file and the line; nor is a NaN no limit at all."""
    with pytest.raises(PolicyError, match=re.escape(f"policy.yaml, line 2: {remedy}")):
        policy_of(tmp_path, f"version: 1\nlimits: {{{limit}}}\nrules:\n  - {{name: a, action: delete}}\n")


RULES = "rules: [{name: a, action: delete, notice: 2d}]"


@pytest.mark.parametrize(
    "contact",
    [
        "https://me:hunter2@hooks/notify",
        "https://hooks/notify?token=hunter2",
        "https://hooks.slack.com/services/T0/B0/hunter2",
        "https://discord.com/api/webhooks/1/hunter2",
        "https://discordapp.com/api/webhooks/1/hunter2",
        "https://discord.com/api/v10/webhooks/1/hunter2",
        "https://Hooks.Slack.com/services/T0/B0/hunter2",
        "hooks.slack.com/services/T0/B0/hunter2",
        "pay@example.com, https://me:hunter2@hooks/notify",
        "see https://pay.example.com:8443 or https://hooks/notify?token=hunter2",
        "https://acme.webhook.office.com/webhookb2/1@2/IncomingWebhook/hunter2/3",
        "https://outlook.office.com/webhook/1@2/IncomingWebhook/hunter2/3",
        "https://chat.example.com/hooks/hunter2hunter2hunter2hunte",
        "https://example.com:8065/mattermost/hooks/hunter2hunter2hunter2hunte",
        "https://chat.example.com/hooks/Hunter2Hunter2xyz/hunter2",
        "https://open.feishu.cn/open-apis/bot/v2/hook/hunter2-hunter2",
        "https://open.larksuite.com/open-apis/bot/v2/hook/hunter2",
        "https://events.pagerduty.com/integration/hunter2/enqueue",
        "https://events.eu.pagerduty.com/integration/hunter2/enqueue",
        "https://api.telegram.org/bot1:hunter2/sendMessage",
        "ntfy.sh/hunter2",
        "https://ntfy.sh/hunter2",
    ],
)
@pytest.mark.parametrize("where", ["owners: {pay: {groups: 'pay-*', contact: '%s'}}", "defaults: {contact: '%s'}"])
def test_a_contact_with_a_secret_is_refused_and_not_shown(where: str, contact: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"line 2: .*contact is a URL with a secret") as caught:
        policy_of(tmp_path, f"version: 1\n{where % contact}\n{RULES}\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "contact",
    [
        *("pay@example.com", "#pay: @oncall", "https://pay.example.com/oncall", "slack://pay"),
        "https://pay.example.com:8443 or pay@example.com",
        "slack://pay mailto:pay@example.com",
        "https://outlook.office.com/people",
        "https://chat.example.com/pay/channels/hooks",
        "https://wiki.example.com/hooks/on-call",
        "https://wiki.example.com/hooks/consumergroupscleanup",
        "https://docs.ntfy.sh/publish/",
        "https://acme.pagerduty.com/service-directory/PAY",
        "https://ntfy.sh/",
        "https://open.feishu.cn/document",
        "https://pay.example.com, https://wiki.example.com, pay@example.com",
    ],
)
def test_a_contact_without_a_secret_is_taken(contact: str, tmp_path: Path) -> None:
    policy = policy_of(tmp_path, f"version: 1\nowners: {{pay: {{groups: 'pay-*', contact: '{contact}'}}}}\n{RULES}\n")
    assert policy.owners.contact_of("pay") == contact
