"""The lanes of this project, the longest first, and which tests each of them runs."""

import os
import sys
from pathlib import Path

from tests.lab.jars import KNOWN_VERSIONS
from tests.lanes import pythons
from tests.lanes.lane import Lane

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "lanes"
_PYTHON = ".venv/bin/python"
_OLDEST_PYTHON = "build/airflow-3.2/bin/python"

SHARES: dict[str, tuple[str, ...]] = {
    "spark": ("tests/spark",),
    # All of these need clusters of several versions.
    "brokers": (
        "tests/integration",
        "tests/dags/test_connection.py",
        "tests/dags/test_job_bench.py",
        "tests/dags/test_python_versions.py",
    ),
    "airflow": ("tests/dags",),
    "submit": (
        "tests/spark/clusters",
        "tests/spark/submitted/test_spark_submit.py",
        "tests/spark/source/test_source_submit.py",
    ),
    "browser": ("tests/ui",),
    "unit": ("tests/unit", "tests/exhaustive"),
    # Its clusters are its own, so it does not have to wait for the tests of the lane brokers.
    "campaign": ("tests/campaign",),
    # What starts programs or a server of its own, but no broker, no Airflow of several programs, no Spark.
    "component": ("tests/component",),
}
"""Each lane's files and folders. A more specific path wins: ``tests/spark`` is without ``tests/spark/clusters``."""

_OLD = "kafka28 or kafka39 or test_keep_alive.py or test_lab.py or test_lost_deletion.py"
_NO_SHARED_CLUSTER = " or ".join(
    f"test_{name}.py"
    for name in (
        *("judge_staleness", "observations_table", "in_tasks", "private_submit", "source_security", "security"),
        *("fleet", "roll_up", "preflight", "offsets_log", "late_commit", "replaced_driver"),
        "source_stream",  # although it needs one: Spark gives its processes ten seconds, too few beside so many lanes
    )
)
PARTS = {
    "spark": ("spark", f"not ({_NO_SHARED_CLUSTER})"),
    "spark-alone": ("spark", _NO_SHARED_CLUSTER),
    "brokers": ("brokers", f"not ({_OLD})"),
    "old-brokers": ("brokers", _OLD),
}
"""The lanes that run a part of a share, each with the expression for ``-k`` that chooses its tests.

The tests of ``brokers`` wait more than they work. Its two lanes start clusters of different versions, and files that
start clusters of their own are where they make both equally long.

Nearly no test of ``spark-alone`` needs a shared cluster, so that a second session is all that two lanes cost more."""

_OLDEST = (
    *(f"tests/unit/{part}" for part in ("hooks", "operators", "sensors", "triggers")),
    *("tests/exhaustive/operators", "tests/component/plugins"),
)

_OF_VERSIONS = (
    *(f"tests/unit/{part}" for part in ("storage", "kafka/protocol", "test_exceptions.py", "test_models.py")),
    *(f"tests/exhaustive/{part}" for part in ("kafka/models", "kafka/protocol")),
    *(f"tests/unit/cli/test_{part}.py" for part in ("command_line_page", "main", "output")),
    *("tests/unit/triggers", "tests/unit/operators/arguments/test_every_operator.py", "tests/dags/test_dag_files.py"),
    "tests/dags/test_python_versions.py",
)
"""What versions treat differently: parsers, docstrings, codecs, dataclasses, asyncio; every import; and two DAGs."""

_NEEDS_PYSPARK = "tests/unit/cli/commands/look/test_doctor.py"  # it takes 470 MB in each environment


def pytest_command(*arguments: str, python: str = _PYTHON) -> tuple[str, ...]:
    """Return the command that runs pytest, and names what it repeats, and the slowest tests. No cache is shared."""
    return (python, "-m", "pytest", "-raR", "--durations", "20", "-p", "no:cacheprovider", *arguments)


def share_arguments(name: str) -> tuple[str, ...]:
    """Return the paths of a lane as pytest takes them, less what a more specific lane runs."""
    mine = SHARES[name]
    others = [path for lane, paths in SHARES.items() if lane != name for path in paths]
    ignored = [path for path in others if any(path.startswith(f"{folder}/") for folder in mine)]
    return (*mine, *(f"--ignore={path}" for path in ignored))


