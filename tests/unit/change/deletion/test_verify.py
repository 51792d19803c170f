from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion.verify import settle, verify_deleted
from airflow_kafka_groups.exceptions import ConfigurationError, OutcomeUnknownError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.outcomes import Outcome
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error, timeout
from tests.unit.change.scene import backed_up, delete_plan, layout_in


async def test_gone_is_what_nobody_lists_and_its_coordinator_does_not_know() -> None:
    admin = FakeAdmin()
    admin.add("back", ("t", 0, 1), state=GroupState.STABLE, members=1)
    admin.describe_errors["new-spelling"] = broker_error("GROUP_ID_NOT_FOUND")
    admin.describe_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    admin.silent.add("silent")
    found = await verify_deleted(admin, ["gone", "back", "new-spelling", "secret", "silent", "gone"])
    assert found.gone == ("gone", "new-spelling")
    assert dict(found.present) == {"back": "listed as classic, state Stable"}
    assert sorted(found.unclear) == ["secret", "silent"]
    assert not found.ok
    assert found.to_json()["gone"] == 2


async def test_a_group_only_its_coordinator_knows_is_there() -> None:
    admin = FakeAdmin()

    def appear(call: str) -> None:
        if call == "describe":
            admin.add("back", ("t", 0, 1))

    admin.before = appear
    found = await verify_deleted(admin, ["back"])
    assert dict(found.present) == {"back": "state Empty, 0 member(s)"}


async def test_an_incomplete_listing_proves_nothing() -> None:
    admin = FakeAdmin()
    admin.missing_brokers = {1: timeout()}
    found = await verify_deleted(admin, ["gone"])
    assert (found.gone, list(found.unclear)) == ((), ["gone"])


async def test_nothing_to_verify_asks_nothing() -> None:
    admin = FakeAdmin()
    assert (await verify_deleted(admin, [])).ok
    assert admin.calls == []
    with pytest.raises(ConfigurationError):
        await verify_deleted(admin, "g")


async def test_a_later_look_settles_what_was_unknown(tmp_path: Path) -> None:
    admin = FakeAdmin()
    for name in ("lost", "refused", "fine", "returns", "doubtful"):
        admin.add(name, ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    for name in ("lost", "refused", "doubtful"):
        admin.delete_errors[name] = OutcomeUnknownError("the connection broke")
    lists = [0]

    def verification_fails(call: str) -> None:
        lists[0] += call == "list"
        if lists[0] == 2:
            raise timeout()

    admin.before = verification_fails
    report = (await delete_plan(admin, layout, plan)).report
    admin.before = lambda call: None
    assert sorted(report.ids(Outcome.UNKNOWN)) == ["doubtful", "lost", "refused"]
    del admin.groups["lost"], admin.groups["doubtful"]
    admin.describe_errors["doubtful"] = timeout()
    admin.add("returns", ("t", 0, 0), state=GroupState.STABLE, members=1)
    settled = settle(report, await verify_deleted(admin, report.ids(Outcome.DELETED, Outcome.UNKNOWN)))
    assert {item.group_id: f"{item.outcome.value}:{item.code}" for item in settled.outcomes} == {
        "lost": "deleted:confirmed",
        "refused": "failed:still_there",
        "fine": "deleted:safe",
        "returns": "deleted:safe",
        "doubtful": "unknown:outcome_unknown",
    }
    back, unclear = settled.warnings
    assert "'returns'" in back
    assert "there again" in back
    assert "'doubtful'" in unclear


@pytest.mark.safety
@pytest.mark.parametrize(
    ("offset", "code"), [(1, "failed:still_there"), (9, "unknown:not_coordinator"), (None, "unknown:not_coordinator")]
)
async def test_a_group_that_its_team_made_anew_after_a_lost_answer_is_not_called_not_deleted(
    tmp_path: Path, offset: int | None, code: str
) -> None:
    """Its coordinator wrote the deletion and moved; a consumer then started where ``auto.offset.reset`` says."""
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.delete_errors["a"] = broker_error("NOT_COORDINATOR")

    def made_anew(call: str) -> None:
        if call == "delete":
            del admin.groups["a"]
            offsets = () if offset is None else (("t", 0, offset),)
            admin.add("a", *offsets, state=GroupState.STABLE, members=1)

    admin.before = made_anew
    report = (await delete_plan(admin, layout, plan)).report
    (outcome,) = report.outcomes
    assert f"{outcome.outcome.value}:{outcome.code}" == code
    assert ("not deleted (" in outcome.reason) == (offset == 1)
    assert ("not known to have the offsets that it had" in outcome.reason) == (offset != 1)


async def test_a_group_whose_offsets_cannot_be_read_afterwards_is_not_said_to_have_others(tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.delete_errors["a"] = broker_error("NOT_COORDINATOR")

    def its_coordinator_goes(call: str) -> None:
        if call == "delete":
            admin.offset_errors["a"] = timeout()

    admin.before = its_coordinator_goes
    (outcome,) = (await delete_plan(admin, layout, plan)).report.outcomes
    assert (outcome.outcome, outcome.code) == (Outcome.UNKNOWN, "not_coordinator")
    assert "it is there (listed as classic, state Empty), and not known to have the offsets" in outcome.reason
