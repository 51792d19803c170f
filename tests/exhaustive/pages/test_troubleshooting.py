"""docs/help/troubleshooting.md: what the messages do not say by themselves, and every message exists."""

import ast
import re
from functools import cache

import pytest

from airflow_kafka_groups.exceptions import IncompleteListingError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.groups import broker_error
from tests.pages import DOCS, ROOT
from tests.sources import parsed

PACKAGE = ROOT / "airflow_kafka_groups"
PAGE = (DOCS / "help" / "troubleshooting.md").read_text()
FOREIGN = "Messages of Airflow, Spark and Java"
"""The section whose messages are not the package's."""

ROWS = [
    (message, said)
    for section in PAGE.split("\n## ")[1:]
    if not section.startswith(FOREIGN)
    for message, said in re.findall(r"^- (`.+?`): (.+)$", section, re.MULTILINE)
]


@cache
def strings() -> str:
    """Return all strings of the package but docstrings; those of f-strings have a NUL for what differs."""
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        docstrings = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Expr):
                docstrings.add(node.value)
            elif node in docstrings:
                continue
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "\0" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def exists(message: str) -> bool:
    """Whether one string of the package has all parts of a message in their order."""
    pattern = r"[^\n]*".join(re.escape(part.strip()) for part in message.split("…"))
    return re.search(pattern, strings()) is not None


def messages() -> list[str]:
    return [message for row in ROWS for message in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_adds_something_to_its_message(row: tuple[str, ...]) -> None:
    message, said = row
    assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", message)
    assert len(said) > 10


def test_each_line_of_a_list_is_a_row() -> None:
    package = PAGE.partition(f"## {FOREIGN}")[2].partition("\n## ")[2]
    assert len(ROWS) == package.count("\n- ") > 30


@pytest.mark.parametrize("message", messages())
def test_every_message_is_one_of_the_package_or_of_kafka_s_codes(message: str) -> None:
    assert message.lower() in ErrorCode.__members__ or exists(message)


def test_a_message_that_nothing_says_is_noticed() -> None:
    assert not exists("this is said … nowhere")
    assert exists("there is no such connection. Create it in the UI")


def refusals() -> list[str]:
    """Return what a restore says by docs/howto/deletion-went-wrong.md, without the kind of its refusal."""
    page = (DOCS / "howto" / "deletion-went-wrong.md").read_text()
    table = page.partition("### What it refuses\n")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ")[0].strip() for line in table.splitlines()]
    return [re.sub(r"^(kept|skipped): ", "", cell) for cell in cells]


@pytest.mark.parametrize("message", refusals())
def test_what_a_restore_says_is_what_the_page_of_an_undo_quotes(message: str) -> None:
    """Who needs a group back at night searches this page for the words on the screen."""
    assert exists(message)


@pytest.mark.parametrize("name", ["LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"])
def test_each_reason_of_a_listing_that_is_not_complete_has_a_row(name: str) -> None:
    whole = str(IncompleteListingError({TopicPartition("__consumer_offsets", 7): broker_error(name)}))
    assert [message for message in messages() if message.startswith("partition(s) ") and message in whole]


def test_the_right_that_a_broker_refuses_on_the_cluster_is_the_one_to_add() -> None:
    """``test_who_may_not_describe_configs_gets_no_number`` is where a broker says so; no other request here does."""
    (row,) = (row for row in ROWS if row[0] == "`CLUSTER_AUTHORIZATION_FAILED`")
    assert "DescribeConfigs" in row[1]


@pytest.mark.parametrize("name", ["UNKNOWN_MEMBER_ID", "GROUP_SUBSCRIBED_TO_TOPIC"])
def test_what_a_broker_answers_to_a_change_of_a_group_in_use_has_a_row(name: str) -> None:
    assert name in messages()
