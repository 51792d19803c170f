"""Owners are notified: by whom, once, and nobody counts as notified who was not."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, BaseNotifier

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError, PolicyError
from airflow_kafka_groups.hooks.links import absolute_report_url_of
from airflow_kafka_groups.judge.policy.notice import NOTIFIERS
from airflow_kafka_groups.judge.policy.policy_file import policy_schema
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.operators import notices
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from tests.demo.mailbox import Mailbox
from tests.fakes.admin import FakeAdmin
from tests.fakes.marks import marks_in
from tests.fakes.notifier import Post
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene
from tests.unit.operators.scene import Planned, Site

pytestmark = pytest.mark.safety

POLICY = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: /pay}
      web: {groups: "web*", contact: /web}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def planned(site: Site) -> dict[str, Any]:
    return site.plan_of(["pay1", "pay2", "web1"], policy=POLICY)


def notify(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    result = NotifyOwnersOperator(**{**scene.of_plan(storage, planned, "notify"), **arguments}).execute({})
    assert json.loads(json.dumps(result)) == result
    return result


def test_each_owner_gets_one_message(planned: dict[str, Any], post: Post, tmp_path: Path) -> None:
    assert planned["counts"]["notice"] == 3
    found = notify(tmp_path, planned, notifiers=[post])
    assert found == {"dry_run": False, "marked": 3, "notified": {"pay": 2, "web": 1}, "without_contact": 0}
    assert post.received == [
        ("/pay", "2 stale consumer groups of prod will be deleted: pay1,pay2"),
        ("/web", "1 stale consumer group of prod will be deleted: web1"),
    ]
    assert post.path == "{{ notice.contact }}", "the next owner's is rendered from the template"
    assert notify(tmp_path, planned, notifiers=post) == found, "what the plan did, whichever try did it"
    assert len(post.received) == 2, "nobody gets a message twice"


def test_one_that_fails_is_an_error_after_the_others_and_is_tried_again(
    planned: dict[str, Any], post: Post, tmp_path: Path
) -> None:
    post.broken.add("/pay")
    with pytest.raises(PolicyError, match=r"1 owner\(s\) could not be notified: pay: OSError"):
        notify(tmp_path, planned, notifiers=[post])
    assert [path for path, _ in post.received] == ["/web"]
    post.broken.clear()
    again = notify(tmp_path, planned, notifiers=[post])
    assert again == {"dry_run": False, "marked": 3, "notified": {"web": 1, "pay": 2}, "without_contact": 0}
    assert [path for path, _ in post.received] == ["/web", "/pay"]


def test_without_notifiers_groups_are_marked_and_nobody_counts_as_notified(planned: Planned, site: Site) -> None:
    assert notify(site.storage, planned) == {"dry_run": False, "marked": 3, "notified": {}, "without_contact": 0}
    marks = marks_in(site.storage, site.admin.cluster)
    assert {notice.notified_at for notice in marks.values()} == {None}


@pytest.mark.parametrize("with_notifier", [True, False])
def test_a_dry_run_notifies_nobody_and_its_log_says_so(
    with_notifier: bool,
    planned: dict[str, Any],
    post: Post,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without notifiers, as in the shipped DAG, nobody would be: a run that is not dry returns no owner."""
    notifiers = [post] if with_notifier else []
    capsys.readouterr()
    found = notify(tmp_path, planned, notifiers=notifiers, dry_run="true")
    said = capsys.readouterr().out
    assert (found["dry_run"], post.received) == (True, [])
    assert "owners notified" not in said
    assert "dry run: 3 groups would be marked, owners to notify: " in said
    wanted = notify(tmp_path, planned, notifiers=notifiers)
    assert {**found, "dry_run": False} == wanted