def _tests(name: str, *, needs: tuple[str, ...], load: float = 0.75, nice: int = 5) -> Lane:
    # One process each: other lanes use the other processors.
    share, chosen = PARTS.get(name, (name, ""))
    expression = ("-k", chosen) if chosen else ()
    options = ("--processes", "1", "--hypothesis-profile", "thorough")
    command = pytest_command(*options, *expression, *share_arguments(share))
    return Lane(name=name, commands=(command,), needs=needs, load=load, nice=nice)


# Only where CI is set may a browser be installed; elsewhere its tests are skipped where there is none.
_BROWSER = (Lane(name="chromium", commands=((".ci/chromium",),), load=0.5),) if "CI" in os.environ else ()


def _python_lane(version: str, *paths: str, suffix: str = "") -> Lane:
    """Return the lane that runs tests on another version of Python."""
    command = pytest_command("--processes", "1", *paths, python=f"build/python-{version}/bin/python")
    needs = (f"python-{version}-setup", "classes")
    return Lane(name=f"python-{version}{suffix}", commands=(command,), needs=needs, nice=5)


def _python_setup(version: str) -> Lane:
    command = ("make", f"build/python-{version}/.installed")
    return Lane(name=f"python-{version}-setup", commands=(command,), needs=("setup",), load=0.5)


_VERSIONS = tuple(version for version in pythons.others() if pythons.find(version) is not None)
MISSING_VERSIONS = tuple(version for version in pythons.others() if version not in _VERSIONS)
"""Versions of Python that are promised and not tried here: the summary names them."""

ON_REQUEST = tuple(
    _python_lane(version, "tests/unit", "tests/exhaustive", f"--ignore={_NEEDS_PYSPARK}", suffix="-all")
    for version in _VERSIONS
)
"""Lanes that run only if they are named: all unit tests on another version of Python."""

LANES = (
    Lane(name="setup", commands=(("make", "setup"),)),
    Lane(
        name="jars",
        commands=((sys.executable, "-m", "tests.lab.jars"), (sys.executable, "-m", "tests.lab.spark.jars")),
        load=0.5,
    ),
    Lane(
        name="classes", commands=((_PYTHON, "-m", "tests.lab.class_archive", *KNOWN_VERSIONS),), needs=("setup", "jars")
    ),
    Lane(name="spark-classes", commands=((_PYTHON, "-m", "tests.lab.spark.archive"),), needs=("setup",)),
    *_BROWSER,
    _tests("spark", needs=("classes", "spark-classes")),
    # They wait more than they work, and some of their tests watch session time-outs: all others give way to them.
    _tests("brokers", needs=("classes",), load=0.35, nice=0),
    _tests("old-brokers", needs=("classes",), load=0.35, nice=0),
    _tests("airflow", needs=("classes", "spark-classes")),
    # Half of the time it waits for tasks. Counted as more, it kept the last long lane from beginning.
    _tests("browser", needs=("classes", "spark-classes", *(lane.name for lane in _BROWSER)), load=0.4),
    _tests("submit", needs=("classes", "spark-classes")),
    # After those that wait for Airflow, a browser or executors: it keeps a processor busy until the end.
    _tests("spark-alone", needs=("classes", "spark-classes")),
    # Before the short ones, or a processor is idle in the end.
    _tests("unit", needs=("setup",)),
    _tests("campaign", needs=("classes",)),
    _tests("component", needs=("setup",)),
    Lane(name="lint", commands=(("make", "lint"),), needs=("setup",), nice=5),
    Lane(name="docs", commands=(("make", "docs"),), needs=("setup",), nice=5),
    Lane(name="oldest-setup", commands=(("make", "build/airflow-3.2/.installed"),), needs=("setup",), load=0.5),
    Lane(
        name="oldest",
        commands=(pytest_command(*_OLDEST, "tests/dags/test_dag_files.py", python=_OLDEST_PYTHON),),
        needs=("oldest-setup",),
        nice=5,
    ),
    *(_python_setup(version) for version in _VERSIONS),
    *(_python_lane(version, *_OF_VERSIONS) for version in _VERSIONS),
)
