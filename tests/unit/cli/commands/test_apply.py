"""Applying a plan: a dry run by default, no way around what the site demands, and a record that interrupts complete."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.commands.remove import Stoppable
from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.cli.options import Cluster
from airflow_kafka_groups.cli.output import Output, say
from airflow_kafka_groups.exceptions import LeaseNotAcquiredError
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.journal import read_history
from tests.fakes.admin import FakeAdmin
from tests.fakes.lease import FakeLease
from tests.records import runs
from tests.unit.cli.commands.conftest import Cli, ask, only_run
from tests.unit.operators.scene import CLUSTER, Planned, Site

pytestmark = pytest.mark.safety


def yes(planned: dict[str, Any]) -> tuple[str, ...]:
    return ("apply", planned["plan_id"], "--digest", planned["digest"], "--yes")


def test_without_yes_nothing_is_deleted(admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli) -> None:
    code, found, said = stored("apply", backed_up["plan_id"])
    assert (code, admin.deleted) == (0, [])
    assert (found["dry_run"], found["counts"]["would_delete"]) == (True, 2)
    assert [item["group_id"] for item in found["outcomes"]] == ["a", "b"]
    assert f"run the same command with: --digest {backed_up['digest']} --yes" in said


def test_a_dry_run_calls_nothing_backed_up_that_is_not(planned: dict[str, Any], stored: Cli) -> None:
    _, found, said = stored("apply", planned["plan_id"])
    assert found["backup"] is None
    assert f"back the plan up: airflow-kafka-groups backup --plan-id {planned['plan_id']} --digest" in said
    assert "--yes" not in said
    reasons = {item["reason"] for item in found["outcomes"]}
    assert reasons == {"empty, without members, unmoved, not backed up yet"}
    stored("backup", "--plan-id", planned["plan_id"], "--digest", planned["digest"])
    _, found, _ = stored("apply", planned["plan_id"])
    assert {item["reason"] for item in found["outcomes"]} == {"empty, without members, unmoved, backed up"}


def test_yes_deletes_with_lease_journal_and_report(
    site: Site, backed_up: Planned, stored: Cli, leases: FakeLease
) -> None:
    code, found, said = stored(*yes(backed_up))
    assert (code, sorted(site.admin.deleted)) == (0, ["a", "b"])
    assert found["verification"]["gone"] == 2
    assert found["lease"]["group_id"]
    run = only_run(site.storage)
    assert run.begun["actor"]["command"] == "airflow-kafka-groups apply"
    assert run.begun["actor"]["user"]
    assert set(run.intents) == {"a", "b"}
    assert f"airflow-kafka-groups restore {backed_up['plan_id']} --conn-id" in said
    assert "Report: " in said


def test_yes_needs_the_digest_of_the_plan_that_was_seen(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli
) -> None:
    code, found, said = stored("apply", backed_up["plan_id"], "--yes")
    assert (code, found) == (2, None)
    assert "--digest" in said
    code, _, said = stored("apply", backed_up["plan_id"], "--yes", "--digest", "0" * 64)
    assert (code, admin.deleted) == (1, [])
    assert "its digest differs" in said


@pytest.mark.parametrize(
    ("floor", "value", "named"),
    [
        ("DRY_RUN_ONLY", "True", "dry_run_only"),
        ("MIN_IDLE_SECONDS", "9999999", "min_idle_seconds"),
        ("MAX_GROUPS", "1", "max_groups"),
        ("APPROVE_ABOVE", "1", "more than 1 have to be approved"),
    ],
)
def test_no_floor_is_undercut(site: Site, backed_up: Planned, stored: Cli, floor: str, value: str, named: str) -> None:
    site.configure(storage_path=site.storage, **{floor: value})
    code, found, said = stored(*yes(backed_up))
    assert (code, found, site.admin.deleted) == (1, None, [])
    assert named in said


def test_another_storage_than_the_sites_is_refused(site: Site, backed_up: Planned, stored: Cli) -> None:
    site.configure(storage_path="/elsewhere")
    for arguments in (yes(backed_up), ("backup",), ("restore", backed_up["plan_id"]), ("explain", "a"), ("plan",)):
        code, found, said = stored(*arguments)
        assert (code, found) == (2, None)
        assert "/elsewhere" in said


def test_an_approval_counts_only_as_it_was_given_in_airflow(site: Site, backed_up: Planned, stored: Cli) -> None:
    code, _, said = stored(*yes(backed_up), "--approval-rule", "always")
    assert (code, site.admin.deleted) == (1, [])
    assert "is not approved" in said
    ask(site.storage, backed_up["plan_id"], answer=None)
    code, _, said = stored(*yes(backed_up))
    assert (code, site.admin.deleted) == (1, []), "somebody was asked and has not answered, whatever the rule is"
    ask(site.storage, backed_up["plan_id"], answer=True, excluded=["b"])
    code, found, _ = stored(*yes(backed_up), "--approval-rule", "always")
    assert (code, site.admin.deleted) == (3, ["a"])
    assert {item["group_id"]: item["code"] for item in found["outcomes"]} == {"a": "safe", "b": "excluded"}


def test_a_read_only_connection_and_a_protected_group_are_refused(site: Site, backed_up: Planned, stored: Cli) -> None:
    for extra, code in (({"read_only": True}, 2), ({"protected_groups": ["b"]}, 1)):
        site.connect(**extra)
        assert stored(*yes(backed_up))[0] == code
    assert site.admin.deleted == []


def test_the_stop_variable_keeps_the_groups(site: Site, backed_up: Planned, stored: Cli) -> None:
    site.patch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "incident")
    code, found, _ = stored(*yes(backed_up))
    assert (code, site.admin.deleted, found["kept_reasons"]) == (3, [], {"stopped": 2})


def test_an_interrupt_keeps_what_is_left_and_is_recorded(site: Site, backed_up: Planned, stored: Cli) -> None:
    def client(self: Cluster) -> FakeAdmin:
        signal.raise_signal(signal.SIGINT)
        return site.admin

    site.patch.setattr(Cluster, "get_conn", client)
    before = signal.getsignal(signal.SIGINT)
    code, found, said = stored(*yes(backed_up))
    assert (code, site.admin.deleted, found["kept_reasons"]) == (3, [], {"stopped": 2})
    assert "interrupted" in said
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_ends_the_process() -> None:
    observer = Stoppable(None)
    observer.interrupt(signal.SIGINT, None)
    assert observer.why_stop() == "it was interrupted"
    observer.interrupt(signal.SIGHUP, None)  # nor does a terminal that closes
    with pytest.raises(KeyboardInterrupt):
        observer.interrupt(signal.SIGTERM, None)


@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_closes_stops_a_deletion_in_order(
    site: Site, backed_up: Planned, stored: Cli, nohup: bool
) -> None:
    def client(self: Cluster) -> FakeAdmin:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        return site.admin

    site.patch.setattr(Cluster, "get_conn", client)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)  # the tests may run by nohup
    before = signal.getsignal(signal.SIGHUP)
    try:
        code, found, _ = stored(*yes(backed_up))
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert (code, len(site.admin.deleted), found["kept_reasons"]) == ((0, 2, {}) if nohup else (3, 0, {"stopped": 2}))


def test_a_lease_that_another_run_holds_ends_it(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, leases: FakeLease
) -> None:
    leases.refused = LeaseNotAcquiredError("lease", "another clean-up")
    code, found, said = stored(*yes(backed_up), "--lease-wait-seconds", "0")
    assert (code, found, admin.deleted) == (1, None, [])
    assert "another clean-up" in said
    (asked,) = leases.asked
    assert "the command 'apply' of" in asked["owner"]
    assert stored(*yes(backed_up), "--no-lease")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--lease-wait", "-1"),
        ("--groups-per-second", "fast"),
        ("--bytes-per-second", "-5"),
        ("--approve-above", "1.5", "--approval-rule", "above_cap"),
        ("--approve-above", "0"),
        ("--approve-above", "5", "--approval-rule", "always"),
    ],
)
def test_bad_numbers_are_bad_usage_and_so_is_a_threshold_that_would_not_count(
    admin: FakeAdmin, backed_up: dict[str, Any], stored: Cli, arguments: tuple[str, ...]
) -> None:
    code, found, said = stored(*yes(backed_up), *arguments)
    assert (code, found, admin.deleted) == (2, None, [])
    assert arguments[0] in said


def test_without_an_airflow_database_no_error_of_it_is_in_the_way_of_what_was_deleted(
    backed_up: dict[str, Any], stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell with its connections elsewhere: the Variable that stops deletions can only be in its environment."""
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT", raising=False)
    monkeypatch.setattr("airflow_kafka_groups.hooks.airflow_lookups.has_no_tables", lambda: True)
    code, found, said = stored(*yes(backed_up))
    assert (code, found["counts"]["deleted"]) == (0, 2)
    assert "Traceback" not in said
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "true")
    _, found, _ = stored(*yes(backed_up))
    assert found["counts"]["deleted"] == 0


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """What a shell runs in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_a_message_is_written_completes_the_record(
    site: Site, backed_up: Planned, to_apply: list[str]
) -> None:
    """``apply --yes 2>&1 | less`` whose pipe is full, or a terminal paused by Ctrl-S: the write waits, then Ctrl-C."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    stderr = TextIOWrapper(BufferedWriter(FileIO(write, "w")), line_buffering=True)  # as Python opens stderr

    def user() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C
        time.sleep(0.5)
        while os.read(read, 65536):  # Ctrl-Q: the reader goes on
            pass

    delete = site.admin.delete_consumer_groups

    async def warned(*args: Any, **options: Any) -> Any:
        done = await delete(*args, **options)
        site.patch.setattr(sys, "stderr", stderr)
        threading.Thread(target=user, daemon=True).start()
        say("warning: something about this run")  # any message of the run
        return done

    site.patch.setattr(site.admin, "delete_consumer_groups", warned)
    main(to_apply)
    run = only_run(site.storage)
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert {name: item.outcome.value for name, item in run.outcomes.items()} == {"a": "deleted", "b": "deleted"}


