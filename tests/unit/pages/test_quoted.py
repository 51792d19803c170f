"""What pages quote of the package, and where their links to a table lead."""

import re
from pathlib import Path

import pytest

from airflow_kafka_groups.cli.options import MAX_GAP_SECONDS
from airflow_kafka_groups.doctor.finding import counted
from airflow_kafka_groups.durations import show_duration
from tests.pages import DOCS, PAGES, name_of

_TO_A_TABLE = re.compile(r"\[(?:the table[^]]*|all ACLs)\]\(([^)#]*)#([^)]+)\)", re.IGNORECASE)
LINKS = [(page, *found) for page in PAGES for found in _TO_A_TABLE.findall(page.read_text())]


def section(page: Path, anchor: str) -> str:
    """Return what follows a heading, up to the next one."""
    for part in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") == anchor:
            return text
    raise LookupError(f"{name_of(page)} has no heading {anchor!r}")


@pytest.mark.parametrize(("page", "file", "anchor"), LINKS, ids=[f"{name_of(page)}-{to}" for page, _, to in LINKS])
def test_a_link_to_a_table_leads_to_one(page: Path, file: str, anchor: str) -> None:
    assert "\n|---" in section((page.parent / file).resolve() if file else page, anchor)


def test_the_message_of_the_test_button_counts_as_the_button_does() -> None:
    shown = " ".join((DOCS / "howto" / "connection.md").read_text().split())
    number, *_ = re.findall(r"Kafka 4.1. ([\d,]+) groups listed", shown)
    assert f"{number} groups" == counted(int(number.replace(",", "")), "group")


def test_the_verdicts_of_an_example_are_planned_from() -> None:
    """A plan refuses the verdicts of a job that bridged longer gaps than its own limit, which is 2d by default."""
    blocks = [block for page in PAGES for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL)]
    examples = [block for block in blocks if re.search(r"judge_staleness (?:\\\s+)?--base", block)]
    assert len(examples) >= 2
    assert [block for block in examples if f"--max-gap {show_duration(MAX_GAP_SECONDS)}" not in block] == []


def test_the_memory_that_a_task_takes_is_the_benchmark_s() -> None:
    row = re.search(r"^\| largest Airflow task \|(.*)", (DOCS / "benchmarks.md").read_text(), re.MULTILINE)
    assert row
    small, large, *_ = (cell.strip() for cell in row[1].split("|"))
    answer = " ".join((DOCS / "help" / "faq.md").read_text().split())
    assert f"{small} at 12,000 groups and {large} at 60,000" in answer


@pytest.mark.parametrize("page", [page for page in PAGES if "airflow dags trigger" in page.read_text()], ids=name_of)
def test_a_dag_is_enabled_before_it_is_triggered(page: Path) -> None:
    """Airflow pauses each new DAG, and a run of a paused one stays queued: at night, nobody knows why."""
    shown = "".join(re.findall(r"```shell\n(.*?)```", page.read_text(), re.DOTALL)).splitlines()
    lines = [line for line in shown if re.match(r"airflow dags (unpause|trigger) ", line)]
    enabled = set[str]()
    for line in lines:
        _, _, what, dag, *_ = line.split()
        enabled |= {dag} if what == "unpause" else set()
        assert dag in enabled
