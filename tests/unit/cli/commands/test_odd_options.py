"""A careless user: each bad value is exit code 2 with the field, the value and a remedy, and no traceback."""

from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators.scene import CLUSTER, Planned, Site

LATIN_1 = "caf\udce9"  # Python keeps such bytes of a terminal as lone surrogates, which no broker takes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((f"plan --policy-file={url}", url) for url in ("http://[", "file://[::1", "s3://[bucket/x")),
        ("restore {plan_id} ghost", "GROUP (got ['ghost'])"),  # an operator knows these by other names
        ("apply {plan_id} --digest x --yes", "--digest (got 'x')"),
        ("keep-alive a --assignor=", "--assignor (got"),
        *((f"keep-alive a {of}={to}", of) for of in ("--margin", "--interval") for to in ("99999999999d", "1e300")),
        *((f"prune-topics {of}={to}", of) for of in ("--min-idle", "--max-gap") for to in ("99999999999d", "1e300")),
        (f"explain {LATIN_1}", "is not UTF-8"),
    ],
)
def test_what_cannot_be_is_named_as_typed(backed_up: dict[str, Any], stored: Cli, words: str, said: str) -> None:
    code, _, error = stored(*words.format(**backed_up).split())
    assert (code, said.replace("-", "_") in error.replace("-", "_")) == (2, True), error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((f"plan --storage-path={url}", url) for url in ("http://[", "file://[::1", "s3://[bucket/x")),
        *((f"{command} {LATIN_1}", "is not UTF-8") for command in ("describe", "offsets", "lag")),
    ],
)
def test_so_is_what_needs_no_plan(admin: FakeAdmin, cli: Cli, words: str, said: str) -> None:
    code, _, error = cli(*words.split())
    assert (code, said in error) == (2, True), error


@pytest.mark.parametrize("words", [("--conn-id", "not-there"), ("--config", "\udcff.properties")])
def test_a_connection_that_is_not_there_is_named(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", *words]) == 2
    assert f"{words[0]} (got {words[1]!r})" in capsys.readouterr().err


@pytest.mark.safety
def test_the_password_of_a_url_with_a_slash_too_few_is_not_shown(admin: FakeAdmin, stored: Cli) -> None:
    """It is no URL, but a path below this folder is not what anybody meant."""
    code, _, said = stored("plan", "--policy-file", "s3:/AKIA:s3cr3t@bucket/policy.yaml")
    assert (code, "--policy-file (got" in said, "s3cr3t" in said) == (2, True, False), said


@pytest.mark.parametrize("option", ["--storage-path", "--snapshot-id"])
def test_a_variable_of_a_script_that_is_not_set_is_refused(planned: Planned, site: Site, cli: Cli, option: str) -> None:
    """As ``backup --plan-id ""``: ``--storage-path "$DIR"`` must not read and write the site's own storage."""
    site.defaults({"storage_path": str(site.storage)})
    before = sorted(path.name for path in (site.folder / "plans").iterdir())
    with pytest.raises(SystemExit) as ended:
        cli("plan", "--cluster", CLUSTER, "--max-share", "1", option, "")
    assert ended.value.code == 2
    assert sorted(path.name for path in (site.folder / "plans").iterdir()) == before


@pytest.mark.parametrize("name", ["", "  ", "None"])
def test_a_stop_variable_without_a_name_does_not_switch_the_stop_switch_off(
    site: Site, backed_up: Planned, stored: Cli, name: str
) -> None:
    site.patch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "true")
    words = ("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes", f"--stop-variable={name}")
    try:
        code, _, _ = stored(*words)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert (code, site.admin.deleted) == (2, [])
