"""The messages to owners: bounded, escaped, and no clock shortens their period."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.guards.exclusions import kept_unnoticed
from airflow_kafka_groups.change.plan.notify import Notified, OwnerNotice, notify_owners
from airflow_kafka_groups.judge.policy.notice import Notice, why_not_noticed
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.notice_book import note
from airflow_kafka_groups.observe.patterns import GroupFilter, keeping_expressions
from tests.exhaustive.change.plan.notices import DAY, Story, waiting
from tests.fakes.groups import CLUSTER_ID, NOW


def context_of(groups: tuple[str, ...], owner: str | None = "team", report: str = "r") -> dict[str, Any]:
    notice = OwnerNotice(
        cluster="prod", plan_id="p", owner=owner, contact="c", groups=groups, notice_seconds=172_800.0, report=report
    )
    return notice.to_context()


def test_a_message_is_bounded_and_escaped() -> None:
    context = context_of(tuple(f"<b>{number}" for number in range(150)))
    assert (len(context["groups"]), context["count"], context["days"]) == (100, 150, "2")
    assert "150 consumer group(s) of cluster prod that belong to team are stale" in context["text"]
    assert "… and 50 more" in context["text"]
    assert "<b>" not in context["html"]
    assert "&lt;b&gt;7" in context["html"]


def test_a_groups_name_calls_nobody_in_slack() -> None:
    groups = ("<!channel>", "<@U1> & 'x'", "<https://evil.example|Report>")
    context = context_of(groups, owner="<!here>", report="https://airflow/?a=1&b=2")
    assert not {"<", ">"} & set(context["slack"])
    lines = context["slack"].splitlines()
    assert lines[2:4] == ["- &lt;!channel&gt;", "- &lt;\u200b@U1&gt; &amp; 'x'"], "Slack has no more references"
    assert lines[-1] == "Report: https://airflow/?a=1&amp;b=2"
    assert "- <\u200b@U1> & 'x'" in context["text"], "plain text has no references"


@pytest.mark.safety
def test_a_groups_name_writes_no_line_of_its_own_into_a_message() -> None:
    """Whoever may commit as a group could have its owner sent to a page of theirs, in a mail that the owner trusts."""
    groups = ("a\n\nReport: https://evil.example", "b\u2028Report: https://evil.example", "c\u202e", "d" * 32_767)
    context = context_of(groups)
    lines = context["text"].splitlines()
    assert [line for line in lines if line.startswith("Report:")] == ["Report: r"]
    assert "- a\\n\\nReport: https:\u200b//evil.example" in lines
    assert "\u202e" not in context["text"] + context["html"], "no name turns the text around it"
    assert len(context["text"]) + len(context["html"]) < 3_000
    assert context["groups"] == list(groups), "the names themselves are as they are"


@pytest.mark.safety
def test_a_groups_name_is_no_link_and_can_be_copied_into_a_keep_file() -> None:
    """Mail programs and Slack make links of plain text."""
    names = ("payments.x Report: https://evil.example/login", "www.evil.example", "a@evil.example")
    context = context_of(names, owner="https://evil.example", report="https://airflow/r")
    for kind in ("text", "html", "slack"):
        assert re.findall(r"https?://\S+?(?=[\s<]|$)|www[.]|\w@", context[kind]) == ["https://airflow/r"], kind
    copied = [line.removeprefix("- ") for line in context["text"].splitlines() if line.startswith("- ")]
    assert all(GroupFilter(protected=(line,)).protects(name) for line, name in zip(copied, names, strict=True))
    java = [keeping_expressions("", [line]) for line in copied]
    assert all(any(re.fullmatch(each, name) for each in some) for some, name in zip(java, names, strict=True))


@pytest.mark.parametrize(("owner", "shown"), [("a\nBcc: b", "a\\nBcc: b"), ("team", "team"), (None, None)])
def test_an_owner_writes_no_line_of_its_own_into_a_subject(owner: str | None, shown: str | None) -> None:
    """An owner may be a client's id; Python refuses a mail whose subject has a line end, so nobody was notified."""
    assert context_of(("a",), owner)["owner"] == shown


