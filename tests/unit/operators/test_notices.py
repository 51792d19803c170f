import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError, PolicyError
from airflow_kafka_groups.hooks.links import absolute_report_url_of
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.marks import marks_in
from tests.unit.operators import scene

POLICY = """\
    version: 1
    owners:
      pay: {groups: "pay*", contact: /pay}
      web: {groups: "web*", contact: /web}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """


class WebhookNotifier(BaseNotifier):
    """A notifier as users write them: it posts rendered templates to a server."""

    template_fields: Sequence[str] = ("path", "message")

    def __init__(self, base: str, path: str, message: str) -> None:
        super().__init__()
        self.base, self.path, self.message = base, path, message

    def notify(self, context: Any) -> None:
        urllib.request.urlopen(self.base + self.path, data=self.message.encode(), timeout=10).read()


class Server(http.server.BaseHTTPRequestHandler):
    received: list[tuple[str, str]]
    broken: set[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path not in self.broken:
            self.received.append((self.path, body))
        self.send_response(500 if self.path in self.broken else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def webhook() -> Iterator[tuple[type[Server], WebhookNotifier]]:
    handler = type("Handler", (Server,), {"received": [], "broken": set()})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    yield (
        handler,
        WebhookNotifier(base, "{{ notice.contact }}", "{{ notice.subject }}: {{ notice.groups | join(',') }}"),
    )
    server.shutdown()


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    return scene.plan_of(admin, tmp_path, ["pay1", "pay2", "web1"], policy=POLICY)


def notify(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    operator = NotifyOwnersOperator(
        task_id="notify",
        **scene.stored(storage),
        **{"plan_id": planned["plan_id"], "plan_digest": planned["digest"], **arguments},
    )
    result: dict[str, Any] = operator.execute({})
    assert json.loads(json.dumps(result)) == result
    return result


def test_each_owner_gets_one_message(
    planned: dict[str, Any], webhook: tuple[type[Server], WebhookNotifier], tmp_path: Path
) -> None:
    server, notifier = webhook
    assert planned["counts"]["notice"] == 3
    found = notify(tmp_path, planned, notifiers=[notifier])
    assert found == {"dry_run": False, "marked": 3, "notified": {"pay": 2, "web": 1}, "without_contact": 0}
    assert server.received == [
        ("/pay", "2 stale consumer groups of prod will be deleted: pay1,pay2"),
        ("/web", "1 stale consumer group of prod will be deleted: web1"),
    ]
    assert notifier.path == "{{ notice.contact }}", "the next owner's is rendered from the template"
    assert notify(tmp_path, planned, notifiers=notifier) == found, "what the plan did, whichever try did it"
    assert len(server.received) == 2, "nobody gets a message twice"


def test_one_that_fails_is_an_error_after_the_others_and_is_tried_again(
    planned: dict[str, Any], webhook: tuple[type[Server], WebhookNotifier], tmp_path: Path
) -> None:
    server, notifier = webhook
    server.broken.add("/pay")
    with pytest.raises(PolicyError, match=r"1 owner\(s\) could not be notified: pay: HTTPError"):
        notify(tmp_path, planned, notifiers=[notifier])
    assert [path for path, _ in server.received] == ["/web"]
    server.broken.clear()
    again = notify(tmp_path, planned, notifiers=[notifier])
    assert again == {"dry_run": False, "marked": 3, "notified": {"web": 1, "pay": 2}, "without_contact": 0}
    assert [path for path, _ in server.received] == ["/web", "/pay"]


def test_without_notifiers_groups_are_marked_and_nobody_counts_as_notified(
    planned: dict[str, Any], admin: FakeAdmin, tmp_path: Path
) -> None:
    assert notify(tmp_path, planned) == {"dry_run": False, "marked": 3, "notified": {}, "without_contact": 0}
    marks = marks_in(tmp_path, admin.cluster)
    assert {notice.notified_at for notice in marks.values()} == {None}


@pytest.mark.parametrize("with_notifier", [True, False])
def test_a_dry_run_notifies_nobody_and_its_log_says_so(
    with_notifier: bool,
    planned: dict[str, Any],
    webhook: tuple[type[Server], WebhookNotifier],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without notifiers, as in the shipped DAG, nobody would be: a run that is not dry returns no owner."""
    notifiers = [webhook[1]] if with_notifier else []
    capsys.readouterr()
    found = notify(tmp_path, planned, notifiers=notifiers, dry_run="true")
    said = capsys.readouterr().out
    assert (found["dry_run"], webhook[0].received) == (True, [])
    assert "owners notified" not in said
    assert "dry run: 3 groups would be marked, owners to notify: {" in said
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


def test_notifiers_may_be_in_any_collection(
    planned: dict[str, Any], webhook: tuple[type[Server], WebhookNotifier], tmp_path: Path
) -> None:
    server, notifier = webhook
    assert notify(tmp_path, planned, notifiers={notifier})["notified"] == {"pay": 2, "web": 1}
    assert len(server.received) == 2