def test_an_interrupt_while_the_result_is_written_names_the_record(
    site: Site, to_apply: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """After a deletion, ``apply --yes | less`` waits for its reader. Ctrl-C then: what happened must be findable."""

    def interrupted(self: Output, *args: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    site.patch.setattr(Output, "_json", interrupted)
    code = main(to_apply)
    said = capsys.readouterr().err
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert code == 130
    assert "what happened is in" in said, said


def nobody_reads() -> TextIOWrapper:
    read, write = os.pipe()
    os.close(read)
    return TextIOWrapper(FileIO(write, "w"), write_through=True)


def test_an_interrupt_whose_message_nobody_reads_completes_the_record(
    site: Site, backed_up: Planned, to_apply: list[str]
) -> None:
    delete = site.admin.delete_consumer_groups

    async def interrupted(*args: Any, **options: Any) -> Any:
        site.patch.setattr(sys, "stderr", nobody_reads())
        done = await delete(*args, **options)
        signal.raise_signal(signal.SIGINT)  # Ctrl-C while the brokers' answer is waited for; tee is gone by now
        return done

    site.patch.setattr(site.admin, "delete_consumer_groups", interrupted)
    main(to_apply)
    assert sorted(site.admin.deleted) == ["a", "b"]
    run = only_run(site.storage)
    assert run.ended, "howto/command-line.md: Ctrl-C: the groups that are left are kept, and the record is completed"
    assert {name: item.outcome.value for name, item in run.outcomes.items()} == {"a": "deleted", "b": "deleted"}


def test_a_warning_that_nobody_reads_does_not_end_a_deletion(
    site: Site, backed_up: Planned, to_apply: list[str]
) -> None:
    """``apply --yes 2>&1 | head``: the run is complete in the journal, and the exit code is that of the run."""
    from airflow_kafka_groups.exceptions import KafkaGroupsError

    async def fails(*args: Any, **options: Any) -> Any:
        site.patch.setattr(sys, "stderr", nobody_reads())
        raise KafkaGroupsError("the connection broke")

    site.patch.setattr(site.admin, "delete_consumer_groups", fails)
    main(to_apply)
    run = only_run(site.storage)
    assert run.ended


# A dry run of a plan that was applied: what it says, and what it leaves as it was.


def trend(storage: Path) -> list[tuple[str, bool | None]]:
    path = storage / CLUSTER / "reports" / "trend.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return [(run["plan_id"], run["dry_run"]) for run in runs]


def test_a_dry_run_of_an_applied_plan_changes_neither_its_report_nor_what_the_journal_says(
    site: Site, backed_up: Planned, stored: Cli
) -> None:
    words = ("apply", backed_up["plan_id"])
    stored(*words)
    stored(*words, "--digest", backed_up["digest"], "--yes")
    page = site.folder / "reports" / f"{backed_up['plan_id']}.html"
    before, known = page.read_bytes(), trend(site.storage)
    code, found, said = stored(*words)
    assert (code, found["counts"]["gone"], str(page) in said) == (0, len(site.admin.deleted), True)
    assert (page.read_bytes(), trend(site.storage)) == (before, known)
    layout = site.layout
    history = read_history(layout, load_plan(layout, backed_up["plan_id"]).kafka_cluster_id)
    for reset in (history.idle_resets()["a"], history.idle_resets(backed_up["plan_id"])["a"]):
        assert reset.code == "deleted_before"
        assert reset.reason.startswith(f"run {runs(site.storage)[1].run_id} deleted it at ")
        assert reset.at == history.lives()["a"].at, "the later look still counts"


def test_a_report_that_lacks_a_run_is_written_by_a_dry_run_too(site: Site, backed_up: Planned, stored: Cli) -> None:
    """The process that deleted may have died before it wrote the report."""
    page = site.folder / "reports" / f"{backed_up['plan_id']}.html"
    not_run_yet = page.read_bytes()
    stored("apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes")
    page.write_bytes(not_run_yet)
    stored("apply", backed_up["plan_id"])
    assert b"has not been applied" not in page.read_bytes()
