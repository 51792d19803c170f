"""Planning and backing up from the command line."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.cli.commands import files, plan
from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.kafka.maintenance_client import OffsetsRetention
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.report import html as write
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

CLUSTER = scene.CLUSTER


@pytest.fixture
def judged(site: Site) -> str:
    """Return a snapshot in which a and b are stale."""
    return site.judged_once(["a", "b"], ["live"])


def test_a_plan_is_written_and_shown(judged: str, stored: Cli, tmp_path: Path) -> None:
    code, found, said = stored("plan", "--max-share", "1")
    assert (code, found["snapshot_id"], found["counts"]["planned"]) == (0, judged, 2)
    assert [tuple(group) for group in found["groups"]] == [plan.PLANNED] * 2
    saved = load_plan(Layout(tmp_path, CLUSTER), found["plan_id"])
    assert saved.digest == found["digest"]
    assert Path(found["report"]).is_file()
    assert found["plan_id"] in said


def test_a_plan_whose_report_cannot_be_written_is_shown_all_the_same(judged: str, stored: Cli, site: Site) -> None:
    """The plan is in the storage by then: without its id and digest, nobody can look at it, back it up or apply it."""
    site.patch.setattr(write, "write_report", full)
    code, found, said = stored("plan", "--max-share", "1")
    assert (code, found["counts"]["planned"], found["report"]) == (0, 2, None)
    assert load_plan(site.layout, found["plan_id"]).digest == found["digest"]
    assert "warning: the report could not be written: " in said


def full(*_: Any) -> Path:
    raise StorageError("reports/one.html could not be written: No space left on device")


def test_people_see_the_counts_that_matter_and_the_next_commands(
    judged: str, stored: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--conn-id", "kafka_groups_default", "--storage-path", str(tmp_path), "--cluster", CLUSTER)
    assert main(["plan", "--max-share", "1", "--min-idle", "1min", *where]) == 0
    shown, said = capsys.readouterr()
    assert "found 3, live 1, stale 2, planned 2" in " ".join(shown.split())
    assert "min_idle_seconds is 1min: groups whose consumers are briefly down look stale" in shown
    (plan_id,) = (line.split()[1] for line in shown.splitlines() if line.startswith("plan_id"))
    digest = load_plan(Layout(tmp_path, CLUSTER), plan_id).digest
    rest = f"{' '.join(where)}\n"
    assert f"airflow-kafka-groups backup --plan-id {plan_id} --digest {digest} {rest}" in said, "it can be pasted"
    assert f"airflow-kafka-groups apply {plan_id} {rest}" in said


def test_what_a_plan_keeps_is_shown_with_the_reason(judged: str, stored: Cli) -> None:
    _, found, _ = stored("plan", "--max-share", "1", "--exclude", "a", "--kept")
    assert [tuple(group) for group in found["kept"]] == [plan.KEPT] * 2
    assert {group["group_id"]: group["why"] for group in found["kept"]} == {"a": "excluded", "live": "live"}


def test_the_options_are_the_policy(judged: str, stored: Cli, tmp_path: Path) -> None:
    numbers = {"min_idle_seconds": 60.0, "min_observations": 3, "max_groups": 1, "max_share": 1.0}
    words = [word for name, value in numbers.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    _, found, _ = stored("plan", *words, "--include", "a", "--include", "b", "--allow-hidden-topics")
    policy = load_plan(Layout(tmp_path, CLUSTER), found["plan_id"]).policy
    assert {name: getattr(policy, name) for name in numbers} == numbers
    assert (policy.include, policy.allow_hidden_topics) == (("a", "b"), True)
    assert found["counts"]["over_cap"] == 1


RULE = "rules: [{{name: r, action: delete, idle: 1d{}}}]"
BAD_POLICIES = [
    # the file, what is said, and what to do about it
    (
        "owners: {a: {groups: 'a*'}}\nrules:\n- {name: r, action: delete, match: {owners: b}}",
        "policy.yaml, line 4: rules[0].match.owners (got 'b') owns no groups, so it can never match",
        "Give it groups",
    ),
    (
        "rules:\n- {name: r, action: keep}\n- {name: s, action: delete, match: {groups: a}}",
        "policy.yaml, line 4: rules[1] can never decide: rule 'r' before it matches every group that 's' matches",
        "Move it up, or remove it",
    ),
    (
        "defaults: {contact: x@y}\n" + RULE.format(", notice: 8d"),
        "policy.yaml, line 3: rule 'r': a notice of 8d is too long, since brokers forget the offsets of an empty group",
        "set notice to less than that",
    ),
    (
        "owners: {a: {groups: 'a*'}}\n" + RULE.format(", notice: 1d, match: {owners: a}"),
        "policy.yaml, line 3: rules[0] demands a notice, and the owner 'a' has no contact",
        "add one under owners, or a contact to defaults",
    ),
    (
        "limits: {refuse_share: 0.5}\n" + RULE.format(""),
        "2 of 3 groups would be planned, more than the policy's limits.refuse_share of 0.5 allows: nothing is planned",
        "then narrow its rules, or raise refuse_share",
    ),
]


@pytest.fixture
def of_managed_brokers(judged: str, tmp_path: Path) -> None:
    """Let the brokers' retention be unknown to the snapshot."""
    path = Path(str(Layout(tmp_path, CLUSTER).manifest(judged)))
    path.write_text(json.dumps({**json.loads(path.read_text()), "offsets_retention_minutes": None}))


