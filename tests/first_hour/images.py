"""The images of *Install where Airflow runs*, step by step in an empty environment: no registry of images is reached.

What an image begins with is what its ``FROM`` names: that Airflow, and nothing else. Each ``pip install`` is run as
printed. What installs Java as root is not run: Java is here.
"""

import re
import sys
from pathlib import Path

from tests.first_hour.record import Ran
from tests.first_hour.running import CommandFailedError, environment, run_step
from tests.first_hour.shell import Shell
from tests.first_hour.steps import Step

_IMAGE = re.compile(r"^```dockerfile\nFROM apache/airflow:(?P<airflow>[\d.]+)-\S+\n(?P<steps>.*?)^```$", re.M | re.S)
_LOOK = (
    "airflow-kafka-groups --version",
    "airflow providers get airflow-kafka-groups --full",
    'airflow-kafka-groups copy-dags "$AIRFLOW_HOME/dags"',
    "airflow db migrate",
    "airflow dags reserialize",
    'airflow dags list-import-errors 2>&1 | tee ~/errors; grep -q "No data found" ~/errors',
    "airflow dags list --output plain | grep cleanup_stale_groups",
)
"""What has to work in an image before it is used."""
_UNINSTALL = ("echo y | pip uninstall airflow-kafka-groups", "! airflow providers get airflow-kafka-groups")


def images_of(page: str) -> list[tuple[str, list[str]]]:
    """Return the version of Airflow that each image of a page begins with, and its ``RUN`` commands.

    Raises ValueError for a Dockerfile that begins with something else.
    """
    found = [(image["airflow"], re.findall(r"^RUN (.+)$", image["steps"], re.M)) for image in _IMAGE.finditer(page)]
    if len(found) != page.count("```dockerfile") or not found:
        raise ValueError("the page has an image that does not begin with Airflow's own")
    return found


def try_image(home: Path, airflow: str, commands: list[str], ran: list[Ran], pip: str) -> None:
    """Build an image in an empty home, look into it, and uninstall. Raises CommandFailedError.

    :param pip: the definition of ``pip`` for the shell; empty for pip's own.
    """
    began = (
        f'"{sys.executable}" -m venv ~/airflow',
        "source ~/airflow/bin/activate",
        f"export AIRFLOW_VERSION={airflow} AIRFLOW_HOME=~/home AIRFLOW__CORE__LOAD_EXAMPLES=False",
        *filter(None, [pip]),
        'pip install "apache-airflow==${AIRFLOW_VERSION}"',
    )
    tried = [command.replace(" --no-cache-dir", "") for command in commands if not command.startswith("apt-get ")]
    if not all(command.startswith("pip install ") for command in tried):
        raise CommandFailedError(f"nobody tries all of {tried}")
    same = 'test "$(airflow version)" = "$AIRFLOW_VERSION"'  # pip has not replaced Airflow
    with Shell(home, environment(home)) as shell:
        for title, each in (("Airflow's image", began), ("The image", (*tried, same, *_LOOK)), ("Away", _UNINSTALL)):
            run_step(shell, Step(title=title, commands=tuple(each)), ran, home)
