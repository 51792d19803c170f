"""The core's example in the docs runs, on a real broker."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import KafkaCluster

ROOT = Path(__file__).parents[2]


async def test_the_core_example_runs(kafka41: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    page = "docs/core.md"
    text = (ROOT / page).read_text()
    found = re.search(r"<!-- START core_example -->\s*```python\n(.*?)```", text, re.DOTALL)
    assert found, f"{page} has lost its example"
    names: dict[str, Any] = {}
    exec(compile(found[1], page, "exec"), names)
    name = re.search(r"async def (\w+)", found[1])
    assert name
    example = names[name[1]]
    await example(kafka41.bootstrap)
    assert re.search(r"\d+ groups read, 0 failed", capsys.readouterr().out)
