"""A right that is taken away or given while a snapshot is taken: some offsets may be missing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.admin import FakeAdmin
from tests.unit.change.scene import layout_in, snapshot


@pytest.mark.safety
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True), (False, False)])
async def test_a_snapshot_sees_all_topics_only_if_it_does_to_its_end(tmp_path: Path, before: bool, after: bool) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5))
    admin.sees_topics = before

    def change(call: str) -> None:
        if call == "offsets":
            admin.sees_topics = after

    admin.before = change
    reader = await snapshot(admin, layout_in(tmp_path))
    assert reader.manifest.sees_all_topics is (before and after)
