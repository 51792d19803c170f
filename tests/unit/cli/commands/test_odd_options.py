"""A careless user: each bad value is exit code 2 with the field, the value and a remedy, and no traceback."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.storage import open_path
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER


@pytest.mark.parametrize("url", ["http://[", "file://[::1", "s3://[bucket/x"])
@pytest.mark.parametrize("option", ["--storage-path", "--policy-file"])
def test_a_url_that_cannot_be_parsed_is_bad_usage(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, url: str
) -> None:
    words = ["plan", "--conn-id", "kafka_groups_default", "--cluster", CLUSTER, f"{option}={url}"]
    if option != "--storage-path":
        words += ["--storage-path", str(tmp_path)]
    assert main(words) == 2
    assert url in capsys.readouterr().err


@pytest.mark.safety
def test_the_password_of_a_url_with_a_slash_too_few_is_not_shown(admin: FakeAdmin, stored: Cli) -> None:
    """It is no URL, but a path below this folder is not what anybody meant."""
    code, _, said = stored("plan", "--policy-file", "s3:/AKIA:s3cr3t@bucket/policy.yaml")
    assert (code, "--policy-file (got" in said, "s3cr3t" in said) == (2, True, False), said


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("restore", "{plan_id}", "ghost"), "GROUP (got ['ghost'])"),
        (("apply", "{plan_id}", "--digest", "x", "--yes"), "--digest (got 'x')"),
        (("list", "--conn-id", "not-there"), "--conn-id (got 'not-there')"),
        (("keep-alive", "a", "--assignor", ""), "--assignor (got"),
    ],
)
def test_an_option_that_an_operator_knows_by_another_name_is_named_as_typed(
    backed_up: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], shown: str
) -> None:
    command, *more = (word.format(**backed_up) for word in words)
    stored = ["--storage-path", str(tmp_path), "--cluster", CLUSTER, "--conn-id", "kafka_groups_default"]
    assert main([command, *(() if command == "list" else stored), *more]) == 2
    assert shown in capsys.readouterr().err


def test_an_operator_refuses_such_a_url_clearly() -> None:
    with pytest.raises(ConfigurationError):
        open_path("storage_path", "s3://[bucket/x")


@pytest.mark.parametrize("name", [b"\xff.properties", "ü".encode("latin-1")])
def test_a_config_whose_name_is_no_utf_8(name: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument with other bytes than UTF-8 arrives with surrogates; this one works on disks."""
    path = name.decode("utf-8", "surrogateescape")
    assert main(["list", "--config", path]) == 2


@pytest.mark.parametrize("value", ["99999999999d", "1e300"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("keep-alive", "--margin"),
        ("keep-alive", "--interval"),
        ("prune-topics", "--min-idle"),
        ("prune-topics", "--max-gap"),
    ],
)
def test_a_huge_duration_is_bad_usage(
    planned: dict[str, Any], stored: Cli, command: str, option: str, value: str
) -> None:
    groups = ["a"] if command == "keep-alive" else []
    code, _, said = stored(command, *groups, f"{option}={value}")
    assert code == 2
    assert option.removeprefix("--").replace("-", "_") in said.replace("-", "_")


@pytest.mark.parametrize("option", ["--storage-path", "--snapshot-id"])
def test_a_variable_of_a_script_that_is_not_set_is_refused(
    admin: FakeAdmin,
    planned: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    """As ``backup --plan-id ""``: ``--storage-path "$DIR"`` must not read and write the site's own storage."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"storage_path": str(tmp_path)}))
    before = sorted(path.name for path in (tmp_path / CLUSTER / "plans").iterdir())
    words = ["plan", "--conn-id", "kafka_groups_default", "--cluster", CLUSTER, "--max-share", "1", option, ""]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"argument {option}: must not be empty" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / CLUSTER / "plans").iterdir()) == before


@pytest.mark.parametrize("name", ["", "  ", "None"])
def test_a_stop_variable_without_a_name_does_not_switch_the_stop_switch_off(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "true")
    words = ("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes", f"--stop-variable={name}")
    try:
        code, _, _ = stored(*words)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert (code, admin.deleted) == (2, [])


@pytest.mark.parametrize("command", ["describe", "offsets", "lag", "explain"])
def test_a_group_id_that_is_no_utf_8_is_bad_usage(command: str, cli: Cli, stored: Cli) -> None:
    """A terminal in Latin-1: Python keeps such bytes as lone surrogates, which no broker takes."""
    run = stored if command == "explain" else cli
    code, _, said = run(command, "caf\udce9")
    assert code == 2
    assert "is not UTF-8" in said