@pytest.mark.safety
@pytest.mark.usefixtures("of_managed_brokers")
@pytest.mark.parametrize(("policy", "problem", "remedy"), BAD_POLICIES)
def test_a_policy_that_cannot_be_meant_plans_nothing_and_says_where(
    site: Site, stored: Cli, policy: str, problem: str, remedy: str
) -> None:
    path = site.storage / "policy.yaml"
    path.write_text(f"version: 1\n{policy}\n")
    code, found, said = stored("plan", "--policy-file", str(path), "--offsets-retention-minutes", "10080")
    of_the_cluster = "too long" in problem or "would be planned" in problem  # by what its snapshot has: no bad input
    assert (code, found) == (1 if of_the_cluster else 2, None)
    assert problem in said
    assert remedy in said
    assert not list(site.storage.rglob("plans/*"))
    assert set(site.admin.groups) == {"a", "b", "live"}


@pytest.mark.parametrize("form", ["file://{}", "{}"])
def test_a_policy_is_named_by_its_path_or_its_url_and_its_share_counts(
    judged: str, stored: Cli, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nlimits: {refuse_share: 0.7, max_share: 1}\n" + RULE.format(""))
    code, found, said = stored("plan", "--policy-file", form.format(path), "--max-share", "1")
    assert (code, found["counts"]["planned"]) == (0, 2), said
    assert load_plan(Layout(tmp_path, CLUSTER), found["plan_id"]).policy.refuse_share == 0.7


@pytest.mark.usefixtures("of_managed_brokers")
def test_an_idle_time_that_brokers_forget_before_is_a_warning_with_one_that_fits(stored: Cli) -> None:
    _, unknown, _ = stored("plan", "--max-share", "1")
    assert "the brokers' offsets.retention.minutes is not known" in unknown["warnings"][0]
    _, known, _ = stored("plan", "--max-share", "1", "--offsets-retention-minutes", "10080")
    (warning,) = known["warnings"]
    assert warning.startswith("min_idle_seconds waits for 7d (idle time)")
    assert "raise offsets.retention.minutes to 13440, or lower the idle time to 5d" in warning
    assert stored("plan", "--offsets-retention-minutes", "0")[0] != 0


def test_the_sites_floors_bind_it(judged: str, stored: Cli, site: Site) -> None:
    site.configure(max_groups="1")
    site.configure(storage_path=site.storage)
    _, found, _ = stored("plan", "--max-share", "1")
    assert found["counts"]["planned"] == 1
    assert "the site's max_groups of 1 counts instead of 500" in found["warnings"]


def test_without_verdicts_it_says_how_to_get_them(site: Site, stored: Cli) -> None:
    code, found, said = stored("plan")
    assert (code, found) == (1, None)
    assert "run the snapshot first" in said
    site.admin.groups = {"a": FakeGroup()}
    snapshot_id = site.take_snapshot()
    code, found, said = stored("plan")
    assert (code, found) == (1, None)
    assert f"--snapshot-id {snapshot_id} --min-idle 604800s --max-gap 172800s" in said
    assert "or: airflow-kafka-groups judge " in said


def test_the_command_that_judges_can_be_pasted(site: Site, cli: Cli) -> None:
    """Also for the idle time of the page's example, and a folder whose name has a space."""
    base = site.storage / "kafka groups"
    base.mkdir()
    site.admin.groups = {"a": FakeGroup()}
    snapshot_id = scene.take_snapshot(base)
    limits = ("--min-idle", "14d", "--max-gap", "0", "--min-observations", "3")
    _, _, said = cli("plan", *limits, "--storage-path", str(base), "--cluster", CLUSTER)
    _, command, *words = shlex.split(said[said.index("airflow-kafka-groups judge") :])
    assert cli(command, *words)[0] == 0
    summary = json.loads((base / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id}.json").read_text())
    assert summary["cluster"] == CLUSTER
    assert summary["policy"] == {"min_idle_seconds": 14 * 86_400, "min_observations": 3, "max_gap_seconds": 0}
    assert cli("plan", *limits, "--storage-path", str(base), "--cluster", CLUSTER)[0] == 0


@pytest.mark.safety
@pytest.mark.parametrize(
    ("limits", "words", "gap"),
    [
        (None, (), 172_800),
        (None, ("--max-gap", "0"), 0),
        (None, ("--max-gap", "3d"), 259_200),
        ("", (), 172_800),
        ("limits: {max_gap: 3d}\n", (), 259_200),
        ("limits: {max_gap: 3d}\n", ("--max-gap", "2d"), 172_800),
    ],
)
def test_a_gap_that_nobody_bridged_is_asked_for(
    judged: str, stored: Cli, tmp_path: Path, limits: str | None, words: tuple[str, ...], gap: float
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\n{limits}{RULE.format('')}")
    file = () if limits is None else ("--policy-file", str(path))
    _, found, _ = stored("plan", "--max-share", "1", *file, *words)
    assert load_plan(Layout(tmp_path, CLUSTER), found["plan_id"]).policy.max_gap_seconds == gap


def test_a_newer_snapshot_that_nobody_judged_is_in_nobodys_way(judged: str, stored: Cli, tmp_path: Path) -> None:
    # Ids of one second are sorted by chance.
    newer = next(taken for _ in range(100) if (taken := scene.take_snapshot(tmp_path)) > judged)
    code, found, said = stored("plan")
    assert (code, found["snapshot_id"]) == (0, judged)
    assert f"Snapshot {newer} is not judged: planning from {judged}, the newest that is." in said
    code, found, said = stored("plan", "--snapshot-id", newer)
    assert (code, found) == (1, None)
    assert f"snapshot {newer} is not judged" in said
    code, found, said = stored("plan", "--snapshot-id", "20260101T000000Z-1a2b3c4d")
    assert (code, found) == (1, None)
    assert "the snapshot's manifest is missing" in said


@pytest.mark.safety
@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((words, "") for words in ("--max-share 2", "--min-observations 1", "--max-groups 0", "--min-idle week")),
        ("--min-idle 30d --policy-file {}", ": is for plans without a policy file"),  # its rules have their own
        ("--min-observations 9 --policy-file {}", ": is for plans without a policy file"),
    ],
)
def test_a_limit_that_cannot_be_or_would_not_count_is_bad_usage(
    judged: str, stored: Cli, tmp_path: Path, words: str, said: str
) -> None:
    (tmp_path / "policy.yaml").write_text(f"version: 1\n{RULE.format('')}")
    typed = words.format(tmp_path / "policy.yaml").split()
    code, found, error = stored("plan", *typed)
    assert (code, found) == (2, None)
    assert f"{typed[0]}{said}" in error
    assert not (tmp_path / CLUSTER / "plans").exists()


def test_the_storage_is_that_of_the_dags(judged: str, cli: Cli, site: Site) -> None:
    code, _, said = cli("plan", "--cluster", CLUSTER)
    assert code == 2
    assert "--storage-path" in said
    site.defaults({"storage_path": str(site.storage)})
    assert cli("plan", "--cluster", CLUSTER)[0] == 0


def test_a_plans_groups_are_backed_up(planned: dict[str, Any], stored: Cli, tmp_path: Path) -> None:
    code, found, _ = stored("backup", "--plan-id", planned["plan_id"], "--digest", planned["digest"])
    assert (code, found["plan_id"]) == (0, planned["plan_id"])
    assert [tuple(group.values()) for group in found["groups"]] == [("a", "backed_up", ""), ("b", "backed_up", "")]
    assert [tuple(group) for group in found["groups"]] == [files.BACKUP_COLUMNS] * 2
    assert set(load_backup(Layout(tmp_path, CLUSTER), planned["plan_id"]).entries) == {"a", "b"}


def test_groups_are_backed_up_by_name_and_by_pattern(admin: FakeAdmin, stored: Cli) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}
    code, found, said = stored("backup", "a", "gone", "a")
    assert (code, {group["group_id"]: group["result"] for group in found["groups"]}) == (
        3,
        {"a": "backed_up", "gone": "left_out"},
    )
    assert "1 group(s) were not backed up" in said
    _, found, _ = stored("backup", "--include", "re:[ab]", "--exclude", "b")
    assert [group["group_id"] for group in found["groups"]] == ["a"]
    _, found, _ = stored("backup")
    assert len(found["groups"]) == 3


