"""The operator that notifies the owners of stale groups before these are deleted."""

from __future__ import annotations

import copy
import inspect
import smtplib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_kafka_groups.exceptions import ConfigurationError, JournalError, PolicyError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import read_text
from airflow_kafka_groups.hooks.links import absolute_report_url_of
from airflow_kafka_groups.operators.support.base import DryRunOperator
from airflow_kafka_groups.shown import one_line, storable

if TYPE_CHECKING:
    from airflow_kafka_groups.change.plan.notify import OwnerNotice


_NOTIFIERS = "must be Airflow's notifiers, such as [SmtpNotifier(to=…)]: objects, and no classes"
_SILENT = ("airflow.providers.apprise.",)
"""Modules of notifiers that do not tell whether a message was sent: Apprise returns it, and Airflow's hook drops it."""


class NotifyOwnersOperator(DryRunOperator):
    """Mark the groups of a plan that wait for a notice, and notify their owners, one message for each.

    A rule of the policy file can demand a notice. Its groups are planned only when they were marked and their owner was
    notified for the complete period, and are still stale; a sign of life ends a mark. Each notifier is called once for
    each owner. Its templates have ``notice``: ``owner``, ``contact``, ``groups`` (the first 100), ``count``, ``days``,
    ``cluster``, ``plan_id``, ``report``, ``subject``, ``text``, ``html`` and ``slack`` (the text as Slack wants it
    escaped), for example
    ``SmtpNotifier(to="{{ notice.contact }}", subject="{{ notice.subject }}", html_content="{{ notice.html }}")``.

    :param plan_id: the plan.
    :param plan_digest: its digest as ``PlanCleanupOperator`` returned it.
    :param dry_run: mark and notify nobody, and return what would be sent. Default false.
    :param notifiers: Airflow's notifiers, which have to raise where a message could not be sent. Default: the one that
        ``notify`` of the plan's policy file or of ``KAFKA_GROUPS_DEFAULTS`` names. Without any, nobody is notified, and
        what needs a notice is kept (not templated).

    Returns ``{"dry_run", "marked", "notified": {owner: groups}, "without_contact"}``. Fails if an owner could not be
    notified, after the others were: the next try notifies only those that are left. A task that is cleared later
    notifies nobody again whom its plan has notified, and the log says so; an expired plan marks no groups.
    """

    mended_by_retry = (PolicyError, JournalError)  # an owner that was not reached; another plan's notices came first

    plan_id = Argument(read_text)
    plan_digest = Argument(read_text)

    def __init__(
        self, *, plan_id: str, plan_digest: str, notifiers: Iterable[BaseNotifier] | BaseNotifier = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.notifiers = tuple(notifiers) if isinstance(notifiers, Iterable) else (notifiers,)
        for notifier in self.notifiers:
            _check_notifier(notifier)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.plan.notify import notify_owners
        from airflow_kafka_groups.ledger.deletion_plan import load_plan

        layout = self.site_layout()
        plan = load_plan(layout, self.plan_id)
        plan.require_digest(self.plan_digest)

        notifiers = self.notifiers or configured_notifiers(plan.policy.notify)

        def send(notice: OwnerNotice) -> None:
            if not notifiers:
                raise PolicyError("no notifier is set: set notify in the policy file or in KAFKA_GROUPS_DEFAULTS")
            for notifier in notifiers:
                # Rendering changes a notifier for good, and the context: each message has its own.
                with _every_recipient():
                    copy.copy(notifier)({**context, "notice": notice.to_context()})

        report = absolute_report_url_of(context) or str(layout.report(plan.plan_id))
        done = notify_owners(layout, plan, send, dry_run=self.dry_run, report=report)
        # A dry run sends nothing, and so does not find out that there is nothing to send with.
        notified = {} if self.dry_run and not notifiers else dict(done.notified)
        said = "Plan %s: %d groups marked, owners notified: %s"
        if self.dry_run:
            said = "Plan %s: dry run: %d groups would be marked, owners to notify: %s"
        owners = ", ".join(f"{_shown(owner)}: {number}" for owner, number in notified.items())
        self.log.info(said, plan.plan_id, done.marked, owners or "none")
        if done.without_contact:
            self.log.warning("%d groups need a notice, and have no contact: they are kept", done.without_contact)
        if done.failed:
            why = "; ".join(f"{_shown(owner)}: {reason}" for owner, reason in done.failed.items())
            if notifiers:
                raise PolicyError(f"{len(done.failed)} owner(s) could not be notified: {why}")
            self.log.warning("Nobody was notified, so their groups are kept: %s", why)
        return {  # of all tries together
            "dry_run": self.dry_run,
            "marked": done.marked,
            "notified": storable(notified),
            "without_contact": done.without_contact,
        }


def _check_notifier(notifier: Any) -> None:
    """Raise ``ConfigurationError`` for what is no notifier, and for one whose failed message would count as sent."""
    if not isinstance(notifier, BaseNotifier):
        raise ConfigurationError("notifiers", getattr(notifier, "__name__", type(notifier).__name__), _NOTIFIERS)
    name = f"{type(notifier).__module__}.{type(notifier).__qualname__}"
    if inspect.iscoroutinefunction(notifier.notify):
        remedy = "its notify() is a coroutine, which nobody awaits: make it a function"
        raise ConfigurationError("notifiers", name, remedy)
    if any(f"{kind.__module__}.".startswith(_SILENT) for kind in type(notifier).__mro__):
        remedy = "it does not report a message that could not be sent: use one that raises"
        raise ConfigurationError("notifiers", name, remedy)


@contextmanager
def _every_recipient() -> Iterator[None]:
    """Raise for a mail that only some of its recipients got: the owner may be among the others.

    ``smtplib`` returns the refused ones, which Airflow's hook drops. Raised there, it would send to the rest again.
    """
    refused: dict[str, tuple[int, bytes]] = {}
    sendmail = smtplib.SMTP.sendmail

    def noted(*args: Any, **kwargs: Any) -> dict[str, tuple[int, bytes]]:
        found = sendmail(*args, **kwargs)
        refused.update(found)
        return found

    smtplib.SMTP.sendmail = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        smtplib.SMTP.sendmail = sendmail  # type: ignore[method-assign]
    if refused:
        raise smtplib.SMTPRecipientsRefused(refused)


def _shown(owner: str) -> str:
    return one_line(owner) if owner else "groups without an owner"


_PROVIDERS = "airflow.providers"
_BY_KIND: Mapping[str, tuple[str, str, str, Mapping[str, str]]] = {
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
    found = list[BaseNotifier]()
    for kind, conn_id in notify.items():
        module, name, connection, arguments = _BY_KIND[kind]
        try:
            made: Callable[..., BaseNotifier] = getattr(import_module(module), name)
        except ImportError as error:
            package = f"apache-airflow-providers-{kind.partition('_')[0]}"
            remedy = f"needs a package that this worker lacks: pip install {package}"
            raise ConfigurationError(f"notify.{kind}", conn_id, remedy) from error
        found.append(made(**{connection: conn_id}, **arguments))
    return tuple(found)
