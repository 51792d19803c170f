"""The wheel is enough: built from the sdist, and installed into an empty environment outside the repository."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_env import ROOT

UV = str(Path(sys.prefix) / "bin" / "uv")
DAGS = sorted(path.name for path in (ROOT / "dags").glob("*.py"))
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
for folder in sys.argv[1:]:
    bag = DagBag(dag_folder=folder, collect_dags=True)
    files = sorted({dag.fileloc for dag in bag.dags.values()})
    print("FOUND", json.dumps([sorted(bag.dags), bag.import_errors, files]))
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the wheel and the sdist. The wheel is built from the sdist: that one is complete, too."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Return a folder on a disk, where uv links to its cache: memory is too dear for 400 MB."""
    with tempfile.TemporaryDirectory(prefix="kafka-groups-wheel-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], home: Path) -> Run:
    """Return a function that runs a program of an environment with the wheel, knowing nothing of this checkout."""
    environment = home / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    spark = "apache-airflow-providers-apache-spark"  # what a site with a Spark of its own installs
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, *constraints, str(built[0]), spark], check=True)

    def run(program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        names = {"PATH": "/usr/bin:/bin", "HOME": str(home), "AIRFLOW_HOME": str(home / "airflow")}
        return subprocess.run(
            [str(environment / "bin" / program), *arguments],
            capture_output=True,
            text=True,
            check=check,
            cwd=home,
            env={**names, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        )

    return run


def parsed(run: Run, *folders: Path) -> list[Any]:
    """Return the DAGs of each folder, its import errors, and the files that the DAGs are said to be in."""
    lines = run("python", "-c", PARSE, *map(str, folders)).stdout.splitlines()
    return [json.loads(line.removeprefix("FOUND ")) for line in lines if line.startswith("FOUND ")]


def test_both_archives_have_the_dag_files(built: tuple[Path, Path]) -> None:
    wheel, sdist = built
    in_wheel = [name for name in zipfile.ZipFile(wheel).namelist() if "/example_dags/" in name]
    assert sorted(Path(name).name for name in in_wheel) == sorted([".airflowignore", "__init__.py", *DAGS])
    with tarfile.open(sdist) as archive:
        in_sdist = [Path(name) for name in archive.getnames()]
    assert sorted(path.name for path in in_sdist if path.parts[1:2] == ("dags",) and path.suffix) == DAGS


def test_it_is_installed_from_the_wheel(installed: Run) -> None:
    place = installed("python", "-c", "import airflow_kafka_groups; print(airflow_kafka_groups.__file__)").stdout
    assert "site-packages" in place
    assert str(ROOT) not in place


def test_both_command_lines_start(installed: Run) -> None:
    script = installed("airflow-kafka-groups", "--help")
    module = installed("python", "-m", "airflow_kafka_groups", "--help")
    assert script.stdout == module.stdout
    assert "copy-dags" in script.stdout
    assert script.stderr == ""


def test_the_dags_parse_copied_or_imported_and_only_then(installed: Run, tmp_path: Path) -> None:
    copied, mine = tmp_path / "dags", tmp_path / "mine"
    done = installed("airflow-kafka-groups", "copy-dags", str(copied))
    assert done.stdout.count("  copied  ") == len(DAGS)
    mine.mkdir()
    (mine / "own.py").write_text("from airflow_kafka_groups.example_dags import lag_alert as dag_file\n")
    place = "import airflow_kafka_groups.example_dags as dags; print(dags.folder())"
    folder = Path(installed("python", "-c", place).stdout.strip())
    assert (folder / "lag_alert.py").is_file()
    of_copies, imported, beside = parsed(installed, copied, mine, folder)
    assert of_copies == [[Path(name).stem for name in DAGS], {}, [str(copied / name) for name in DAGS]]
    assert imported == [["lag_alert"], {}, [str(mine / "own.py")]]
    assert beside == [[], {}, []], "Airflow would load them a second time, beside a copy"


def test_the_commands_are_in_airflows_own_command_line(installed: Run, tmp_path: Path) -> None:
    done = installed("airflow", "kafka-groups", "copy-dags", str(tmp_path / "dags"), "--only", "lag_alert")
    assert "copied" in done.stdout
    assert [path.name for path in (tmp_path / "dags").iterdir()] == ["lag_alert.py"]
    (tmp_path / "dags" / "lag_alert.py").write_text("# mine\n")
    kept = installed("airflow", "kafka-groups", "copy-dags", str(tmp_path / "dags"), "--only", "lag_alert", check=False)
    assert kept.returncode == 3
    assert (tmp_path / "dags" / "lag_alert.py").read_text() == "# mine\n"
