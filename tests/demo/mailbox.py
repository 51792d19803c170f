"""A mail server in this process: it accepts every message, and remembers when it came, to whom, and what it names."""

import html
import re
from collections.abc import Set
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any, Self

from aiosmtpd.controller import Controller

from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.service import Service

_GROUP = re.compile(r"<code>(.*?)</code>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A message that was delivered.

    :param groups: the consumer groups that it names.
    """

    received_at: datetime
    recipients: tuple[str, ...]
    subject: str
    html: str
    groups: Set[str]

    def page(self) -> str:
        """Return the message as a page, as a mail program shows it."""
        lines = {
            "To": ", ".join(self.recipients),
            "Subject": self.subject,
            "Date": f"{self.received_at:%Y-%m-%d %H:%M}",
        }
        head = "".join(f"<div>{name}: <b>{html.escape(value)}</b></div>" for name, value in lines.items())
        style = "body {font: 15px sans-serif; max-width: 50em; margin: 2em} hr {margin: 1em 0}"
        return f'<!doctype html><meta charset="utf-8"><style>{style}</style>{head}<hr>{self.html}\n'


class Mailbox(Service):
    """Run the server until ``stop()`` or the end of the ``with`` block.

    :param folder: where each message is written as a page to look at. Default: nowhere.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.mails: list[Mail] = []
        self._server = Controller(self, hostname=HOST, port=self.port)

    def start(self) -> Self:
        """Start, and return when it accepts messages."""
        self._server.start()
        return self

    def stop(self) -> None:
        """Stop; what was delivered is kept."""
        self._server.stop(no_assert=True)

    @property
    def connection(self) -> dict[str, Any]:
        extra = {"disable_ssl": True, "disable_tls": True}
        return {"conn_type": "smtp", "host": HOST, "port": self.port, "extra": extra}

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # aiosmtpd's name
        """Keep a message."""
        mail = read_mail(envelope.content, tuple(envelope.rcpt_tos), datetime.now(UTC))
        self.mails.append(mail)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{len(self.mails):02d}-{mail.recipients[0]}.html").write_text(mail.page())
        return "250 OK"


def read_mail(content: bytes, recipients: tuple[str, ...], received_at: datetime) -> Mail:
    message = message_from_bytes(content, policy=default)
    body = message.get_body(("html",))
    text = "" if body is None else str(body.get_content())
    return Mail(
        received_at=received_at,
        recipients=recipients,
        subject=str(message["subject"]),
        html=text,
        groups=frozenset(html.unescape(found) for found in _GROUP.findall(text)),
    )
