"""The scene of most of these tests."""

from pathlib import Path

import pytest

from tests.unit.spark.unread.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
