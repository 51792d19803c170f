"""A judgement is killed before each call of its storage: its snapshot is not judged, and the next judgement does it."""

import os
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.ledger.verdicts import load_verdicts, newest_judged
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.report.metrics import metrics_of_snapshot
from airflow_kafka_groups.spark.plain_jobs import run_plain_job
from airflow_kafka_groups.storage.disk import Disk
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen

CALLS = ("list", "sizes_below", "read", "is_file", "is_folder", "replace", "create", "remove", "remove_folder")
_KILLED, _DONE, _FAILED = 70, 0, 1


def take(base: Path, number: int) -> str:
    rows = [row for group in ("a", "b") for row in seen(number, group=group)]
    return write_snapshot(base, number, rows, groups=2)


def judge(base: Path) -> None:
    run_plain_job(["judge_staleness", "--base", str(base), "--cluster", CLUSTER, "--min-idle", "1h"], base)


def judge_until(base: Path, call: int) -> int:
    """Judge in a process of its own, which ends at once before a call, and return its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls, code = count(), _FAILED

    def ending(real: Any) -> Any:
        def called(*given: Any, **more: Any) -> Any:
            if next(calls) == call:
                os._exit(_KILLED)
            return real(*given, **more)

        return called

    try:
        for name in CALLS:
            setattr(Disk, name, ending(getattr(Disk, name)))
        judge(base)
        code = _DONE
    finally:
        os._exit(code)  # nothing of pytest's


def verdicts(base: Path, snapshot_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_verdicts(Layout(base, CLUSTER), snapshot_id).table.to_pylist()
    return rows


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("again", [False, True], ids=["first judgement", "second judgement of the snapshot"])
def test_a_judgement_that_was_killed_vouches_for_nothing_and_is_in_nobody_s_way(tmp_path: Path, again: bool) -> None:
    begun, whole = tmp_path / "begun", tmp_path / "whole"
    before = [take(begun, number) for number in range(3)][-1]
    judge(begun)
    newest = take(begun, 3)
    shutil.copytree(begun, whole)
    judge(whole)
    if again:
        begun = whole
    expected, seen_judged = verdicts(whole, newest), set()
    for call in count():
        base = tmp_path / str(call)
        shutil.copytree(begun, base)
        if (code := judge_until(base, call)) == _DONE:
            break
        assert code == _KILLED
        layout, judged = Layout(base, CLUSTER), newest
        try:
            assert verdicts(base, newest) == expected
        except SnapshotError as why:
            assert "is not judged" in str(why), call  # noqa: PT017  # most kills leave none
            judged = before
        seen_judged.add(judged)
        assert newest_judged(layout) == judged, call
        assert metrics_of_snapshot(layout, None, GroupFilter(), 5)[0] == judged, call
        judge(base)
        assert verdicts(base, newest) == expected
    assert call > 20
    assert seen_judged == ({before, newest} if again else {before})
