"""docs/formats.md and the contracts say the same: columns, verdicts, folders, format versions."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import airflow_kafka_groups
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.storage import formats, paths
from airflow_kafka_groups.storage import schemas as columns

PAGE = (Path(airflow_kafka_groups.__file__).parents[1] / "docs" / "formats.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def documented(title: str, known: Mapping[str, columns.Column]) -> list[columns.Column]:
    """Read a list of the page: several columns may share a line, with one type or one type each."""
    found = []
    for names, of_all in re.findall(
        r"^- ((?:`\w+`(?: \(null\))?(?:, )?)+) \(([^()]+)\)(?:: .*)?$", section(title), re.MULTILINE
    ):
        named = re.findall(r"`(\w+)`( \(null\))?", names)
        kind, nullable = re.subn(r", null$", "", of_all.replace("[us, UTC]", ""))
        if kind == "as above":
            found += [known[name] for name, _ in named]
            continue
        kinds = kind.split(", ")
        kinds = kinds * len(named) if len(kinds) == 1 else kinds
        found += [
            columns.Column(name, kind, bool(nullable or null)) for (name, null), kind in zip(named, kinds, strict=True)
        ]
    return found


@pytest.mark.parametrize(
    ("title", "stored"),
    [
        ("Snapshot rows", columns.SNAPSHOT_COLUMNS),
        ("Members", columns.MEMBER_COLUMNS),
        ("Subscriptions", columns.SUBSCRIPTION_COLUMNS),
        ("Verdict rows", columns.VERDICT_COLUMNS),
        ("Lag rows", columns.LAG_COLUMNS),
        ("Commit rows", columns.COMMIT_COLUMNS),
        ("Groups in the log of commits", columns.COMMIT_GROUP_COLUMNS),
        ("Archive rows", columns.ARCHIVE_COLUMNS),
        ("Plan", columns.PLAN_COLUMNS),
        ("Backup", columns.BACKUP_COLUMNS),
    ],
)
def test_the_tables_of_columns_are_those_of_the_contract(title: str, stored: columns.Columns) -> None:
    page = documented(title, {column.name: column for column in columns.SNAPSHOT_COLUMNS})
    assert page == list(stored)


def test_the_verdicts_are_in_the_order_in_which_they_are_decided() -> None:
    cells = [row[0].strip("`") for row in rows(section("Verdict rows"))]
    assert cells[-len(VerdictName) :] == list(VerdictName)


@pytest.mark.parametrize("name", KeptName)
def test_why_a_plan_keeps_a_group_is_on_the_page(name: KeptName) -> None:
    assert f"`{name}`" in section("Plan")


def test_every_folder_is_on_the_page() -> None:
    inside = ("CLUSTER_NAME_RULE", "ID", "ID_EXAMPLE", "SNAPSHOT_FILE", "TREND", "TREND_PAGE")
    folders = {
        value
        for name, value in vars(paths).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str) and name not in inside
    }
    assert f"reports/{paths.TREND}, {paths.TREND_PAGE} " in PAGE
    listed = set(re.findall(r"^  (\w+)[/ ]", PAGE, flags=re.MULTILINE))
    assert folders <= listed


def test_every_file_shown_has_the_format_of_the_contract() -> None:
    assert set(re.findall(r'"format": (\d+)', PAGE)) == {str(formats.FORMAT)}
