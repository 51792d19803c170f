"""What is asked for, and what the group has not read: on literal offsets."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_groups.arrow.errors import ArgumentError
from airflow_kafka_groups.arrow.offsets import Commit
from airflow_kafka_groups.backlog.request import parse_fetched
from tests.unit.backlog.scene import A0

GOOD = {
    "format": 1,
    "backlog_id": "b",
    "kafka_cluster_id": "k",
    "group_id": "g",
    "partitions": [
        {"topic": "a", "partition": 0, "committed_offset": 4, "leader_epoch": None, "metadata": "", "log_end": 7}
    ],
}


def test_fetched_offsets_are_read() -> None:
    fetched = parse_fetched(json.dumps(GOOD), "x.json")
    assert (fetched.group_id, fetched.committed, fetched.ends) == ("g", {A0: Commit(4)}, {A0: 7})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps(GOOD | {"format": 2}),
        json.dumps(GOOD | {"group_id": ""}),
        json.dumps(GOOD | {"partitions": GOOD["partitions"] * 2}),  # type: ignore[operator]
        json.dumps(GOOD | {"partitions": [{"topic": "a"}]}),
        json.dumps(GOOD).replace('"committed_offset": 4', '"committed_offset": -1001'),
        json.dumps(GOOD).replace('"log_end": 7', '"log_end": "7"'),
    ],
)
def test_a_damaged_file_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--backlog \(got 'x.json'\).*fetch them again"):
        parse_fetched(text, "x.json")
