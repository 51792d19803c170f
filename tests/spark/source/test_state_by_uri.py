"""The folder of a stream as a URI: of two tasks with one bucket, the first one's observations stay there, too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.state import ChangeState
from tests.spark.source.test_source_stream import look

pytestmark = [pytest.mark.spark, pytest.mark.safety]

FIRST = {"batch": 1}


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
    slow.other = lambda: returned.append(others.save(0, FIRST, look(("g", 0, 12, None, ""))))
    monkeypatch.setattr(mine, "_place", lambda *parts: (slow, "/".join((str(tmp_path), *parts))))
    returned.append(mine.save(0, FIRST, look(("g", 0, 10, None, ""))))
    kept = others.load(0, FIRST)
    assert [each["committed_offset"].to_pylist() for each in returned] == [kept["committed_offset"].to_pylist()] * 2


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 0.99])
def test_a_file_that_a_killed_task_left_half_written_is_named_with_the_remedy(tmp_path: Path, share: float) -> None:
    """Without hard links, as on SMB, a file is written at its place."""
    state = ChangeState(str(tmp_path))
    saved = state.save(0, FIRST, look(("g", 0, 12, None, "")))
    (path,) = tmp_path.rglob("bucket-0.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ConfigurationError, match=r"state\.path .*bucket-0.parquet is not complete .*: delete the file"):
        state.load(0, FIRST)
    path.unlink()
    assert state.load(0, FIRST) is None
    assert state.save(0, FIRST, look(("g", 0, 12, None, ""))) == saved


@pytest.mark.parametrize("folder", ["s3a://bucket/state", "dbfs:/state"])
def test_a_uri_that_only_spark_knows_is_named_with_the_remedy(folder: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"state\.path \(got '{folder}'\): .*give s3:// for S3, gs://"):
        ChangeState(folder).mark()


def test_a_local_folder_is_given_as_hadoop_writes_it(tmp_path: Path) -> None:
    token = ChangeState(f"file:{tmp_path}").mark()
    ChangeState(str(tmp_path)).require_shared(token)


class Interrupted(fs._MockFileSystem):  # type: ignore[misc]  # one that is no local disk, in memory
    """A file system on which something happens before and after a call, by the number of the call."""

    at: float | None = None
    calls = 0
    then: Callable[[], None]

    def reached(self, step: float) -> None:
        if self.at == self.calls + step:
            self.at = None
            self.then()

    def get_file_info(self, path: Any) -> Any:
        self.reached(0)
        found = super().get_file_info(path)
        self.reached(0.5)
        self.calls += 1
        return found

    def move(self, source: str, target: str) -> None:
        self.reached(0)
        super().move(source, target)
        self.reached(0.5)
        self.calls += 1


@pytest.mark.parametrize("at", [number / 2 for number in range(10)])
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_on_an_object_store_no_task_replaces_what_another_one_returned(
    at: float, order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store has no move that fails if the target is there: whoever moved last had the last word."""
    names = (UUID(int=number) for number in order)
    monkeypatch.setattr("airflow_kafka_groups.spark.source.state.uuid.uuid4", lambda: next(names))
    monkeypatch.setattr("airflow_kafka_groups.spark.source.state._GIVES_WAY_S", 0.0, raising=False)
    system, returned = Interrupted(), list[Any]()
    mine, others = ChangeState("mock"), ChangeState("mock")
    for state in (mine, others):
        monkeypatch.setattr(state, "_place", lambda *parts: (system, "/".join(("stream", *parts))))
    system.at, system.then = at, lambda: returned.append(others.save(0, FIRST, look(("g", 0, 12, None, ""))))
    returned.append(mine.save(0, FIRST, look(("g", 0, 10, None, ""))))
    kept = mine.load(0, FIRST)
    assert {each["committed_offset"][0].as_py() for each in (*returned, kept)} in ({10}, {12})


def test_what_two_tasks_left_that_died_is_one_of_them_only_if_they_saw_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system, state = fs._MockFileSystem(), ChangeState("mock")
    monkeypatch.setattr(state, "_place", lambda *parts: (system, "/".join(("stream", *parts))))
    state.save(0, FIRST, look(("g", 0, 10, None, ""), ("h", 0, 1, None, "")))
    for same, rows in ((True, [("h", 0, 1, None, ""), ("g", 0, 10, None, "")]), (False, [("g", 0, 12, None, "")])):
        pq.write_table(look(*rows), f"stream/batch-1/bucket-0.{same}.parquet", filesystem=system)
        if same:
            assert state.load(0, FIRST).num_rows == 2
    with pytest.raises(ConfigurationError, match=r"state\.path .*two tasks saw .* differently"):
        state.load(0, FIRST)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_slower_task_that_is_killed_while_it_gives_way_leaves_what_the_first_one_saved(
    order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark kills a speculative task as soon as the other one has ended."""
    names = (UUID(int=number) for number in order)
    monkeypatch.setattr("airflow_kafka_groups.spark.source.state.uuid.uuid4", lambda: next(names))

    def kill(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr("airflow_kafka_groups.spark.source.state.time.sleep", kill)
    system, state = fs._MockFileSystem(), ChangeState("mock")
    monkeypatch.setattr(state, "_place", lambda *parts: (system, "/".join(("stream", *parts))))
    first = state.save(0, FIRST, look(("g", 0, 10, None, "")))
    with suppress(SystemExit):
        state.save(0, FIRST, look(("g", 0, 12, None, "")))
    assert state.load(0, FIRST) == first
