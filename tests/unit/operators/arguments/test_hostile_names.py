"""Names of groups and owners are strangers' text: they write no line of their own, and a copied one is the name."""

import html
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.groups import (
    ChunkGroupsOperator,
    DescribeGroupsOperator,
    FindCoordinatorsOperator,
    ListGroupsOperator,
)
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator
from airflow_kafka_groups.operators.plan import _growing
from airflow_kafka_groups.operators.support.base import update_asset_events
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from airflow_kafka_groups.shown import without_links
from airflow_kafka_groups.triggers.conditions import PollResult
from airflow_kafka_groups.triggers.poll import EventStatus, _event
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.fakes.notifier import Post
from tests.unit.operators import scene
from tests.unit.operators.hitl import Airflow, ask, context
from tests.unit.operators.scene import Site

pytestmark = pytest.mark.safety

NAME = "a\nForged: nothing was deleted\x1b[2J" + "x" * 1_000
SHOWN = r"a\nForged: nothing was deleted\x1b[2J"


def check_group(capsys: pytest.CaptureFixture[str], *lines: str) -> None:
    log = capsys.readouterr().out
    for line in lines:
        assert f"{line}{SHOWN}" in log
    assert "\nForged" not in log
    assert "\x1b[2J" not in log
    assert "x" * 300 not in log


