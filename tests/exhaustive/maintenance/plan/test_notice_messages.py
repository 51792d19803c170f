"""What owners are sent: bounded, escaped, and with no line of anybody else."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.maintenance.plan.notify import OwnerNotice


def test_a_message_is_bounded_and_escaped() -> None:
    groups = tuple(f"<b>{number}" for number in range(150))
    notice = OwnerNotice(
        cluster="prod", plan_id="p", owner="team", contact="c", groups=groups, notice_seconds=172_800.0, report="r"
    )
    context = notice.to_context()
    assert (len(context["groups"]), context["count"], context["days"]) == (100, 150, "2")
    assert "150 consumer group(s) of cluster prod that belong to team are stale" in context["text"]
    assert "… and 50 more" in context["text"]
    assert "<b>" not in context["html"]
    assert "&lt;b&gt;7" in context["html"]


def test_a_groups_name_calls_nobody_in_slack() -> None:
    notice = OwnerNotice(
        cluster="prod",
        plan_id="p",
        owner="<!here>",
        contact="c",
        groups=("<!channel>", "<@U1> & 'x'", "<https://evil.example|Report>"),
        notice_seconds=172_800.0,
        report="https://airflow/?a=1&b=2",
    )
    context = notice.to_context()
    assert not {"<", ">"} & set(context["slack"])
    lines = context["slack"].splitlines()
    assert lines[2:4] == ["- &lt;!channel&gt;", "- &lt;@U1&gt; &amp; 'x'"], "Slack has no other character references"
    assert lines[-1] == "Report: https://airflow/?a=1&amp;b=2"
    assert "- <@U1> & 'x'" in context["text"], "plain text is as it is"


@pytest.mark.safety
def test_a_groups_name_writes_no_line_of_its_own_into_a_message() -> None:
    """Whoever may commit as a group could have its owner sent to a page of theirs, in a mail that the owner trusts."""
    groups = ("a\n\nReport: https://evil.example", "b\u2028Report: https://evil.example", "c\u202e", "d" * 32_767)
    notice = OwnerNotice(
        cluster="prod", plan_id="p", owner="team", contact="c", groups=groups, notice_seconds=172_800.0, report="r"
    )
    context = notice.to_context()
    lines = context["text"].splitlines()
    assert [line for line in lines if line.startswith("Report:")] == ["Report: r"]
    assert "- a\\n\\nReport: https://evil.example" in lines
    assert "\u202e" not in context["text"] + context["html"], "no name turns the text around it"
    assert len(context["text"]) + len(context["html"]) < 3_000
    assert context["groups"] == list(groups), "the names themselves are as they are"
