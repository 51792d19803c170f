"""One pass of the whole job: every step of the shipped DAG, then a restore, then the core's own calls."""

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.job.groups import OFFSETS, group_ids
from tests.bench.job.steps import Steps, Taken
from tests.lab.errors import LabError
from tests.lab.workload.groups import list_groups, seed_groups

CLUSTER = "c"  # also in tests.histories.lake: the Spark job is run as its benchmark runs it
MIN_IDLE_SECONDS = 1
JUDGES = ("spark", "reference")
_OPERATORS = "airflow_kafka_groups.operators"


def run_job(steps: Steps, groups: int, *, judge: str) -> dict[str, Taken]:
    """Create groups, remove all of them by the job, restore them, and remove them by the core.

    :param steps: runs the steps.
    :param groups: how many.
    :param judge: ``spark``: the job as users run it; ``reference``: a verdict for each group, written here.

    Raises LabError when a step did not do what it had to do.
    """
    steps.taken.clear()
    storage = steps.folder / f"storage-{groups}"
    shutil.rmtree(storage, ignore_errors=True)
    storage.mkdir(parents=True)
    began = time.monotonic()
    seed_groups(steps.bootstrap, group_ids(groups), OFFSETS)
    os.sync()  # what the brokers wrote for this, the system would write to the disk during the first step
    steps.say(f"    {groups:,} groups created in {time.monotonic() - began:.1f} s")
    try:
        plan_id = _clean_up(steps, storage, groups, judge)
        for call in ("core_commit", "core_list", "core_delete"):
            steps.core(call, groups)
        scope = {"storage_path": str(storage), "cluster": CLUSTER}
        restored = steps.task(
            "restore", f"{_OPERATORS}.offset_changes:RestoreGroupOffsetsOperator", **scope, plan_id=plan_id
        )
        _expect("restore", restored, {"partitions": groups * len(OFFSETS)})
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    taken = dict(steps.taken)
    steps.core("core_list", groups)  # checks what was restored
    steps.core("core_delete", groups)
    return taken


def _clean_up(steps: Steps, storage: Path, groups: int, judge: str) -> str:
    """Run the steps of ``snapshot_group_offsets`` and of ``cleanup_stale_groups``; return the plan's id."""
    scope: dict[str, Any] = {"storage_path": str(storage), "cluster": CLUSTER}
    listing = f"{_OPERATORS}.offsets:ListGroupOffsetsOperator"
    steps.task("snapshot", listing, **scope)
    steps.task("find", f"{_OPERATORS}.groups:FindCoordinatorsOperator")
    time.sleep(MIN_IDLE_SECONDS)
    snapshot_id = steps.task("list", listing, **scope)["snapshot_id"]
    _judge(steps, storage, groups, snapshot_id, judge)
    policy = {"min_idle_seconds": MIN_IDLE_SECONDS, "max_groups": groups, "max_share": 1.0}
    planned = steps.task("plan", f"{_OPERATORS}.plan:PlanCleanupOperator", **scope, **policy)
    _expect("plan", planned["counts"], {"planned": groups})
    steps.page(storage, CLUSTER)
    plan = {**scope, "plan_id": planned["plan_id"], "plan_digest": planned["digest"]}
    _expect(
        "backup", steps.task("backup", f"{_OPERATORS}.backup:BackupGroupOffsetsOperator", **plan), {"groups": groups}
    )
    steps.task("approve", f"{_OPERATORS}.approval:ApproveCleanupOperator", **plan, approval_rule="never")
    deleted = steps.task("delete", f"{_OPERATORS}.deletion:DeleteGroupsOperator", **plan)
    _expect("delete", deleted["counts"], {"deleted": groups})
    steps.task(
        "verify",
        "airflow_kafka_groups.sensors.groups:DeleteGroupsSensor",
        audit_path=deleted["audit_path"],
        poke_interval=1,
    )
    report = steps.task("report", f"{_OPERATORS}.report:CleanupReportOperator", **scope, plan_id=planned["plan_id"])
    _expect("report", report, {"verified_gone": groups})
    if left := list_groups(steps.bootstrap).keys() & set(group_ids(groups)):
        raise LabError(f"{len(left)} groups are still there after the job")
    return str(planned["plan_id"])


def _judge(steps: Steps, storage: Path, groups: int, snapshot_id: str, judge: str) -> None:
    began = time.perf_counter()
    if judge == "spark":
        from tests.bench_spark.staleness import run_job as judge_by_spark

        arguments = ["--snapshot-id", snapshot_id, "--min-observations", "2"]
        done = judge_by_spark(storage, MIN_IDLE_SECONDS, 2, arguments)
        _expect("judge", done.summary["verdicts"], {"stale": groups})
        steps.note("judge", Taken(done.wall, None, done.peak_mb))
    else:
        from tests.unit.operators import scene

        scene.judge(storage, snapshot_id, stale=set(group_ids(groups)), cluster=CLUSTER)
        steps.say(f"    verdicts written in {time.perf_counter() - began:.1f} s, in place of the Spark job")


def _expect(step: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            raise LabError(f"{step}: {name} must be {value}, and is {found.get(name)} in {found}")
