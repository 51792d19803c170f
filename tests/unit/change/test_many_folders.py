"""The folders of many clusters in one storage: how many are listed at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from airflow_kafka_groups.observe.snapshot.cluster_folders import folders_with_snapshots, other_folders
from airflow_kafka_groups.observe.snapshot.later_snapshots import later_snapshots
from airflow_kafka_groups.storage.file_storage import READERS
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID
from tests.unit.change.scene import layout_in, snapshot


@pytest.mark.parametrize(
    "look",
    [
        lambda layout, _: other_folders(layout),
        lambda layout, _: folders_with_snapshots(layout, CLUSTER_ID),
        lambda layout, snapshot_id: later_snapshots(layout, snapshot_id, CLUSTER_ID),
    ],
    ids=["what is in them", "their snapshots", "later snapshots"],
)
async def test_several_folders_are_listed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Layout, str], Any]
) -> None:
    """A deletion lists five folders of each other cluster under its lease: they meet here, or the wait is broken."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    judged = (await snapshot(admin, layout)).manifest.snapshot_id
    admin.cluster = "another"
    for number in range(READERS):
        await snapshot(admin, Layout(tmp_path, f"other{number}"))
    places = ("root", "manifests", "summaries", "verdicts")
    meetings, real = {name: Barrier(READERS) for name in places}, os.scandir

    def met(folder: Any) -> Any:
        place = Path(folder).relative_to(tmp_path).parts
        if place and place[0].startswith("other"):
            meetings["root" if len(place) == 1 else place[1]].wait(timeout=5)
        return real(folder)

    monkeypatch.setattr(os, "scandir", met)
    list(look(layout, judged))
