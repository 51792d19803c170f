"""Kafka allows a zero byte in a group's name, PostgreSQL none in an XCom: the task would fail when its work is done."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import Asset

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.groups import ChunkGroupsOperator, DescribeGroupsOperator, ListGroupsOperator
from airflow_kafka_groups.operators.plan import _growing
from airflow_kafka_groups.operators.support.base import update_asset_events
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from airflow_kafka_groups.triggers.conditions import PollResult
from airflow_kafka_groups.triggers.poll import EventStatus, _event
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
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
    ("operator", "arguments"), [(ListGroupsOperator, {}), (DescribeGroupsOperator, {"group_ids": [NAME]})]
)
def test_a_listing_is_written_to_a_file_or_refused(
    admin: FakeAdmin, tmp_path: Path, operator: Any, arguments: dict[str, Any]
) -> None:
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match="a group has a zero byte for an XCom: set a path"):
        operator(task_id="t", **arguments).execute({})
    found = operator(task_id="t", storage_path=str(tmp_path), cluster=scene.CLUSTER, **arguments).execute({})
    check(found, named=False)
    assert "u0000first" in Path(found["path"]).read_text(), "the file has the exact name"


def test_chunks_cannot_name_such_a_group(admin: FakeAdmin) -> None:
    """Tasks that are mapped over chunks take names: another name would be another group."""
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    with pytest.raises(ConfigurationError, match=r"leave \\x00first out"):
        ChunkGroupsOperator(task_id="t").execute({})


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
