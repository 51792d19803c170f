"""What becomes of a group whose request was answered, refused, given up or lost."""

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError, OutcomeUnknownError
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.outcomes import DeletionReport, Outcome
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, broker_error, timeout
from tests.unit.change.deletion.steps import cluster, delete, fates, look_only_once
from tests.unit.change.scene import backed_up, layout_in

ERRORS = [code for code in ErrorCode if code is not ErrorCode.none]


@pytest.fixture(scope="module")
def answered_with_every_error(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeAdmin, DeletionReport]:
    """Delete a group for each error code, which its delete request is answered with, and one that is deleted."""
    admin = cluster("b", *(code.name for code in ERRORS))
    layout = layout_in(tmp_path_factory.mktemp("errors"))

    async def run() -> DeletionReport:
        plan, _ = await backed_up(admin, layout)
        admin.delete_errors.update({code.name: broker_error(code.name.upper()) for code in ERRORS})
        look_only_once(admin)
        return await delete(admin, layout, plan)

    return admin, asyncio.run(run())


@pytest.mark.parametrize("code", ERRORS)
def test_every_answer_of_a_delete_request_is_told_apart(
    code: ErrorCode, answered_with_every_error: tuple[FakeAdmin, DeletionReport]
) -> None:
    admin, report = answered_with_every_error
    special = {
        ErrorCode.non_empty_group: "kept",
        ErrorCode.group_id_not_found: "gone",
        ErrorCode.unknown_server_error: "unknown",
        ErrorCode.request_timed_out: "unknown",
        ErrorCode.network_exception: "unknown",
        ErrorCode.coordinator_not_available: "unknown",
        ErrorCode.not_coordinator: "unknown",
        ErrorCode.not_enough_replicas_after_append: "unknown",
        ErrorCode.not_leader_or_follower: "unknown",
        ErrorCode.kafka_storage_error: "unknown",
    }
    outcomes = [item.outcome.value for item in report.outcomes if item.group_id == code.name]
    assert outcomes == [special.get(code, "failed")]
    assert admin.deleted == ["b"]


@pytest.mark.parametrize("problem", [timeout(), OutcomeUnknownError("the connection broke"), KafkaGroupsError("x")])
async def test_a_lost_answer_is_unknown_and_never_deleted_or_failed(problem: KafkaGroupsError, tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.delete_errors["a"] = problem
    look_only_once(admin)
    report = await delete(admin, layout, plan)
    assert report.ids(Outcome.UNKNOWN) == ["a"]
    assert set(read_history(layout, CLUSTER_ID).deletions()) == {"a"}, "possibly deleted"


async def test_what_is_unknown_and_found_there_was_not_deleted_and_still_is_not_tried_again(tmp_path: Path) -> None:
    admin = cluster("a")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.delete_errors["a"] = timeout()
    assert fates(await delete(admin, layout, plan)) == {"a": "failed:still_there"}
    admin.delete_errors.clear()
    assert fates(await delete(admin, layout, plan)) == {"a": "kept:deleted_before"}
    assert "a" in admin.groups, "it may have been deleted and have come back"


async def test_a_group_left_out_of_the_answer_is_unknown(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)

    def silence(call: str) -> None:
        if call == "delete":
            admin.silent.add("a")

    admin.before = silence
    look_only_once(admin)
    report = await delete(admin, layout, plan)
    assert fates(report) == {"a": "unknown:no_answer", "b": "deleted:safe"}


@pytest.mark.parametrize(("call", "outcome"), [("describe", "kept"), ("stable offsets", "kept"), ("delete", "unknown")])
async def test_a_call_that_fails_as_a_whole_stops_the_run(call: str, outcome: str, tmp_path: Path) -> None:
    admin = cluster("a", "b", "c")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    calls: list[str] = []

    def break_down(name: str) -> None:
        calls.append(name)
        if calls.count(call) == 2 and name == call:
            raise timeout()

    admin.before = break_down
    look_only_once(admin)
    report = await delete(admin, layout, plan, chunk_size=1)
    assert [item.outcome.value for item in report.outcomes] == ["deleted", outcome, "kept"]
    assert report.outcomes[2].code == "stopped"
    assert len(report.warnings) == 1
    assert len(admin.groups) == 2


async def test_a_delete_request_does_not_wait_for_ever_on_a_reading_that_gets_old(tmp_path: Path) -> None:
    admin = cluster("a", "b")
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.delete_hangs = True
    look_only_once(admin)
    report = await delete(admin, layout, plan, chunk_size=1, max_delete_seconds=0.01)
    assert [f"{item.outcome.value}:{item.code}" for item in report.outcomes] == [
        "unknown:outcome_unknown",
        "kept:stopped",
    ]
    assert "given up" in report.warnings[0]
