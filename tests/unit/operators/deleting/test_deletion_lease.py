"""A deletion in earnest takes the cluster's lease; who does not get it deletes nothing and says who has it."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.exceptions import ConfigurationError, LeaseLostError, LeaseNotAcquiredError
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.fakes.lease import FakeLease
from tests.records import records
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

HELD = LeaseNotAcquiredError("airflow-kafka-groups-lease", "the lease is held by 'nightly'; waited 60 s for it")


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b")}


def delete(storage: Path, given: Any = None, **arguments: Any) -> dict[str, Any]:
    return scene.delete(storage, given, **{"group_ids": ["a", "b"], **arguments})


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.promise(11)
def test_another_lease_on_the_cluster_is_a_warning(site: Site, leases: FakeLease, dry_run: bool) -> None:
    """Two prefixes are two leases, and neither run would notice the other."""
    own, other = "airflow-kafka-groups-lease", "team-b.airflow-kafka-groups-lease"
    site.admin.groups[own] = FakeGroup()
    (unwatched,) = delete(site.storage, dry_run=dry_run, group_ids=["a"])["warnings"]
    site.admin.groups[other] = FakeGroup()
    same, warning = delete(site.storage, dry_run=dry_run, group_ids=["b"])["warnings"]
    assert "this cluster was not watched" in unwatched == same
    assert f"'{other}'" in warning
    assert "lease_group_prefix" in warning
    (_, record) = records(site.storage)
    assert record["warnings"] == [unwatched, warning]
    assert ("b" in site.admin.groups) is dry_run, "it is a warning only"


@pytest.mark.parametrize("lease", [True, "True", "true"])
def test_it_is_taken_by_default_and_recorded(site: Site, leases: FakeLease, lease: Any) -> None:
    done = delete(site.storage, lease=lease)
    assert sorted(site.admin.deleted) == ["a", "b"]
    (asked,) = leases.asked
    assert asked["wait_seconds"] == 60
    (record,) = records(site.storage)
    assert record["lease"] == done["lease"]
    assert record["lease"]["generations"] == [7]
    assert leases.given_back == 1


def test_the_others_are_told_which_run_has_it(site: Site, leases: FakeLease) -> None:
    context = {"ti": SimpleNamespace(dag_id="cleanup", task_id="delete", try_number=1), "run_id": "manual__1"}
    delete(site.storage, context)
    owner = leases.asked[0]["owner"]
    assert owner == f"cleanup.delete, run manual__1, on {socket.gethostname()}, client id airflow-kafka-groups"


@pytest.mark.parametrize("lease", [False, "False"])
def test_it_can_be_switched_off(site: Site, leases: FakeLease, lease: Any) -> None:
    assert delete(site.storage, lease=lease)["lease"] is None
    assert (sorted(site.admin.deleted), leases.asked) == (["a", "b"], [])


def test_who_does_not_get_it_skips_and_says_who_has_it(site: Site, leases: FakeLease) -> None:
    leases.refused = HELD
    with pytest.raises(
        AirflowSkipException, match=r"Another clean-up is in progress.*by 'nightly'.*Nothing was deleted"
    ):
        delete(site.storage)
    assert (site.admin.deleted, records(site.storage)) == ([], [])


def test_a_user_who_may_not_join_fails_and_does_not_skip(site: Site, leases: FakeLease) -> None:
    leases.refused = ConfigurationError("lease", "g", "this user may not join")
    with pytest.raises(ConfigurationError, match="may not join"):
        delete(site.storage)
    assert site.admin.deleted == []


def test_a_lease_lost_on_the_way_fails_the_task_after_the_record(site: Site, leases: FakeLease) -> None:
    leases.lease.lose()
    with pytest.raises(LeaseLostError, match=r"went on without this run\. kept 2; recorded in .*\.json"):
        delete(site.storage, fail_if_kept=False)
    (record,) = records(site.storage)
    assert record["kept_reasons"] == {"lease_lost": 2}
    assert "went on without" in record["lease"]["lost"]


def test_a_killed_run_has_its_lease_on_record(site: Site, leases: FakeLease) -> None:
    site.patch.setattr(site.admin, "delete_consumer_groups", AsyncMock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        delete(site.storage)
    (record,) = records(site.storage)
    assert record["lease"]["generations"] == [7]
