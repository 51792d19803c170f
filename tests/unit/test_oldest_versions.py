"""The oldest versions that the package promises are those that its tests run with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]


def test_the_oldest_airflow_is_tested_with_the_oldest_of_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints-airflow-3.2.txt").read_text(), re.MULTILINE))
    named = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    promised = {each.name: each.specifier for each in map(Requirement, named)}
    oldest = {
        name: specified.version
        for name, specifiers in promised.items()
        for specified in specifiers
        if specified.operator in (">=", "~=") and name in pinned
    }
    assert len(oldest) >= 9
    assert {name: Version(pinned[name]) for name in oldest} == {name: Version(oldest[name]) for name in oldest}
