"""Kafka allows a zero byte in a group's name, PostgreSQL none in an XCom: the task would fail when its work is done."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import Asset

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.groups import (
    ChunkGroupsOperator,
    DescribeGroupsOperator,
    FindCoordinatorsOperator,
    ListGroupsOperator,
)
from airflow_kafka_groups.operators.keep_alive import KeepOffsetsAliveOperator
from airflow_kafka_groups.operators.offset_changes import ResetGroupOffsetsOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import _growing
from airflow_kafka_groups.operators.support.telemetry import update_asset_events
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from airflow_kafka_groups.triggers.conditions import PollResult
from airflow_kafka_groups.triggers.poll import EventStatus, _event
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators import scene

NAME, OTHER = "\0first", "\0other"


def check(result: Any, *, named: bool = True) -> None:
    text = json.dumps(result)
    assert "u0000" not in text, text
    assert not named or "x00" in text, "it is named all the same"


def test_a_clean_up_of_such_groups(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {name: FakeGroup() for name in (NAME, OTHER, "b")}
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale=[NAME, OTHER])
    planned = scene.plan(tmp_path, max_share=1.0)
    check(planned)
    scene.back_up(tmp_path, planned)
    admin.groups[NAME].members = 1
    done = scene.apply(tmp_path, planned)
    assert admin.deleted == [OTHER]
    check(done)
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({})


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (FindCoordinatorsOperator, {}),
        (ListGroupLagOperator, {"max_lag": 0}),
        (ListGroupOffsetsOperator, {}),
        (BackupGroupOffsetsOperator, {}),
        (ResetGroupOffsetsOperator, {"to": "earliest", "dry_run": True}),
        (KeepOffsetsAliveOperator, {"observe_seconds": 0, "dry_run": True, "offsets_retention_minutes": 10}),
    ],
)
@pytest.mark.parametrize("fails", [True, False])
def test_what_a_task_returns(
    admin: FakeAdmin, tmp_path: Path, operator: Any, arguments: dict[str, Any], *, fails: bool
) -> None:
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    if fails:
        admin.errors[NAME] = broker_error("GROUP_AUTHORIZATION_FAILED")
    stored = {} if operator in (FindCoordinatorsOperator, ListGroupLagOperator) else {"storage_path": str(tmp_path)}
    task = operator(task_id="t", group_ids=[NAME, "b"], **stored, **arguments)
    check(task.execute({}), named=False)


@pytest.mark.parametrize(
    ("operator", "arguments"), [(ListGroupsOperator, {}), (DescribeGroupsOperator, {"group_ids": [NAME]})]
)
def test_a_listing_is_written_to_a_file_or_refused_before_its_end(
    admin: FakeAdmin, tmp_path: Path, operator: Any, arguments: dict[str, Any]
) -> None:
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match=r"the name of \\x00first has a zero byte") as caught:
        operator(task_id="t", **arguments).execute({})
    assert "set a path to write them to" in str(caught.value)
    found = operator(task_id="t", storage_path=str(tmp_path), cluster=scene.CLUSTER, **arguments).execute({})
    check(found, named=False)
    assert "u0000first" in Path(found["path"]).read_text(), "the file has the exact name"


@pytest.mark.parametrize(
    ("operator", "arguments"), [(ListGroupsOperator, {}), (DescribeGroupsOperator, {"group_ids": ["a"]})]
)
def test_what_the_members_of_a_group_made_up_is_as_good_as_a_name(
    admin: FakeAdmin, tmp_path: Path, operator: Any, arguments: dict[str, Any]
) -> None:
    """Clients choose the type of their protocol, and the topics of the assignments that they write: any strings."""
    admin.groups = {"a": FakeGroup(protocol_type="con\0sumer"), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match=r"the description of a has a zero byte.*set a path"):
        operator(task_id="t", **arguments).execute({})
    check(operator(task_id="t", storage_path=str(tmp_path), **arguments).execute({}), named=False)


def test_chunks_cannot_name_such_a_group_and_say_how_to_leave_it_out(admin: FakeAdmin) -> None:
    """Tasks that are mapped over chunks take names: another name would be another group."""
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match=r"leave \\x00first out, by 're:\(\?s\)\.\*\\x00\.\*'") as caught:
        ChunkGroupsOperator(task_id="t").execute({})
    pattern = str(caught.value).split("'")[1]
    assert ChunkGroupsOperator(task_id="t", exclude=[pattern]).execute({}) == [["b"]]


def test_the_event_of_a_trigger() -> None:
    """Airflow stores it with the task: a triggerer that cannot do that dies, with all other triggers."""
    result = PollResult(reached=False, waiting={NAME: f"{OTHER} is still there"}, total=2)
    check(_event(EventStatus.TIMEOUT, str(result)).payload)


def test_the_event_of_an_asset() -> None:
    """It is in the same database. A family that grows too fast is named in it, and ids may be made up at each start."""
    asset = Asset("plans")
    events: dict[Asset, Any] = {asset: SimpleNamespace(extra={})}
    family = {"name": f"{NAME}-<uuid>", "too_fast": [{"per_day": 9.0}]}
    plan: Any = SimpleNamespace(families=[family])
    operator, context = SimpleNamespace(outlets=[asset]), {"outlet_events": events}
    update_asset_events(cast("Any", operator), cast("Any", context), {"plan_id": "p", **_growing(plan)})
    check(events[asset].extra)


def test_the_event_of_an_asset_that_is_named_by_a_reference() -> None:
    """Its event had no counts. Airflow asks its API server what it is, and no task fails for it."""
    for outlet in (Asset.ref(name="plans"), Asset.ref(uri="s3://plans")):
        events: dict[Any, Any] = {outlet: SimpleNamespace(extra={})}
        operator, context = SimpleNamespace(outlets=[outlet]), {"outlet_events": events}
        update_asset_events(cast("Any", operator), cast("Any", context), {"plan_id": "p"})
        assert events[outlet].extra == {"plan_id": "p"}
        update_asset_events(cast("Any", operator), cast("Any", {"outlet_events": {}}), {"plan_id": "p"})
