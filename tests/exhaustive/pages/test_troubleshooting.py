"""docs/help/troubleshooting.md: every exception has an entry with cause and remedy, and every message exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from airflow_kafka_groups.exceptions import IncompleteListingError
from airflow_kafka_groups.kafka.models import TopicPartition
from tests.fakes.groups import broker_error
from tests.pages import DOCS, ROOT
from tests.sources import parsed

PACKAGE = ROOT / "airflow_kafka_groups"
PAGE = (DOCS / "help" / "troubleshooting.md").read_text()
HEADER = "| message | cause | remedy |\n|---|---|---|\n"
ENTRIES = {
    name: text.partition("\n## ")[0].partition(HEADER)[2].strip().splitlines()
    for name, text in re.findall(r"^### `(\w+)`\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
CODES = {"BrokerError"}
"""Their messages are Kafka's names of error codes."""


@cache
def exceptions() -> frozenset[str]:
    """Return the names of all public exceptions that the package defines."""
    sources = (path.read_text() for path in PACKAGE.rglob("*.py"))
    return frozenset(name for source in sources for name in re.findall(r"^ *class ([^\W_]\w*Error)\b", source, re.M))


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


def rows() -> list[tuple[str, str, str, str]]:
    found = []
    for name, lines in ENTRIES.items():
        for line in lines:
            message, cause, remedy = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append((name, message, cause, remedy))
    return found


@pytest.mark.parametrize("name", sorted(exceptions()))
def test_every_public_exception_has_an_entry(name: str) -> None:
    assert name in ENTRIES, "write an entry: what it says, why, and what to do"
    assert ENTRIES[name]


def test_every_entry_is_for_an_exception_that_exists() -> None:
    assert exceptions() == set(ENTRIES)


@pytest.mark.parametrize(("name", "message", "cause", "remedy"), rows())
def test_every_row_has_a_message_of_the_package_a_cause_and_a_remedy(
    name: str, message: str, cause: str, remedy: str
) -> None:
    assert len(cause) > 10
    assert remedy
    if message.startswith("`"):
        assert (name in CODES and re.fullmatch(r"`[A-Z_]+`", message)) or exists(message.strip("`"))
    else:
        assert re.fullmatch(r"\*\(.+\)\*", message), "a message in backticks, or what it is about in brackets"


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
    message = str(IncompleteListingError({TopicPartition("__consumer_offsets", 7): broker_error(name)}))
    assert [row for kind, row, _, _ in rows() if kind == "IncompleteListingError" and row.strip("`") in message]


def test_the_right_that_a_broker_refuses_on_the_cluster_is_the_one_to_add() -> None:
    """``test_who_may_not_describe_configs_gets_no_number`` is where a broker says so; no other request here does."""
    (row,) = (row for row in rows() if row[1] == "`CLUSTER_AUTHORIZATION_FAILED`")
    assert "DescribeConfigs" in row[2]


@pytest.mark.parametrize("name", ["UNKNOWN_MEMBER_ID", "GROUP_SUBSCRIBED_TO_TOPIC"])
def test_what_a_broker_answers_to_a_change_of_a_group_in_use_has_a_row(name: str) -> None:
    assert [row for row in rows() if row[1] == f"`{name}`"]