@pytest.mark.parametrize(
    "words", [("--plan-id", "x"), ("--digest", "x"), ("a", "--include", "b"), ("a", "--plan-id", "x", "--digest", "y")]
)
def test_a_backup_is_of_one_thing(site: Site, stored: Cli, words: tuple[str, ...]) -> None:
    code, found, _ = stored("backup", *words)
    assert (code, found) == (2, None)
    assert list(site.storage.iterdir()) == []
    with pytest.raises(SystemExit):  # a script's variables that are not set
        stored("backup", "--plan-id", "", "--digest", "")
    assert list(site.storage.iterdir()) == []


def test_brokers_that_forget_nothing(site: Site, stored: Cli) -> None:
    """As with an ``offsets.retention.minutes`` of 2^31-1, which is beyond what dates can say."""

    async def retention() -> OffsetsRetention:
        return OffsetsRetention(by_broker={1: 2**31 - 1}, errors={})

    site.patch.setattr(site.admin, "offsets_retention", retention)
    site.admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}
    code, found, said = stored("snapshot")
    assert code == 0, said
    site.judge(found["snapshot_id"], ["a", "b"])
    code, plan, said = stored("plan", "--max-share", "1")
    assert code == 0, said
    of_plan = ("--plan-id", plan["plan_id"], "--digest", plan["digest"])
    for words in ("metrics", "prune-topics", "explain a", "keep-alive live --observe 0 --yes"):
        code, found, said = stored(*words.split())
        assert found is not None, (words, said)
    assert stored("backup", *of_plan)[0] == 0
    code, found, said = stored("apply", plan["plan_id"], *of_plan[2:], "--yes")
    assert code == 0, said


def test_a_notice_that_nobody_sends_is_a_warning_and_explain_names_the_contact(
    judged: str, stored: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nowners: {pay: {groups: a, contact: pay@example.com}}\n" + RULE.format(", notice: 2d"))
    _, planned, _ = stored("plan", "--policy-file", str(path), "--max-share", "1")
    assert any("has a notifier" in warning for warning in planned["warnings"])
    (owner,) = [row["evidence"] for row in stored("explain", "a")[1]["checks"] if row["check"] == "owner"]
    assert owner == "pay, contact pay@example.com"
