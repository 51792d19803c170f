"""The job as users and Airflow start it: by spark-submit, in a process of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.spark.__main__ import main
from airflow_kafka_groups.spark.application import INTERRUPTED, JOBS
from airflow_kafka_groups.spark.bundle import APPLICATION, write_bundle
from airflow_kafka_groups.spark.bundle import main as bundle
from airflow_kafka_groups.spark.jobs import judge_staleness
from airflow_kafka_groups.spark.program import PARTLY_FAILED
from airflow_kafka_groups.spark.unread.group import NotCommittedError, NotVerifiedError
from tests.histories.judged import verdict_folder
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen
from tests.lab.spark.archive import quick_options

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

PACKAGE_ROOT = APPLICATION.parents[2]
JUDGE = "judge_staleness"


def submit(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("spark-submit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program, "spark-submit comes with pyspark"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    quick = ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--driver-memory", "1g"]
    quick += ["--driver-java-options", quick_options()]
    return subprocess.run(
        [program, "--master", "local[2]", *quick, *arguments],
        cwd=cwd,
        env=inherited | own | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_shipped_by_py_files_the_job_needs_no_installed_package(tmp_path: Path) -> None:
    """A copy of the job elsewhere finds its siblings in the zip only: what a cluster does."""
    for number in (0, 1):
        write_snapshot(tmp_path, number, seen(number))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    job = shutil.copy(APPLICATION, elsewhere)
    bundle = write_bundle(tmp_path / "jobs.zip")
    done = submit(
        *("--py-files", str(bundle), str(job), JUDGE, "--base", tmp_path.as_uri(), "--cluster", CLUSTER),
        *("--min-idle-seconds", "3600"),
        cwd=elsewhere,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["job"], summary["groups"], summary["verdicts"]["stale"]) == ("judge_staleness", 1, 1)
    table = pq.read_table(verdict_folder(tmp_path, 1))
    assert table.column("verdict").to_pylist() == ["stale"]
    assert summary["warnings"] == []


def test_with_the_package_on_the_path_a_failure_is_explained_with_exit_code_1(tmp_path: Path) -> None:
    done = submit(
        *(str(APPLICATION), JUDGE, "--base", tmp_path.as_uri(), "--cluster", "nowhere", "--min-idle-seconds", "60"),
        cwd=tmp_path,
        PYTHONPATH=str(PACKAGE_ROOT),
    )
    assert done.returncode == 1
    last_line = done.stdout.splitlines()[-1]  # spark-submit hands on both streams of the program as its stdout
    assert last_line.startswith("judge_staleness: error: no snapshot of cluster nowhere")
    assert "Traceback" not in done.stdout


def test_straight_from_a_checkout_a_bad_argument_ends_with_exit_code_2(tmp_path: Path) -> None:
    done = submit(
        str(APPLICATION), JUDGE, "--base", "/b", "--cluster", "c", "--min-idle-seconds", "never", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "--min-idle/--min-idle-seconds: 'never' is no duration: write it as 7d, 36h or 30 min" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["-h"], 0),
        (["jobs.zip", "--help"], 0),
        ([], 2),
        (["--hlep"], 2),
        (["jobs.zip", "--all"], 2),
        (["jobs.zip", "more"], 2),
    ],
)
def test_the_bundle_s_usage_is_shown_and_no_file_is_written(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        bundle(arguments)
    shown = capsys.readouterr()
    assert ended.value.code == code
    assert (shown.err if code else shown.out).startswith("usage: python -m airflow_kafka_groups.spark.bundle")
    assert list(tmp_path.iterdir()) == []


def test_no_application_is_named_where_no_bundle_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (tmp_path, tmp_path / "nowhere" / "jobs.zip"):
        with pytest.raises(OSError, match=str(target)):
            bundle([str(target)])
        assert capsys.readouterr().out == "", "spark-submit must not start what could not be written"
    assert list(tmp_path.iterdir()) == []


def test_the_bundle_s_program_prints_the_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bundle([str(tmp_path / "jobs.zip")]) == 0
    assert capsys.readouterr().out == f"{APPLICATION}\n"


def test_the_bundle_holds_the_package_root_that_imports_nothing_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = write_bundle(tmp_path / "a.zip"), write_bundle(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
    assert {"airflow_kafka_groups/__init__.py", "airflow_kafka_groups/judge/staleness/lives.py"} <= set(names)
    imported = "import airflow_kafka_groups.spark.jobs.judge_staleness as job; print(job.__file__)"
    environment = os.environ | {"PYTHONPATH": str(first)}
    done = subprocess.run(
        [sys.executable, "-c", imported], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(first))


def test_every_job_has_its_help_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    folder = APPLICATION.with_name("jobs")
    assert set(JOBS) == {path.stem for path in folder.glob("[a-z]*.py")}
    for job in JOBS:
        with pytest.raises(SystemExit) as ended:
            main([job, "--help"])
        said = capsys.readouterr().out
        assert said.isascii(), "a locale may lack other letters"
        assert (ended.value.code, said.splitlines()[0][: len(f"usage: {job}")]) == (0, f"usage: {job}")
        program = import_module(f"airflow_kafka_groups.spark.jobs.{job}")._program
        program.add_arguments(parser := ArgumentParser())
        assert [action.option_strings for action in parser._actions if not action.help] == []
        assert " ".join(said.split()).endswith(" ".join(program.documentation.split("\n", 1)[1].split()))
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100
    assert all(f"  {job} " in said for job in JOBS)
    codes = {int(code) for code in re.findall(r"\b\d+\b", said.partition("Exit codes:")[2])}
    of_jobs = {error.exit_code for error in (JobError, ArgumentError, NotCommittedError, NotVerifiedError)}
    assert codes == {0, *of_jobs, PARTLY_FAILED, INTERRUPTED}
    for given in (["judge"], []):
        with pytest.raises(SystemExit) as ended:
            main(given)
        assert ended.value.code == 2
        assert "JOB" in capsys.readouterr().err


def test_ctrl_c_ends_a_job_with_one_line_and_exit_code_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_snapshot(tmp_path, 0, seen(0))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    monkeypatch.setattr(judge_staleness, "find_history", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    try:
        code = main([JUDGE, "--base", tmp_path.as_uri(), "--cluster", CLUSTER, "--min-idle", "1h"])
    finally:
        signal.signal(signal.SIGINT, before)
    said = capfd.readouterr().err  # after what the JVM says where this is the first test
    assert (code, said.splitlines()[-1], "Traceback" in said) == (130, f"{JUDGE}: interrupted", False)


def test_the_package_is_a_program(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    program = [sys.executable, "-m", "airflow_kafka_groups.spark", "lag_report", "--base", "/b"]
    done = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "usage: lag_report" in done.stderr) == (2, True)
