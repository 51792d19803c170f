"""The wheel is enough: built from the sdist, and installed into an empty environment outside the repository.

The commands of the pages for newcomers run there as printed, as far as the connection, and from the shell. The others
start an Airflow and wait for Spark: ``make first-hour`` runs the pages to their end.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from packaging.metadata import Metadata

from tests.dags.airflow_env import ROOT
from tests.first_hour.record import Ran
from tests.first_hour.running import environment, own_values, run_step
from tests.first_hour.shell import Shell
from tests.first_hour.steps import Step, read_steps, with_own_values
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics
from tests.pages import DOCS

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
    environment = home / "kafka-groups"  # where the pages for newcomers install it
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


def test_an_index_can_show_the_wheel_and_no_link_is_dead(built: tuple[Path, Path]) -> None:
    """Check what ``twine check`` checks, and that nothing leads to a file of the repository."""
    wheel, sdist = built
    (name,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Metadata.from_email(zipfile.ZipFile(wheel).read(name), validate=True)
    assert metadata.description_content_type == "text/markdown"
    tokens = MarkdownIt("commonmark").enable("table").parse(metadata.description or "")
    inline = [child for token in tokens for child in token.children or ()]
    targets = [str(token.attrGet("href") or token.attrGet("src")) for token in inline if token.type != "link_close"]
    links = [target for target in targets if target != "None"]
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2", "h2"]
    assert "table_open" in {token.type for token in tokens}
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    named = [token.content.partition("#")[0] for token in inline if token.type == "code_inline"]
    pages = [name for name in named if name.startswith("docs/")]
    assert len(pages) > 8
    assert set(pages) <= files, "the source distribution has the pages that the description names"


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


def steps_of_newcomers() -> list[Step]:
    """Return the steps of Get started as far as the connection, less the install and Airflow; then those of a shell."""
    started = read_steps((DOCS / "start" / "get-started.md").read_text())
    as_far_as_the_connection = [step for step in started if step.title[:1] in "23" and not step.in_background]
    look = [step for step in read_steps((DOCS / "start" / "shell.md").read_text()) if step.name == "look"]
    assert (len(as_far_as_the_connection), len(look)) == (2, 1)
    return [*as_far_as_the_connection, *look]


@pytest.mark.timeout(600)
def test_the_pages_lead_to_an_examined_connection(installed: Run, home: Path, kafka41: KafkaCluster) -> None:
    create_topics(kafka41.bootstrap, {"newcomers": 1})
    seed_groups(kafka41.bootstrap, ["newcomers-group"], {("newcomers", 0): 0})
    shutil.rmtree(home / "kafka-groups" / "airflow", ignore_errors=True)  # of a first attempt
    ran: list[Ran] = []
    with Shell(home, environment(home)) as shell:
        shell.run("source ~/kafka-groups/bin/activate")
        for step in steps_of_newcomers():
            run_step(shell, with_own_values(step, own_values(home / "files", kafka41.bootstrap)), ran, home)
    printed = {command.command.partition(" -")[0]: command.printed for command in ran}
    (copied,) = (text for command, text in printed.items() if "copy-dags" in command)
    assert copied.count("  copied  ") == len(DAGS)
    assert "Connection success!" in printed["airflow connections test prod"]
    examined = printed["airflow-kafka-groups doctor"]
    assert "3 brokers, with the APIs of Kafka 4.1." in examined
    assert "  failed  " not in examined
    assert "[warning" not in examined, "Airflow logs nothing between a newcomer and the findings"
    listed, lag, offsets = (command.printed for command in ran[-3:])
    assert ["newcomers-group", "Empty"] in [line.split()[:2] for line in listed.splitlines()]
    groups, _ = json.JSONDecoder().raw_decode(lag)  # a warning about groups of other tests may follow
    assert {"group_id", "lag"} <= groups[0].keys()
    assert offsets.split()[:2] == ["GROUP_ID", "TOPIC"]