def test_another_plan_is_refused(planned: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="digest differs"):
        notify(tmp_path, planned, plan_digest="0" * 64)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://airflow.example.com", "https://airflow.example.com/dags/d/runs/r/plugin/kafka-groups-report"),
        ("https://example.com/airflow/", "https://example.com/airflow/dags/d/runs/r/plugin/kafka-groups-report"),
        ("/airflow", None),
        ("", None),
    ],
)
def test_a_message_has_the_address_of_airflow_or_no_link(
    base_url: str, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    context: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r")}
    assert absolute_report_url_of(context) == url
    nowhere: Any = {}
    assert absolute_report_url_of(nowhere) is None


class Unawaited(BaseNotifier):
    """A notifier whose author mixed up the two methods: Airflow's ``__call__`` drops the coroutine."""

    async def notify(self, context: Any) -> None:  # type: ignore[override]  # that is the mistake
        raise AssertionError("nobody awaits it")


class Silent(BaseNotifier):
    """Airflow's notifier for Apprise, which does not look at the result."""

    __module__ = "airflow.providers.apprise.notifications.apprise"

    def notify(self, context: Any) -> None: ...


class Ours(Silent):
    """A site's own subclass of it with the site's defaults, in the site's module."""


NO_NOTIFIER = "must be Airflow's notifiers"


@pytest.mark.safety
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Unawaited(), "nobody awaits"),
        (Silent(), "use one that raises"),
        (Ours(), "use one that raises"),
        (Silent, NO_NOTIFIER),
        ([Silent], NO_NOTIFIER),
        (print, NO_NOTIFIER),
        ("smtp", NO_NOTIFIER),
        ({"a": 1}, NO_NOTIFIER),
        (None, NO_NOTIFIER),
    ],
    ids=["coroutine", "silent", "subclass", "class", "classes", "function", "word", "mapping", "nothing"],
)
def test_what_may_notify_nobody_without_a_word_is_refused(
    given: Any, why: str, planned: dict[str, Any], tmp_path: Path
) -> None:
    """A class that is called makes a notifier, and sends nothing: the owner counted as notified."""
    with pytest.raises(ConfigurationError, match=rf"notifiers .*{why}"):
        notify(tmp_path, planned, notifiers=given)


def test_notifiers_may_be_in_any_collection(planned: dict[str, Any], post: Post, tmp_path: Path) -> None:
    assert notify(tmp_path, planned, notifiers={post})["notified"] == {"pay": 2, "web": 1}
    assert len(post.received) == 2


# Notifiers without a DAG of one's own: an Airflow connection in the policy file, or in the site's defaults.


