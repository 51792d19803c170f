"""What a release needs besides its code: a section in the changelog, templates, policies, and the mark of its types."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from airflow_kafka_groups import __version__
from tests.lanes.pythons import promised
from tests.pages import ROOT

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
