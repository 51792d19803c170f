"""The notifiers that a policy file or ``KAFKA_GROUPS_DEFAULTS`` names by an Airflow connection: the providers' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

_PROVIDERS = "airflow.providers"
_NOTIFIERS: Mapping[str, tuple[str, str, str, Mapping[str, str]]] = {
    "smtp": (
        f"{_PROVIDERS}.smtp.notifications.smtp",
        "SmtpNotifier",
        "smtp_conn_id",
        {"to": "{{ notice.contact }}", "subject": "{{ notice.subject }}", "html_content": "{{ notice.html }}"},
    ),
    "slack": (
        f"{_PROVIDERS}.slack.notifications.slack",
        "SlackNotifier",
        "slack_conn_id",
        {"channel": "{{ notice.contact }}", "text": "{{ notice.slack }}"},
    ),
    "slack_webhook": (
        f"{_PROVIDERS}.slack.notifications.slack_webhook",
        "SlackWebhookNotifier",
        "slack_webhook_conn_id",
        {"text": "{{ notice.contact }}: {{ notice.slack }}"},
    ),
}
"""For each kind: module, class, the argument of the connection, and the others."""


def configured_notifiers(notify: Mapping[str, str]) -> tuple[BaseNotifier, ...]:
    """Return the notifiers, imported from the providers that have them.

    :param notify: the ids of the connections, by kind, see ``PlanPolicy.notify``.

    Raises ``ConfigurationError`` that names the package which is missing.
    """
    return tuple(_notifier(kind, conn_id) for kind, conn_id in notify.items())


def _notifier(kind: str, conn_id: str) -> BaseNotifier:
    module, name, connection, arguments = _NOTIFIERS[kind]
    try:
        made: Callable[..., BaseNotifier] = getattr(import_module(module), name)
    except ImportError as error:
        package = f"apache-airflow-providers-{kind.partition('_')[0]}"
        remedy = f"needs a package that this worker lacks: pip install {package}"
        raise ConfigurationError(f"notify.{kind}", conn_id, remedy) from error
    return made(**{connection: conn_id}, **arguments)
