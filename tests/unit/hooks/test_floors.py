"""The site's floors: read from Airflow's configuration and the connection, and declared where Airflow shows them."""

import json
from dataclasses import fields
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.hooks.connection import ConnectionSettings, read_connection
from airflow_kafka_groups.hooks.floors import DEFAULTS, read_floors, site_floors
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.provider_info import get_provider_info

VALUES = {
    "min_idle_seconds": "604800",
    "max_groups": "500",
    "max_share": "0.2",
    "approve_above": "0",
    "dry_run_only": "True",
    "named_deletions": "False",
    "storage_path": "/groups",
    "require_commit_log": "True",
    "policy_file": "/policy.yaml",
    "approvers": '["ann", "42"]',
    "ignore_signs_of_life": "False",
}
READ = SiteFloors(
    min_idle_seconds=604_800.0,
    max_groups=500,
    max_share=0.2,
    approve_above=0,
    dry_run_only=True,
    named_deletions=False,
    storage_path="/groups",
    require_commit_log=True,
    policy_file="/policy.yaml",
    approvers=frozenset({"ann", "42"}),
    ignore_signs_of_life=False,
)


def connection(floors: Any = None) -> ConnectionSettings:
    extra = json.dumps({} if floors is None else {"floors": floors})
    return read_connection(Connection(conn_id="c", conn_type="kafka_groups", host="b:9092", extra=extra))


def configure(monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__KAFKA_GROUPS__{name.upper()}", value)


def test_without_any_nothing_is_limited() -> None:
    assert site_floors(connection(), "/groups") == NO_FLOORS


def test_configuration_and_connection_set_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert VALUES.keys() == {field.name for field in fields(SiteFloors)}
    for written in (VALUES, json.dumps(VALUES)):
        assert site_floors(connection(written), "/groups") == READ
    configure(monkeypatch, **VALUES)
    assert site_floors(connection(), "/groups/") == READ
    with pytest.raises(ConfigurationError, match="'/groups'"):
        site_floors(connection(), "/other")


def test_the_stricter_of_both_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, min_idle_seconds="60", max_groups="500", dry_run_only="True", report_tab="False")
    floors = site_floors(connection({"min_idle_seconds": 600, "max_groups": 1000, "dry_run_only": False}), "/x")
    assert floors == SiteFloors(
        min_idle_seconds=600.0,
        max_groups=500,
        dry_run_only=True,
        named_deletions=False,
        ignore_signs_of_life=False,
    )


@pytest.mark.promise(9)
def test_a_connection_cannot_allow_what_a_limit_of_the_site_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {"named_deletions": True, "ignore_signs_of_life": True}
    configure(monkeypatch, min_idle_seconds="600")
    floors = site_floors(connection(allowed), "/x")
    with pytest.raises(PlanError, match="named_deletions"):
        floors.require_named(1, dry_run=False)
    configure(monkeypatch, min_idle_seconds="600", named_deletions="True")
    floors = site_floors(connection(allowed), "/x")
    floors.require_named(1, dry_run=False)
    with pytest.raises(PlanError, match="ignore_signs_of_life"):
        floors.require_named(1, dry_run=False, ignore_signs_of_life=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_idle_second", "60"),
        ("min_idle_seconds", "a week"),
        ("max_groups", "0"),
        ("max_share", "2"),
        ("dry_run_only", "yes"),
        ("approve_above", "-1"),
        ("approvers", "ann"),
        ("approvers", "[]"),
    ],
)
@pytest.mark.promise(9)
def test_a_floor_that_cannot_be_read_is_an_error_and_not_left_out(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(ConfigurationError, match=name):
        site_floors(connection({name: value}), "/x")
    configure(monkeypatch, **{name: value})
    with pytest.raises(ConfigurationError, match=name):
        site_floors(connection(), "/x")


def test_every_option_is_declared_with_an_example_that_can_be_read() -> None:
    options = dict(get_provider_info()["config"]["kafka_groups"]["options"])
    del options["report_tab"]
    assert options.keys() == VALUES.keys()
    assert all(option["default"] is None for option in options.values()), "a default would be a floor"
    read_floors("examples", {name: option["example"] for name, option in options.items()})


LIMITS = [{name: VALUES[name]} for name in VALUES if name not in ("dry_run_only", "storage_path")]


@pytest.mark.parametrize("floor", LIMITS, ids=str)
def test_any_limit_makes_the_default_storage_a_floor(floor: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another storage has another journal and approvals of its own: by it, every limit could be evaded."""
    monkeypatch.setenv(DEFAULTS, json.dumps({"storage_path": "s3a://bucket/groups", "dry_run": True}))
    configure(monkeypatch, **floor)
    assert site_floors(connection(), "s3a://bucket/groups/").storage_path == "s3a://bucket/groups"
    with pytest.raises(ConfigurationError, match=DEFAULTS):
        site_floors(connection(), "/my/own")
    own = site_floors(connection({"storage_path": "/of/the/connection"}), "/of/the/connection")
    assert own.storage_path == "/of/the/connection", "an explicit floor counts, not the default"


@pytest.mark.parametrize("options", [{}, {"dry_run_only": "True"}, {"named_deletions": "True"}], ids=str)
def test_without_a_limit_any_storage_may_be_used(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEFAULTS, '{"storage_path": "/groups"}')
    configure(monkeypatch, **options)
    floors = site_floors(connection(), "/my/own")
    assert floors.storage_path is None
    assert floors.warnings() == ()


def test_floors_without_any_storage_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEFAULTS, raising=False)
    configure(monkeypatch, max_groups="5")
    (warning,) = site_floors(connection(), "/my/own").warnings()
    assert "Set the floor storage_path" in warning
    configure(monkeypatch, storage_path="/groups")
    assert site_floors(connection(), "/groups").warnings() == ()


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"storage_path": 7}', '{"storage_path": ""}'])
def test_defaults_that_cannot_be_read_take_no_floor_away(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEFAULTS, text)
    configure(monkeypatch, max_groups="5")
    with pytest.raises(ConfigurationError, match=DEFAULTS):
        site_floors(connection(), "/my/own")


@pytest.mark.safety
@pytest.mark.parametrize("suffix", ["CMD", "SECRET"])
def test_a_floor_that_airflow_does_not_look_up_is_an_error(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Airflow runs commands and asks secrets backends for options that it knows as secret, and ignores others."""
    monkeypatch.setenv(f"AIRFLOW__KAFKA_GROUPS__DRY_RUN_ONLY_{suffix}", "echo s3cr3t")
    message = rf"dry_run_only_{suffix.lower()}: is not known"
    with pytest.raises(ConfigurationError, match=message) as caught:
        site_floors(ConnectionSettings(conn_id="c", properties={}), "/s")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("name", ["storage_path", "policy_file"])
def test_a_password_in_a_floor_is_not_repeated_to_who_chose_another_storage(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    configure(monkeypatch, **{name: "s3://AKIA:hidden@bucket/x"})
    with pytest.raises(ConfigurationError, match=name) as caught:
        site_floors(connection(), "/my/own")
    assert "hidden" not in str(caught.value)
