"""What is imported: by the package, its cheap parts, a command and whole jobs, each in a Python of its own."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.histories.lake import CLUSTER, file_of, write_data, write_manifest, write_snapshot
from tests.histories.shorthand import seen, snapshot_id
from tests.unit.change.scene import layout_in

CLIENTS = ("airflow", "pyspark", "confluent_kafka", "pyarrow", "pandas")
STEPS = {
    "import airflow_kafka_groups": ("airflow", "kio", "aiokafka", "asyncio"),
    "from airflow_kafka_groups.provider_info import get_provider_info; get_provider_info()": (
        *("airflow", "kio", "aiokafka", "pyarrow"),
    ),
    "from airflow_kafka_groups.cli.main import main; shown(main)": (
        *("airflow", "kio", "aiokafka", "pyarrow", "rich", "asyncio", "airflow_kafka_groups.kafka"),
        *("airflow_kafka_groups.cli.options", "socket", "dataclasses"),
    ),
    "import airflow_kafka_groups.kafka.membership": (*CLIENTS, "airflow_kafka_groups.kafka.admin"),
    "from airflow_kafka_groups.kafka import AdminClient": CLIENTS,
}
"""What is done one after the other in one Python, and what none of it may import."""

_STEP_BY_STEP = """
import contextlib, io, json, sys

def shown(main):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
        main(["--help"])
    assert "Exit codes" in said.getvalue() or "usage" in said.getvalue()

loaded = []
for step in json.loads(sys.argv[1]):
    exec(step)
    loaded.append(sorted(sys.modules))
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Return the modules that are loaded after each step."""
    job = [sys.executable, "-c", _STEP_BY_STEP, json.dumps(list(STEPS))]
    done = subprocess.run(job, capture_output=True, text=True, check=True)
    return {step: set(names) for step, names in zip(STEPS, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("step", STEPS)
def test_what_is_cheap_imports_little(step: str, loaded: dict[str, set[str]]) -> None:
    assert loaded[step].intersection(STEPS[step]) == set()
    assert "airflow_kafka_groups" in loaded[step]


def test_the_package_imports_nothing_else(loaded: dict[str, set[str]]) -> None:
    first = loaded["import airflow_kafka_groups"]
    assert {name for name in first if name.startswith(("airflow", "kio", "aio"))} == {"airflow_kafka_groups"}


def test_planning_and_reporting_import_no_client() -> None:
    """Tasks that talk to no broker start sooner without one."""
    program = (
        "import sys; import airflow_kafka_groups.change.plan.make_plan\n"
        "import airflow_kafka_groups.report.html\n"
        "print(sorted({'aiokafka', 'kio', 'airflow_kafka_groups.kafka.protocol'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


def test_a_snapshot_by_the_command_line_imports_no_airflow(tmp_path: Path) -> None:
    """The command gets as far as the brokers, of which there is none."""
    program = (
        "import sys; from airflow_kafka_groups.cli.main import main\n"
        f"code = main(['snapshot', '--bootstrap-servers', '127.0.0.1:1', '--storage-path', {str(tmp_path)!r}, "
        "'--cluster', 'c'])\n"
        "print(code, 'airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["1", "False"], done.stderr


def test_a_policy_is_checked_without_airflow_and_a_client(tmp_path: Path) -> None:
    (policy := tmp_path / "policy.yaml").write_text(
        "version: 1\nrules:\n  - {name: temp, action: delete, idle: 3d, match: {groups: ['a*']}}\n"
    )
    program = (
        "import sys; from airflow_kafka_groups.cli.main import main;"
        f"code = main(['policy', 'check', {str(policy)!r}]); assert not code;"
        "assert 'airflow' not in sys.modules and 'aiokafka' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


NO_PANDAS = """
import os, sys, traceback

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":  # not by raising: pyarrow takes an error for "it is not installed", and goes on
            traceback.print_stack()
            os._exit(99)

sys.meta_path.insert(0, NoPandas())
"""
_JOB = f"""{NO_PANDAS}
import asyncio
from pathlib import Path
from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.kafka import maintenance_client
from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.ledger.deletion_plan import find_in_plan, load_plan, save_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.change.backlog import write_backlog
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.report.html import make_report
from tests.fakes.groups import Ticking
from tests.component.test_imports import cluster
from tests.unit.change.scene import LATER, POLICY, delete_plan, layout_in

async def job(layout, snapshot_id):
    admin = cluster()
    await take_snapshot(admin, layout, now=Ticking(LATER))
    snapshot = SnapshotReader(layout, snapshot_id)
    save_plan(layout, plan := make_plan(load_verdicts(layout, snapshot_id), snapshot, POLICY, LATER))
    plan = load_plan(layout, plan.plan_id)
    assert find_in_plan(layout, plan.plan_id, "g1").group_id == "g1"
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    result = await delete_plan(admin, layout, plan)
    assert result.report.counts["deleted"] == 9, result.report.counts
    make_report(layout, plan)
    assert write_backlog(layout, snapshot_id, "g1", LATER).partitions == 3
    changes = await RestoreRequest(plan_id=plan.plan_id).propose(admin, layout)
    results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    assert {{item.outcome.value for item in results}} == {{"changed"}}, results
    return admin

