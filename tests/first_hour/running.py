"""How the commands of a page are run: the environment of a newcomer, and what the page tells them to replace."""

import os
import shutil
import sysconfig
import time
from pathlib import Path

from tests.first_hour.record import Ran
from tests.first_hour.shell import Shell
from tests.first_hour.steps import Step
from tests.lab.machine.ports import HOST, free_ports
from tests.pages import ROOT

FOLDER = ROOT / "build" / "first-hour"
_PRINTED_BROKERS, _PRINTED_FOLDER = "broker1:9092,broker2:9092,broker3:9092", "/srv/kafka-groups"
_FINE = (0, 3)  # 3: something was left out, or the doctor has a warning
_UNTIL_TIMEOUT_S, _UNTIL_PAUSE_S = 420.0, 5.0
_OF_THIS_MACHINE = (
    "PIP_",
    "UV_",
    "SSL_CERT_",
    "REQUESTS_CA_",
    "http",
    "HTTP",
    "no_proxy",
    "NO_PROXY",
    "LANG",
    "JAVA_HOME",
)
"""What of this process's environment any user of this machine has: how to reach package indexes, and Java."""


class CommandFailedError(Exception):
    """A command of a page did not do what the page says."""


def own_values(folder: Path, bootstrap: str) -> dict[str, str]:
    """Return what the pages tell their reader to replace, and what it is here."""
    return {_PRINTED_BROKERS: bootstrap, _PRINTED_FOLDER: str(folder)}


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who has Python, Java, this wheel as a download, and nothing else."""
    api, worker_log, trigger_log = free_ports(3)
    java = Path(shutil.which("java") or "/usr/bin/java").parent
    python = sysconfig.get_config_var("BINDIR")
    kept = {name: value for name, value in os.environ.items() if name.startswith(_OF_THIS_MACHINE)}
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uv"
    return {
        "UV_CACHE_DIR": str(cache),
        **kept,
        "HOME": str(home),
        "PATH": f"{python}:{java}:/usr/local/bin:/usr/bin:/bin",
        "COLUMNS": "160",
        # The package is not on an index yet; all else is what was tested.
        **{f"{tool}_FIND_LINKS": str(FOLDER / "dist") for tool in ("PIP", "UV")},
        **{f"{tool}_CONSTRAINT": str(ROOT / "constraints.txt") for tool in ("PIP", "UV")},
        # Other Airflows may be running here.
        "AIRFLOW__API__PORT": str(api),
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{api}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{api}/execution/",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log),
        "SPARK_LOCAL_IP": HOST,
    }


def run_step(shell: Shell, step: Step, commands: list[Ran], home: Path) -> None:
    """Run a step's commands. Raises CommandFailedError for one that fails, or does not print in time what it has to."""
    time.sleep(step.wait_seconds)
    for command in step.commands:
        print(f"  $ {command}", flush=True)
        began = time.monotonic()
        if step.in_background:
            shell.start(command, home / "background.log")
            code, printed = None, ""
        else:
            code, printed = shell.run(command)
            while step.until and step.until not in printed and time.monotonic() - began < _UNTIL_TIMEOUT_S:
                time.sleep(_UNTIL_PAUSE_S)
                code, printed = shell.run(command)
        took = time.monotonic() - began
        commands.append(Ran(title=step.title, command=command, exit_code=code, seconds=took, printed=printed))
        if code is not None and code not in _FINE:
            raise CommandFailedError(f"{command!r} ended with exit code {code}: {printed[-2000:]}")
        if step.until and step.until not in printed:
            raise CommandFailedError(f"{command!r} has not printed {step.until!r} in time: {printed[-2000:]}")
