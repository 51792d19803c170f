"""The demo's mail server remembers what it was really sent."""

from __future__ import annotations

import smtplib
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

from tests.demo.mailbox import Mailbox, read_mail


def message(html: str) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "kafka@example.com", "search@example.com", "2 stale groups"
    made.set_content("text")
    made.add_alternative(html, subtype="html")
    return made


def test_a_mail_is_kept_with_its_time_its_recipient_and_the_groups_that_it_names(tmp_path: Path) -> None:
    with Mailbox(tmp_path / "mails") as mailbox, smtplib.SMTP("127.0.0.1", mailbox.port) as client:
        client.send_message(message("<ul><li><code>search.a</code></li><li><code>b&amp;c</code></li></ul>"))
        client.send_message(message("<p>nothing</p>"), to_addrs=["x@example.com", "y@example.com"])
    first, second = mailbox.mails
    assert (first.recipients, first.subject) == (("search@example.com",), "2 stale groups")
    assert first.groups == {"search.a", "b&c"}
    assert timedelta(0) <= datetime.now(UTC) - first.received_at < timedelta(seconds=30)
    assert (second.recipients, second.groups) == (("x@example.com", "y@example.com"), frozenset())
    page, _ = (path.read_text() for path in sorted((tmp_path / "mails").iterdir()))
    assert "search@example.com" in page
    assert "<code>search.a</code>" in page


def test_a_mail_without_html_names_nothing() -> None:
    made = EmailMessage()
    made.set_content("<code>a</code>")
    assert read_mail(made.as_bytes(), (), datetime.now(UTC)).groups == frozenset()
