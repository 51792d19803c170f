"""Run every command of *Get started* and *From the shell only* as printed: ``python -m tests.first_hour [page …]``.

Builds the wheel, and starts a three-broker cluster that knows nothing of this package. Each page then begins in an
empty home outside the repository. At its end a plan has to name exactly the retired groups, and every group has to be
there. What the commands printed and how long they took is in ``build/first-hour``. Exits with 1 if a command fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_groups.maintenance.plan.deletion_plan import load_plan
from airflow_kafka_groups.maintenance.storage import Layout
from tests.first_hour.cluster import KEPT, RETIRED, foreign_cluster
from tests.first_hour.record import Ran, as_page, as_summary
from tests.first_hour.shell import Shell
from tests.first_hour.steps import Step, read_steps, with_own_values
from tests.lab.groups import list_groups
from tests.lab.ports import HOST, free_ports
from tests.pages import DOCS, ROOT

FOLDER = ROOT / "build" / "first-hour"
PAGES = {"get-started": ("files", True), "shell": ("files-shell", False)}
"""The pages, their folder of files, and whether they install the package themselves."""

VERSION = "4.1.0"
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

_INSTALL = (
    "python3 -m venv ~/kafka-groups",
    "source ~/kafka-groups/bin/activate",
    'pip install "airflow-kafka-groups[spark]"',
)
"""What a page does not say that begins where another one has led to."""


class CommandFailedError(Exception):
    """A command of a page did not do what the page says."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.first_hour", description=__doc__)
    parser.add_argument("pages", nargs="*", default=[], metavar="page", help=f"of {', '.join(PAGES)}; default: all")
    parser.add_argument("--pip", action="store_true", help="install by pip itself, instead of uv and its cache")
    parser.add_argument("--kafka", default=VERSION, help=f"the brokers' version (default: {VERSION})")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.pages) - set(PAGES):
        parser.error(f"there is no page {min(unknown)!r}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended, too
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "dist").mkdir(parents=True)
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(FOLDER / "dist"), str(ROOT)], check=True)
    failed = False
    with foreign_cluster(arguments.kafka) as bootstrap:
        for name in arguments.pages or PAGES:
            with tempfile.TemporaryDirectory(prefix="kafka-groups-first-hour-", dir="/var/tmp") as home:
                failed |= not try_page(name, Path(home), bootstrap, by_pip=arguments.pip)
    return 1 if failed else 0


def try_page(name: str, home: Path, bootstrap: str, *, by_pip: bool) -> bool:
    """Run the commands of a page in an empty home, and check what they led to; print it, and return whether it did."""
    text = (DOCS / "start" / f"{name}.md").read_text()
    files, installs = PAGES[name]
    own = {_PRINTED_BROKERS: bootstrap, _PRINTED_FOLDER: str(home / "files")}
    commands: list[Ran] = []
    failure = ""
    with Shell(home, environment(home)) as shell:
        if not by_pip:
            shell.run(f'pip() {{ "{Path(sys.executable).with_name("uv")}" pip "$@"; }}')
        try:
            for line in () if installs else _INSTALL:
                code, printed = shell.run(line)
                if code:
                    raise CommandFailedError(f"{line!r} ended with exit code {code}: {printed[-2000:]}")
            for step in read_steps(text):
                run_step(shell, with_own_values(step, own), commands, home)
            check(home / files, bootstrap)
        except (CommandFailedError, AssertionError, EOFError) as error:
            failure = f"{type(error).__name__}: {error}"
    words = len(text.split())
    (FOLDER / f"{name}.md").write_text(as_page(name, words, commands) + (f"\n{failure}\n" if failure else ""))
    (FOLDER / f"{name}.json").write_text(json.dumps(as_summary(name, words, commands), indent=1) + "\n")
    for log in home.glob("*.log"):
        shutil.copy(log, FOLDER / f"{name}-{log.name}")
    print(f"{name}: {failure or 'a reviewed dry-run plan'}; {sum(ran.seconds for ran in commands):.0f} s of commands")
    return not failure


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


def check(files: Path, bootstrap: str) -> None:
    """Check what the page led to: the newest plan names the retired groups, and nothing was deleted."""
    layout = Layout(files, "prod")
    newest = max((files / "prod" / "plans").glob("*.json"), key=lambda path: path.name).stem
    planned = {group.group_id for group in load_plan(layout, newest).groups}
    assert planned == RETIRED, f"the plan names {sorted(planned ^ RETIRED)} otherwise"
    assert list((files / "prod" / "reports").glob("*.html")), "there is no report"
    assert (RETIRED | KEPT).issubset(list_groups(bootstrap)), "a dry run has deleted something"


if __name__ == "__main__":
    sys.exit(main())
