"""The README, and what a release needs."""

import re
import tomllib

import pytest
import yaml

from airflow_kafka_groups import __version__
from tests.lanes.pythons import promised
from tests.pages import DOCS, ROOT

README = (ROOT / "README.md").read_text()
BENCHMARKS = (DOCS / "benchmarks.md").read_text()
TARGETS = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README)


def test_every_link_and_picture_exists() -> None:
    files = [target for target in TARGETS if "://" not in target]
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_it_begins_with_a_sentence_and_a_picture() -> None:
    assert README.index("![") < 600
    assert len(README.split()) < 700


def test_it_names_the_two_commands() -> None:
    (block,) = re.findall(r"```shell\n(make .*?)```", README, re.DOTALL)
    assert [line.split("#")[0].strip() for line in block.splitlines()] == ["make demo", "make test"]


def test_the_example_has_fifteen_lines_below_its_imports() -> None:
    code = re.findall(r"<!-- START readme_dag -->\n```python\n(.*?)```", README, re.DOTALL)[0]
    assert len(code.partition("\narguments")[2].splitlines()) <= 15


def test_the_figure_beside_kafka_consumer_groups_is_the_benchmark_s() -> None:
    header = "| groups | `ListGroupLagOperator` | `kafka-consumer-groups --describe --all-groups` |"
    row = BENCHMARKS.partition(header)[2].splitlines()[2]
    groups, ours, theirs = (cell.strip() for cell in row.strip("| ").split("|")[:3])
    text = " ".join(README.split())
    assert groups in text
    assert ours.split(",")[0] in text
    assert theirs in text


def test_links_from_files_beside_the_readme_exist() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text()
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
            assert "://" in target or "@" in target or (ROOT / target).is_file(), f"{name}: {target}"


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_changelog_begins_with_this_version() -> None:
    titles = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert titles[0] == __version__


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_template_for_issues_can_be_read(path: object) -> None:
    content = yaml.safe_load(open(str(path)).read())  # noqa: SIM115
    if "blank_issues_enabled" not in content:
        assert content["name"]
        assert content["description"]
        assert all({"type", "attributes"} <= part.keys() for part in content["body"])


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE", "airflow_kafka_groups/py.typed"])
def test_what_users_look_for_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_the_versions_of_python_are_those_that_can_be_installed() -> None:
    first, last = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()  # type: ignore[union-attr]
    assert promised() == tuple(f"3.{minor}" for minor in range(int(first), int(last)))
    assert "Framework :: Apache Airflow :: Provider" in PROJECT["classifiers"]
    assert "Typing :: Typed" in PROJECT["classifiers"]