def test_in_the_log_of_a_clean_up(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    site.judge(site.take_snapshot(), stale=[NAME])
    plan = site.plan(max_share=1.0)
    site.back_up(plan)
    site.apply(plan)
    check_group(capsys, "To delete: ", "deleted: ")


def test_in_the_log_of_a_look(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    ListGroupLagOperator(task_id="l", group_ids=[NAME], max_lag=0).execute({})
    site.admin.errors[NAME] = broker_error("GROUP_AUTHORIZATION_FAILED")
    DescribeGroupsOperator(task_id="t", group_ids=[NAME, "b"]).execute({})
    FindCoordinatorsOperator(task_id="c", group_ids=[NAME, "b"]).execute({})
    BackupGroupOffsetsOperator(task_id="b", group_ids=[NAME, "b"], **site.stored).execute({})
    check_group(capsys, "Lag of ", "Not described: ", "No coordinator: ", "Not backed up: ")


def test_in_the_log_of_a_sensor(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    """Its groups may be those that a deletion recorded, and its triggers pass the line on in an event."""
    admin.groups = {NAME: FakeGroup()}
    assert not DeleteGroupsSensor(task_id="s", group_ids=[NAME]).poke({})
    check_group(capsys, "waiting for ")
    result = str(PollResult(waiting={NAME: NAME}, total=1))
    assert result.count(SHOWN) == 2
    assert result.isprintable()
    assert len(result) < 900


# An owner that an id names (``owner_from_id``) is a stranger's text: it writes no line of its own anywhere.


POLICY = """\
    version: 1
    owner_from_id: "{owner}.*"
    defaults: {contact: ops@example.com}
    rules: [{name: noticed, action: delete, idle: 1d, notice: 2d}]
    """
OWNER = "x\nINFO - Forged: nothing is to be deleted, ignore this message" + "y" * 20_000
SHOWN_OWNER = r"x\nINFO - Forged: nothing is to be deleted"


def notify(owned: tuple[Path, dict[str, Any]], *notifiers: Post) -> None:
    storage, plan = owned
    NotifyOwnersOperator(**scene.of_plan(storage, plan, "notify"), notifiers=list(notifiers)).execute({})


@pytest.fixture
def owned(site: Site) -> tuple[Path, dict[str, Any]]:
    """Return a plan with a group of that owner."""
    return site.storage, site.plan_of([f"{OWNER}.app"], policy=POLICY)


def check_owner(text: str) -> None:
    assert SHOWN_OWNER in text
    assert "\nINFO - Forged" not in text
    assert "y" * 300 not in text


def test_in_the_message_and_in_the_log_of_a_second_run(owned: Any, capsys: pytest.CaptureFixture[str]) -> None:
    post = Post("{{ notice.text }}")
    notify(owned, post)
    check_owner("".join(message for _, message in post.received))
    capsys.readouterr()
    notify(owned, post)
    log = capsys.readouterr().out
    check_owner(log)


def test_in_the_log_without_notifiers(owned: Any, capsys: pytest.CaptureFixture[str]) -> None:
    notify(owned)
    log = capsys.readouterr().out
    assert "Nobody was notified" in log
    check_owner(log)


def test_in_the_error_of_a_message_that_could_not_be_sent(owned: Any) -> None:
    post = Post()
    post.broken.add("ops@example.com")
    with pytest.raises(PolicyError, match="could not be notified") as caught:
        notify(owned, post)
    check_owner(str(caught.value))


# Kafka allows a zero byte in a group's name, PostgreSQL none in an XCom: the task would fail when its work is done.


ZERO, OTHER = "\0first", "\0other"


def check_xcom(result: Any, *, named: bool = True) -> None:
    text = json.dumps(result)
    assert "u0000" not in text, text
    assert not named or "x00" in text, "it is named all the same"


def test_a_clean_up_of_such_groups(site: Site) -> None:
    site.admin.groups = {name: FakeGroup() for name in (ZERO, OTHER, "b")}
    site.judge(site.take_snapshot(), stale=[ZERO, OTHER])
    planned = site.plan(max_share=1.0)
    check_xcom(planned)
    site.back_up(planned)
    site.admin.groups[ZERO].members = 1
    done = site.apply(planned)
    assert site.admin.deleted == [OTHER]
    check_xcom(done)
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({})


@pytest.mark.parametrize(
    ("operator", "arguments"), [(ListGroupsOperator, {}), (DescribeGroupsOperator, {"group_ids": [ZERO]})]
)
def test_a_listing_is_written_to_a_file_or_refused(site: Site, operator: Any, arguments: dict[str, Any]) -> None:
    site.admin.groups = {ZERO: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match="a group has a zero byte for an XCom: set a path"):
        operator(task_id="t", **arguments).execute({})
    found = operator(task_id="t", **site.stored, **arguments).execute({})
    check_xcom(found, named=False)
    assert "u0000first" in Path(found["path"]).read_text(), "the file has the exact name"


def test_chunks_cannot_name_such_a_group(admin: FakeAdmin) -> None:
    """Tasks that are mapped over chunks take names: another name would be another group."""
    admin.groups = {ZERO: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match=r"leave \\x00first out"):
        ChunkGroupsOperator(task_id="t").execute({})


def test_the_event_of_a_trigger() -> None:
    """Airflow stores it with the task: a triggerer that cannot do that dies, with all other triggers."""
    result = PollResult(waiting={ZERO: f"{OTHER} is still there"}, total=2)
    check_xcom(_event(EventStatus.TIMEOUT, str(result)).payload)


@pytest.mark.parametrize("outlet", [Asset("plans"), Asset.ref(name="plans"), Asset.ref(uri="s3://plans")], ids=str)
def test_the_event_of_an_asset(outlet: Any) -> None:
    """It is in the same database. A family that grows too fast is named in it, and ids may be made up at each start.

    By a reference, Airflow asks its API server what the asset is: its event had no counts, and no task fails for it.
    """
    events: dict[Any, Any] = {outlet: SimpleNamespace(extra={})}
    family = {"name": f"{ZERO}-<uuid>", "too_fast": [{"per_day": 9.0}]}
    plan: Any = SimpleNamespace(families=[family])
    operator: Any = SimpleNamespace(outlets=[outlet])
    given: Any = {"outlet_events": events}
    update_asset_events(operator, given, {"plan_id": "p", **_growing(plan)})
    assert events[outlet].extra["plan_id"] == "p"
    check_xcom(events[outlet].extra)
    if not isinstance(outlet, Asset):
        nothing: Any = {"outlet_events": {}}
        update_asset_events(operator, nothing, {"plan_id": "p"})


# An approver copies a name out of the question, and ends the last line: that is the name, and not misspelt.


NO_LINK = "\u200b"


def names_in(question: str) -> list[str]:
    """Return the names of its table, as a browser shows them."""
    return [html.unescape(row.split("|")[1].strip()) for row in question.splitlines() if row.startswith("| ")]


def keep(airflow: Airflow, operator: ApproveCleanupOperator, *names: str) -> None:
    airflow.answer["params_input"] = {"confirm_groups": "2", "exclude_groups": list(names)}
    operator.execute_complete(context(), airflow.answer)


@pytest.mark.parametrize("name", ["svc@team", "www.shop", "plain"])
@pytest.mark.parametrize("end", [[], [""]])
def test_what_is_copied_out_of_the_question_is_kept(site: Site, airflow: Airflow, name: str, end: list[str]) -> None:
    planned = site.planned_once([name, "b"], ["live"], backed_up=True)
    operator = ask(site.storage, planned)
    operator.execute(context())
    (copied,) = (shown for shown in names_in(airflow.asked[0].body or "") if shown.replace(NO_LINK, "") == name)
    keep(airflow, operator, copied, *end)
    site.apply(planned)
    assert site.admin.deleted == ["b"]


def test_a_name_that_has_such_a_character_itself_is_kept_and_not_its_twin(site: Site, airflow: Airflow) -> None:
    name, twin = f"svc{NO_LINK}team", "svcteam"
    planned = site.planned_once([name, twin], ["live"], backed_up=True)
    operator = ask(site.storage, planned)
    operator.execute(context())
    keep(airflow, operator, name)
    site.apply(planned)
    assert site.admin.deleted == [twin]


def test_what_is_copied_out_of_a_message_is_restored(site: Site) -> None:
    """An owner copies the name out of the notice into the form, when the group is wanted after all."""
    planned = site.planned_once(["svc@team", "b"], ["live"], backed_up=True)
    site.apply(planned)
    copied = without_links("svc@team")
    assert copied != "svc@team"
    plan_id = planned["plan_id"]
    site.run(RestoreGroupOffsetsOperator, group_ids=[copied], plan_id=plan_id)
    assert sorted(site.admin.groups) == ["live", "svc@team"]
    with pytest.raises(ConfigurationError, match="not in the backup"):
        site.run(RestoreGroupOffsetsOperator, group_ids=[f"{NO_LINK}b"], plan_id=plan_id)
