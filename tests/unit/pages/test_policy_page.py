"""docs/howto/policy.md: its CI jobs are YAML, and what they run can be parsed."""

import re
import shlex
from typing import Any

import yaml

from airflow_kafka_groups.cli.main import parse
from tests.pages import DOCS

PAGE = (DOCS / "howto" / "policy.md").read_text()


def test_the_jobs_run_commands_that_exist() -> None:
    github, gitlab = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(# \.git.*?)```", PAGE, re.DOTALL)]
    steps: list[Any] = github["jobs"]["policy"]["steps"]
    lines = [step.get("run", "") for step in steps] + gitlab["policy"]["script"]
    ours = [line for line in lines if line.startswith("airflow-kafka-groups ")]
    assert [parse(shlex.split(line)[1:]).action for line in ours] == ["check", "check"]