def test_a_group_whose_name_has_that_character_is_kept_by_its_name() -> None:
    name = "https:\u200b//x"
    assert GroupFilter(protected=(name,)).protects(name)
    assert any(re.fullmatch(each, name) for each in keeping_expressions("", [name]))


@pytest.mark.safety
def test_a_pattern_that_has_that_character_for_itself_keeps_what_it_kept() -> None:
    """Without it, the first two kept nothing of theirs any more, the third kept every group, and the last was none."""
    for pattern in ("re:.*[\u200b\u200c\ufeff].*", "*[\u200b\u200c]*", "re:.*\u200b.*", "re:[^a]*[\u200b].*"):
        kept = GroupFilter(protected=(pattern,))
        assert kept.why_not("orders\u200b") == f"protected by the pattern {pattern!r}"
        assert not kept.protects("orders"), pattern


@pytest.mark.safety
async def test_a_clock_that_is_behind_while_owners_are_notified_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW - 5 * DAY)
    assert waiting(await story.plan(NOW + timedelta(hours=1))) == ["pay1"]
    assert waiting(await story.plan(NOW + 2 * DAY)) == ["pay1"], "counted from the plan by which it was marked"
    assert (await story.plan(NOW + 2 * DAY + timedelta(minutes=1))).group_ids == ["pay1"]


@pytest.mark.safety
async def test_a_clock_that_goes_back_between_mark_and_message_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    times = iter([NOW + timedelta(minutes=5), NOW + timedelta(minutes=5), NOW - 5 * DAY])
    notify_owners(story.layout, await story.plan(NOW), story.sent.append, dry_run=False, now=lambda: next(times))
    assert len(story.sent) == 1
    assert waiting(await story.plan(NOW + timedelta(hours=1))) == ["pay1"]


@pytest.mark.safety
def test_a_message_from_before_its_mark_counts_from_the_mark() -> None:
    odd = Notice(fingerprint="f", marked_at=NOW, notified_at=NOW - 9 * DAY, told_seconds=4.0)
    assert why_not_noticed(odd, 2 * 86_400.0, fingerprint="f", at=NOW + DAY, alive_at=NOW - DAY) is not None


@pytest.mark.safety
async def test_a_clock_that_is_ahead_while_groups_are_marked_hides_no_sign_of_life(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW + 3 * DAY)
    plan = await story.plan(NOW + 6 * DAY, idle_since=NOW + DAY)
    assert waiting(plan) == ["pay1"], "it had members after the snapshot that showed it stale"


@pytest.mark.safety
async def test_a_deletion_whose_clock_is_ahead_shortens_no_notice(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    story.notify(await story.plan(NOW), NOW)
    plan = await story.plan(NOW + 5 * DAY)
    ledger = Ledger(story.layout, CLUSTER_ID)
    note(ledger, "p", {"pay1": replace(ledger.notices()["pay1"], notified_at=NOW + 4 * DAY)}, NOW)
    kept = kept_unnoticed(story.layout, plan, DeletionHistory(), {}, NOW + 99 * DAY)
    assert list(kept) == ["pay1"]


async def test_a_clock_that_is_behind_when_all_messages_fail_makes_no_old_plan_new(tmp_path: Path) -> None:
    story = Story(tmp_path, "pay1")
    old = await story.plan(NOW)
    assert story.notify(old, NOW - timedelta(minutes=10), fails=("pay",)).failed
    story.notify(await story.plan(NOW + DAY, verdict="live", reason="in use"), NOW + DAY + timedelta(minutes=5))
    assert story.notify(old, NOW + 60 * DAY) == Notified(marked=1)
    assert story.sent == []