BY_MAIL = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: "pay@example.com"}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """
UNTOLD = "'noticed': the rules demand a notice, and neither the policy file nor KAFKA_GROUPS_DEFAULTS has a notifier"


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with Mailbox() as found:
        extra = {**found.connection["extra"], "from_email": "platform@example.com"}
        monkeypatch.setenv("AIRFLOW_CONN_RELAY", json.dumps({**found.connection, "extra": extra}))
        yield found


@pytest.fixture
def judged(site: Site) -> str:
    return site.judged_once(["pay1"], ["live"])


def plan(storage: Path, snapshot_id: str, notify: str = "") -> dict[str, Any]:
    policy = str(write_policy(storage, BY_MAIL + notify))
    return scene.plan(storage, snapshot_id=snapshot_id, policy_file=policy, max_share=1)


def warned(planned: dict[str, Any]) -> bool:
    return any(warning.startswith(UNTOLD) for warning in planned["warnings"])


@pytest.mark.parametrize("of_site", [False, True])
def test_a_connection_is_enough_to_notify_owners_by_mail(
    judged: str, mailbox: Mailbox, site: Site, of_site: bool
) -> None:
    if of_site:
        site.defaults({"notify": {"smtp": "relay"}})
    planned = plan(site.storage, judged, "" if of_site else "notify: {smtp: relay}\n")
    assert not warned(planned)
    assert notify(site.storage, planned)["notified"] == {"pay": 1}
    (mail,) = mailbox.mails
    assert [*mail.recipients] == ["pay@example.com"]
    assert marks_in(site.storage, site.admin.cluster)["pay1"].contact == "pay@example.com"


def test_the_policy_s_notifier_counts_before_the_site_s_and_the_operator_s_before_both(
    judged: str, mailbox: Mailbox, site: Site
) -> None:
    site.defaults({"notify": {"smtp": "no_such"}})
    planned = plan(site.storage, judged, "notify: {smtp: relay}\n")
    sent: list[Any] = []

    class Own(BaseNotifier):
        def notify(self, context: Any) -> None:
            sent.append(context["notice"])

    assert load_plan(site.layout, planned["plan_id"]).policy.notify == {"smtp": "relay"}
    assert notify(site.storage, planned, notifiers=[Own()])["notified"] == {"pay": 1}
    assert (len(sent), mailbox.mails) == (1, [])


def test_without_any_the_plan_and_its_report_warn(judged: str, tmp_path: Path) -> None:
    planned = plan(tmp_path, judged)
    assert warned(planned)
    page = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "the rules demand a notice, and neither the policy file nor KAFKA_GROUPS_DEFAULTS has a notifier" in page


@pytest.mark.parametrize("own", [(), ("notifier",)])
def test_a_dag_whose_task_has_notifiers_is_not_warned(judged: str, tmp_path: Path, own: tuple[str, ...]) -> None:
    class Own(BaseNotifier):
        def notify(self, context: Any) -> None: ...

    with DAG("d", schedule=None) as dag:
        task = PlanCleanupOperator(
            task_id="plan",
            **scene.stored(tmp_path),
            snapshot_id=judged,
            policy_file=str(write_policy(tmp_path, BY_MAIL)),
            max_share=1,
        )
        NotifyOwnersOperator(
            task_id="n", storage_path="/s", plan_id="p", plan_digest="d", notifiers=[Own() for _ in own]
        )
    assert warned(task.execute({"dag": dag})) is not bool(own)


def test_what_is_missing_is_named_with_its_package(judged: str, site: Site) -> None:
    planned = plan(site.storage, judged, "notify: {slack: team}\n")
    site.patch.setitem(sys.modules, "airflow.providers.slack", None)
    with pytest.raises(ConfigurationError, match=r"notify\.slack .*pip install apache-airflow-providers-slack"):
        notify(site.storage, planned)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("slack", {"slack_conn_id": "team", "channel": "{{ notice.contact }}", "text": "{{ notice.slack }}"}),
        ("slack_webhook", {"slack_webhook_conn_id": "team", "text": "{{ notice.contact }}: {{ notice.slack }}"}),
    ],
)
def test_slack_is_asked_with_the_names_of_its_provider(
    kind: str, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, *_ = notices._BY_KIND[kind]
    made = ModuleType(module)
    setattr(made, name, lambda **given: SimpleNamespace(**given))
    monkeypatch.setitem(sys.modules, module, made)
    for parent in ("airflow.providers.slack", "airflow.providers.slack.notifications"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    (found,) = notices.configured_notifiers({kind: "team"})
    assert vars(found) == wanted


@pytest.mark.parametrize("notify", ["{mail: x}", "{smtp: a, slack: b}", "{smtp: '{{ var.value.secret }}'}", "[smtp]"])
def test_what_is_no_notifier_is_refused(judged: str, site: Site, notify: str) -> None:
    with pytest.raises(PolicyError, match="notify"):
        plan(site.storage, judged, f"notify: {notify}\n")
    given = {"mail": "x"} if "mail" in notify else {"smtp": "{{ x }}"}
    site.defaults({"notify": given})
    with pytest.raises(ConfigurationError, match=r"KAFKA_GROUPS_DEFAULTS\.notify"):
        plan(site.storage, judged)


def test_the_schema_knows_the_same_notifiers() -> None:
    assert tuple(policy_schema()["properties"]["notify"]["properties"]) == NOTIFIERS == tuple(notices._BY_KIND)


# A mail that the server refuses for the owner, and takes for somebody else, is no notice to the owner.


class RefusingMailbox(Mailbox):
    """It knows one address less than it is sent mails for."""

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address == "gone@example.com":
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with RefusingMailbox() as found:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(found.connection))
        yield found


def mail_to(admin: FakeAdmin, storage: Path, contact: str, cc: str | None) -> dict[str, Any]:
    planned = scene.plan_of(admin, storage, ["pay1"], policy=BY_MAIL.replace("pay@example.com", contact))
    notifier = SmtpNotifier(
        from_email="platform@example.com",
        to="{{ notice.contact }}",
        cc=cc,
        subject="{{ notice.subject }}",
        html_content="{{ notice.html }}",
    )
    return notify(storage, planned, notifiers=[notifier])


@pytest.mark.parametrize(
    ("contact", "cc"), [("gone@example.com", "team@example.com"), ("gone@example.com, b@example.com", None)]
)
def test_a_mail_that_only_some_recipients_got_is_no_notice(
    site: Site, refusing: Mailbox, contact: str, cc: str | None
) -> None:
    with pytest.raises(PolicyError, match="could not be notified: pay: SMTPRecipientsRefused"):
        mail_to(site.admin, site.storage, contact, cc)
    assert len(refusing.mails) == 1, "who was not refused got it, and once"
    marks = marks_in(site.storage, site.admin.cluster)
    assert {name: mark.notified_at for name, mark in marks.items()} == {"pay1": None}


def test_a_mail_that_all_recipients_got_is_a_notice(site: Site, refusing: Mailbox) -> None:
    assert mail_to(site.admin, site.storage, "a@example.com, b@example.com", "team@example.com")["notified"] == {
        "pay": 1
    }
    assert [set(mail.recipients) for mail in refusing.mails] == [{"a@example.com", "b@example.com", "team@example.com"}]
    assert marks_in(site.storage, site.admin.cluster)["pay1"].notified_at is not None
