"""docs/formats.md names the files that a change of offsets leaves."""

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.pages import DOCS
from tests.unit.operators import scene

CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "reset": (ResetGroupOffsetsOperator, {"group_ids": ["a"], "to": "latest"}),
    "altered": (AlterGroupOffsetsOperator, {"offsets": {"a": {"t": {0: 7}}}}),
    "deleted": (DeleteGroupOffsetsOperator, {"group_ids": ["a"], "topics": ["t"]}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_files_of_a_change_are_those_of_the_page(admin: FakeAdmin, tmp_path: Path, change: str) -> None:
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 5})}
    kind, arguments = CHANGES[change]
    kind(task_id="t", storage_path=str(tmp_path), cluster=scene.CLUSTER, **arguments).execute({})
    files = re.findall(r"^  changes/<run>-(\w+)\.json +(.*)", (DOCS / "formats.md").read_text(), re.MULTILINE)
    named = sorted(f"{name}.json" for name, of_changes in files if change in of_changes)
    written = (tmp_path / scene.CLUSTER / "changes").iterdir()
    assert named == sorted(path.name.rpartition("-")[2] for path in written)
