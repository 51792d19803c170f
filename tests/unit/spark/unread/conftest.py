"""The scene of most of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spark.unread.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
