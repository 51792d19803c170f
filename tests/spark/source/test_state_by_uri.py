"""The folder of a stream as a URI: of two tasks with one bucket, the first one's observations stay there, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.state import ChangeState
from tests.spark.source.test_source_stream import look

pytestmark = [pytest.mark.spark, pytest.mark.safety]


class Slow(fs.LocalFileSystem):  # type: ignore[misc]  # Arrow has no types
    """A file system on which another task saves right after one has looked whether there is a file."""

    other: Callable[[], None] | None = None

    def get_file_info(self, path: Any) -> Any:
        found, other = super().get_file_info(path), self.other
        self.other = None
        if other is not None:
            other()
        return found


def test_a_task_that_looked_before_another_one_saved_does_not_replace_what_that_one_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = ChangeState(tmp_path.as_uri()), ChangeState(tmp_path.as_uri())
    returned: list[Any] = []
    slow = Slow()
    slow.other = lambda: returned.append(others.save(0, 1, look(("g", 0, 12, None, ""))))
    monkeypatch.setattr(mine, "_place", lambda *parts: (slow, "/".join((str(tmp_path), *parts))))
    returned.append(mine.save(0, 1, look(("g", 0, 10, None, ""))))
    kept = others.load(0, 1)
    assert [each["committed_offset"].to_pylist() for each in returned] == [kept["committed_offset"].to_pylist()] * 2


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 0.99])
def test_a_file_that_a_killed_task_left_half_written_is_named_with_the_remedy(tmp_path: Path, share: float) -> None:
    """Without hard links, as on SMB, a file is written at its place."""
    state = ChangeState(str(tmp_path))
    saved = state.save(0, 1, look(("g", 0, 12, None, "")))
    (path,) = tmp_path.rglob("bucket-0.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ConfigurationError, match=r"state\.path .*bucket-0.parquet is not complete .*: delete the file"):
        state.load(0, 1)
    path.unlink()
    assert state.load(0, 1) is None
    assert state.save(0, 1, look(("g", 0, 12, None, ""))) == saved
