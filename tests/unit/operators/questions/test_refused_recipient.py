"""A mail that the server refuses for the owner, and takes for somebody else, is no notice to the owner."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from tests.demo.mailbox import Mailbox
from tests.fakes.admin import FakeAdmin
from tests.fakes.marks import marks_in
from tests.unit.operators import scene

POLICY = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: "CONTACT"}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """

pytestmark = pytest.mark.safety


class RefusingMailbox(Mailbox):
    """It knows one address less than it is sent mails for."""

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address == "gone@example.com":
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with RefusingMailbox() as found:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(found.connection))
        yield found


def notify(admin: FakeAdmin, storage: Path, contact: str, cc: str | None) -> dict[str, Any]:
    planned = scene.plan_of(admin, storage, ["pay1"], policy=POLICY.replace("CONTACT", contact))
    notifier = SmtpNotifier(
        from_email="platform@example.com",
        to="{{ notice.contact }}",
        cc=cc,
        subject="{{ notice.subject }}",
        html_content="{{ notice.html }}",
    )
    operator = NotifyOwnersOperator(**scene.of_plan(storage, planned, "notify"), notifiers=[notifier])
    return operator.execute({})


@pytest.mark.parametrize(
    ("contact", "cc"), [("gone@example.com", "team@example.com"), ("gone@example.com, b@example.com", None)]
)
def test_a_mail_that_only_some_recipients_got_is_no_notice(
    admin: FakeAdmin, tmp_path: Path, mailbox: Mailbox, contact: str, cc: str | None
) -> None:
    with pytest.raises(PolicyError, match="could not be notified: pay: SMTPRecipientsRefused"):
        notify(admin, tmp_path, contact, cc)
    assert len(mailbox.mails) == 1, "who was not refused got it, and once"
    marks = marks_in(tmp_path, admin.cluster)
    assert {name: mark.notified_at for name, mark in marks.items()} == {"pay1": None}


def test_a_mail_that_all_recipients_got_is_a_notice(admin: FakeAdmin, tmp_path: Path, mailbox: Mailbox) -> None:
    assert notify(admin, tmp_path, "a@example.com, b@example.com", "team@example.com")["notified"] == {"pay": 1}
    assert [set(mail.recipients) for mail in mailbox.mails] == [{"a@example.com", "b@example.com", "team@example.com"}]
    assert marks_in(tmp_path, admin.cluster)["pay1"].notified_at is not None
