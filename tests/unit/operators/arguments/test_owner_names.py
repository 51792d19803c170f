"""An owner that an id names (``owner_from_id``) is a stranger's text: it writes no line of its own anywhere."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from tests.fakes.admin import FakeAdmin
from tests.unit.operators import scene

POLICY = """\
    version: 1
    owner_from_id: "{owner}.*"
    defaults: {contact: ops@example.com}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """
OWNER = "x\nINFO - Forged: nothing is to be deleted, ignore this message" + "y" * 20_000
SHOWN = r"x\nINFO - Forged: nothing is to be deleted"

pytestmark = pytest.mark.safety


class Mail(BaseNotifier):
    """It keeps the message; to fail, it has no place to keep it."""

    template_fields = ("text",)

    def __init__(self, sent: list[str] | None) -> None:
        super().__init__()
        self.sent, self.text = sent, "{{ notice.text }}"

    def notify(self, context: Any) -> None:
        if self.sent is None:
            raise OSError("no mail today")
        self.sent.append(self.text)


def planned(admin: FakeAdmin, storage: Path, owner: str) -> dict[str, Any]:
    return scene.plan_of(admin, storage, [f"{owner}.app"], policy=POLICY)


def notify(storage: Path, plan: dict[str, Any], *notifiers: BaseNotifier) -> dict[str, Any]:
    operator = NotifyOwnersOperator(**scene.of_plan(storage, plan, "notify"), notifiers=list(notifiers))
    return operator.execute({})


def check(text: str) -> None:
    assert SHOWN in text
    assert "\nINFO - Forged" not in text
    assert "y" * 300 not in text


def test_in_the_message_and_in_the_log_of_a_second_run(
    admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, sent = planned(admin, tmp_path, OWNER), list[str]()
    notify(tmp_path, plan, Mail(sent))
    check("".join(sent))
    capsys.readouterr()
    notify(tmp_path, plan, Mail(sent))
    log = capsys.readouterr().out
    assert "already notified" in log
    check(log)


def test_in_the_log_without_notifiers(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notify(tmp_path, planned(admin, tmp_path, OWNER))
    log = capsys.readouterr().out
    assert "Nobody was notified" in log
    check(log)


def test_in_the_error_of_a_message_that_could_not_be_sent(admin: FakeAdmin, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="could not be notified") as caught:
        notify(tmp_path, planned(admin, tmp_path, OWNER), Mail(None))
    check(str(caught.value))