layout = layout_in(Path(sys.argv[1]))
admin = asyncio.run(job(layout, sys.argv[2]))
maintenance_client.MaintenanceClient = lambda config, settings: admin
where = ["--bootstrap-servers", "b1:9092", "--storage-path", sys.argv[1], "--cluster", layout.cluster]
for group_id in ("g1", "another"):
    assert main(["explain", group_id, *where]) == 0
"""


def cluster(members: int = 0) -> FakeAdmin:
    admin = FakeAdmin(log=(0, 100))
    state = GroupState.STABLE if members else GroupState.EMPTY
    for number in range(9):
        admin.add(f"g{number}", ("t", 0, number), ("t", 1, 5), ("u", 0, 1), state=state, members=members)
    admin.add("live", ("t", 0, 5), state=GroupState.STABLE, members=1)
    return admin


async def test_a_clean_up_a_restore_and_an_explanation_import_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="nothing could import it")
    await take_snapshot(cluster(members=1), layout_in(tmp_path), now=Ticking(NOW - timedelta(hours=1)))
    summary = await take_snapshot(cluster(), layout_in(tmp_path), now=Ticking())
    from tests.dags.airflow_env import prepare_airflow

    prepare_airflow()
    from tests.unit.operators.scene import judge  # imports Airflow

    judge(tmp_path, summary.snapshot_id, stale={f"g{number}" for number in range(9)})
    job = [sys.executable, "-c", _JOB, str(tmp_path), summary.snapshot_id]
    done = await asyncio.to_thread(subprocess.run, job, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_judgement_without_spark_imports_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="nothing could import it")
    # Groups that are gone, from several files, and no group at all.
    names = [f"part-0000{part}.parquet" for part in range(2)]
    for name in names:
        write_data(tmp_path, snapshot_id(-2), seen(-2, group=f"gone from {name}"), part=name)
    write_manifest(tmp_path, snapshot_id(-2), 2, files=[file_of(tmp_path, snapshot_id(-2), 1, name) for name in names])
    write_manifest(tmp_path, snapshot_id(-1), 0, groups=0, files=[])
    for number in range(3):  # a group with contradictory rows, one without offsets, one that could not be read
        contradicts = [*seen(number, group="b"), *seen(number, group="b", offsets={("t", 1): 7}, state="Stable")]
        others = [*seen(number, group="c", offsets={}), *seen(number, group="d", error="time-out", coordinator=None)]
        write_snapshot(tmp_path, number, [*seen(number, group="a"), *contradicts, *others])
    program = f"{NO_PANDAS}\nimport runpy\nrunpy.run_module('tests.bench_spark.one_process', run_name='__main__')"
    job = ["judge_staleness", "--base", tmp_path.as_uri(), "--cluster", CLUSTER, "--min-idle", "1h", "--max-gap", "1d"]
    for _ in range(2):  # the second time from observations
        done = subprocess.run([sys.executable, "-c", program, *job], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


_READ = f"""{NO_PANDAS}
from airflow_kafka_groups.spark.source import reader
from airflow_kafka_groups.spark.source.options import SourceOptions
from tests.component.test_imports import cluster

reader.AdminClient = lambda config: cluster()
options = SourceOptions.parse({{"kafka.bootstrap.servers": "b1:9092"}})
chunks = reader.GroupsReader(options).partitions()
rows = [batch.num_rows for chunk in chunks for batch in reader.GroupsReader(options).read(chunk)]
assert sum(rows) == 28, rows
"""


def test_a_task_of_the_data_source_imports_no_pandas() -> None:
    for package in ("pandas", "pyspark"):
        pytest.importorskip(package, reason="nothing could import it")
    done = subprocess.run([sys.executable, "-c", _READ], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("named", "used"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_allocates_by_the_c_library_unless_the_environment_names_another_way(
    named: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "ARROW_DEFAULT_MEMORY_POOL"
    if named is None:
        monkeypatch.delenv(variable, raising=False)
    else:
        monkeypatch.setenv(variable, named)
    program = """
from airflow_kafka_groups.hooks.storage import open_layout
open_layout("/data", "c", "kafka")
import pyarrow
open_layout("/data", "c", "kafka")
print(pyarrow.default_memory_pool().backend_name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == used


def test_a_warning_of_a_job_without_spark_imports_no_pyspark() -> None:
    pytest.importorskip("pyspark", reason="nothing could import it")
    program = (
        "import sys\nfrom airflow_kafka_groups.spark.program import warn\nwarn('!')\nprint('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["False"], "!\n")


_WITHOUT = """
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "numpy", "pyspark", "hypothesis"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
count = 0
for room in ("hooks", "sensors", "triggers", "operators", "kafka", "cli", "plugins"):
    package = importlib.import_module(f"airflow_kafka_groups.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
        count += 1
print(count)
"""


def test_without_pyarrow_numpy_and_pyspark_every_dag_and_command_is_still_imported() -> None:
    """A worker whose image lacks one of them fails the task that needs it, and no other."""
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 100
