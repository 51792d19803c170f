"""Notifiers without a DAG of one's own: an Airflow connection in the policy file, or in the site's defaults."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseNotifier

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.judge.policy.notice import NOTIFIERS
from airflow_kafka_groups.judge.policy.policy_file import policy_schema
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.operators import notices
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.storage.layout import Layout
from tests.demo.mailbox import Mailbox
from tests.fakes.admin import FakeAdmin
from tests.fakes.marks import marks_in
from tests.unit.cli.commands.conftest import Cli, cli, stored
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

__all__ = ["cli", "stored"]
POLICY = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: pay@example.com}
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
def judged(admin: FakeAdmin, tmp_path: Path) -> str:
    return scene.judged_once(admin, tmp_path, ["pay1"], ["live"])


def plan(storage: Path, snapshot_id: str, notify: str = "") -> dict[str, Any]:
    policy = str(write_policy(storage, POLICY + notify))
    return scene.plan(storage, snapshot_id=snapshot_id, policy_file=policy, max_share=1)


def notify_by(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return NotifyOwnersOperator(**scene.of_plan(storage, planned, "notify"), **arguments).execute({})


def warned(planned: dict[str, Any]) -> bool:
    return any(warning.startswith(UNTOLD) for warning in planned["warnings"])


@pytest.mark.parametrize("of_site", [False, True])
def test_a_connection_is_enough_to_notify_owners_by_mail(
    judged: str, mailbox: Mailbox, admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_site: bool
) -> None:
    if of_site:
        monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"notify": {"smtp": "relay"}}))
    planned = plan(tmp_path, judged, "" if of_site else "notify: {smtp: relay}\n")
    assert not warned(planned)
    assert notify_by(tmp_path, planned)["notified"] == {"pay": 1}
    (mail,) = mailbox.mails
    assert [*mail.recipients] == ["pay@example.com"]
    assert marks_in(tmp_path, admin.cluster)["pay1"].contact == "pay@example.com"


def test_the_policy_s_notifier_counts_before_the_site_s_and_the_operator_s_before_both(
    judged: str, mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"notify": {"smtp": "no_such"}}))
    planned = plan(tmp_path, judged, "notify: {smtp: relay}\n")
    sent: list[Any] = []

    class Own(BaseNotifier):
        def notify(self, context: Any) -> None:
            sent.append(context["notice"])

    assert load_plan(Layout(tmp_path, scene.CLUSTER), planned["plan_id"]).policy.notify == {"smtp": "relay"}
    assert notify_by(tmp_path, planned, notifiers=[Own()])["notified"] == {"pay": 1}
    assert (len(sent), mailbox.mails) == (1, [])


def test_without_any_the_plan_and_its_report_warn(judged: str, tmp_path: Path) -> None:
    planned = plan(tmp_path, judged)
    assert warned(planned)
    page = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "the rules demand a notice, and neither the policy file nor KAFKA_GROUPS_DEFAULTS has a notifier" in page


def test_the_shell_warns_and_explain_names_the_contact_only(judged: str, stored: Cli, tmp_path: Path) -> None:
    policy = str(write_policy(tmp_path, POLICY))
    _, planned, _ = stored("plan", "--policy-file", policy, "--snapshot-id", judged, "--max-share", "1")
    assert warned(planned)
    _, found, _ = stored("explain", "pay1")
    (owner,) = [row["evidence"] for row in found["checks"] if row["check"] == "owner"]
    assert owner == "pay, contact pay@example.com"


@pytest.mark.parametrize("own", [(), ("notifier",)])
def test_a_dag_whose_task_has_notifiers_is_not_warned(judged: str, tmp_path: Path, own: tuple[str, ...]) -> None:
    class Own(BaseNotifier):
        def notify(self, context: Any) -> None: ...

    with DAG("d", schedule=None) as dag:
        task = PlanCleanupOperator(
            task_id="plan",
            **scene.stored(tmp_path),
            snapshot_id=judged,
            policy_file=str(write_policy(tmp_path, POLICY)),
            max_share=1,
        )
        NotifyOwnersOperator(
            task_id="n", storage_path="/s", plan_id="p", plan_digest="d", notifiers=[Own() for _ in own]
        )
    assert warned(task.execute({"dag": dag})) is not bool(own)


def test_what_is_missing_is_named_with_its_package(
    judged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(tmp_path, judged, "notify: {slack: team}\n")
    monkeypatch.setitem(sys.modules, "airflow.providers.slack", None)
    with pytest.raises(ConfigurationError, match=r"notify\.slack .*pip install apache-airflow-providers-slack"):
        notify_by(tmp_path, planned)


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
def test_what_is_no_notifier_is_refused(judged: str, tmp_path: Path, notify: str, monkeypatch: Any) -> None:
    with pytest.raises(PolicyError, match="notify"):
        plan(tmp_path, judged, f"notify: {notify}\n")
    given = {"mail": "x"} if "mail" in notify else {"smtp": "{{ x }}"}
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"notify": given}))
    with pytest.raises(ConfigurationError, match=r"KAFKA_GROUPS_DEFAULTS\.notify"):
        plan(tmp_path, judged)


def test_the_schema_knows_the_same_notifiers() -> None:
    assert tuple(policy_schema()["properties"]["notify"]["properties"]) == NOTIFIERS == tuple(notices._BY_KIND)
