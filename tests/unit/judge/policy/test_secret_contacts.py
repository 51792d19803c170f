"""A contact is in the plan, in its report and in the records of notices: it is no place for a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import PolicyError
from tests.unit.judge.policy.files import policy_of

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
