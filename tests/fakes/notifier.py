"""A notifier as users write them."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseNotifier


class Post(BaseNotifier):
    """Keeps what it is to send, rendered; for a path in ``broken``, it has no place to keep it."""

    template_fields: Sequence[str] = ("path", "message")

    def __init__(self, message: str = "{{ notice.subject }}: {{ notice.groups | join(',') }}") -> None:
        super().__init__()
        self.path, self.message = "{{ notice.contact }}", message
        self.received: list[tuple[str, str]] = []
        self.broken: set[str] = set()

    def notify(self, context: Any) -> None:
        if self.path in self.broken:
            raise OSError("no mail today")
        self.received.append((self.path, self.message))
