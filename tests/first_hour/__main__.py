"""Run every command of the pages of *Start* as printed: ``python -m tests.first_hour [page …]``.

Builds the wheel, and starts a three-broker cluster that knows nothing of this package. Each page then begins in an
empty home outside the repository. At its end a plan has to name exactly the retired groups, and every group has to be
there. The images of *Install where Airflow runs* are built step by step. What the commands printed and how long they
took is in ``build/first-hour``. Exits with 1 if a command fails.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.storage.layout import Layout
from tests.first_hour.cluster import KEPT, RETIRED, foreign_cluster
from tests.first_hour.images import images_of, try_image
from tests.first_hour.record import Ran, as_page
from tests.first_hour.running import FOLDER, CommandFailedError, environment, own_values, run_step
from tests.first_hour.shell import Shell
from tests.first_hour.steps import read_steps, with_own_values
from tests.lab.workload.groups import list_groups
from tests.pages import DOCS, ROOT

PAGES = {"get-started": ("files", True), "shell": ("files-shell", False)}
"""The pages, their folder of files, and whether they install the package themselves."""
IMAGES = "install"
"""The page with images; it needs no cluster."""

VERSION = "4.4.0"
_INSTALL = (
    "python3 -m venv ~/kafka-groups",
    "source ~/kafka-groups/bin/activate",
    'pip install "airflow-kafka-groups[spark]"',
)
"""What a page does not say that begins where another one has led to."""
_FRESH = "--refresh-package airflow-kafka-groups"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.first_hour", description=__doc__)
    parser.add_argument(
        "pages", nargs="*", default=[], metavar="page", help=f"of {', '.join((*PAGES, IMAGES))}; default: all"
    )
    parser.add_argument("--pip", action="store_true", help="install by pip itself, instead of uv and its cache")
    parser.add_argument("--kafka", default=VERSION, help=f"the brokers' version (default: {VERSION})")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.pages) - {*PAGES, IMAGES}:
        parser.error(f"there is no page {min(unknown)!r}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended, too
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "dist").mkdir(parents=True)
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(FOLDER / "dist"), str(ROOT)], check=True)
    # uv knows a wheel by its name and version, and would take the one of an earlier run from its cache.
    pip = "" if arguments.pip else f'pip() {{ "{uv}" pip "$@" $([ "$1" = install ] && echo "{_FRESH}"); }}'
    wanted = arguments.pages or [*PAGES, IMAGES]
    failed = IMAGES in wanted and not try_images(pip)
    if pages := [name for name in wanted if name != IMAGES]:
        with foreign_cluster(arguments.kafka) as bootstrap:
            for name in pages:
                with _empty_home() as home:
                    failed |= not try_page(name, Path(home), bootstrap, pip)
    return 1 if failed else 0


def try_images(pip: str) -> bool:
    """Build the images of the page that installs; print it, and return whether all could be built."""
    text = (DOCS / "start" / f"{IMAGES}.md").read_text()
    failures, ran = list[str](), list[Ran]()
    for airflow, commands in images_of(text):
        try:
            with _empty_home() as home:
                try_image(Path(home), airflow, commands, ran, pip)
        except (CommandFailedError, EOFError) as error:
            failures.append(f"{type(error).__name__}: {error}")
    _write(IMAGES, ran, "\n".join(failures))
    return not failures


def try_page(name: str, home: Path, bootstrap: str, pip: str) -> bool:
    """Run the commands of a page in an empty home, and check what they led to; print it, and return whether it did."""
    text = (DOCS / "start" / f"{name}.md").read_text()
    files, installs = PAGES[name]
    own = own_values(home / "files", bootstrap)
    commands: list[Ran] = []
    failure = ""
    with Shell(home, environment(home)) as shell:
        if pip:
            shell.run(pip)
        try:
            for line in () if installs else _INSTALL:
                code, printed = shell.run(line)
                if code:
                    raise CommandFailedError(f"{line!r} ended with exit code {code}: {printed[-2000:]}")
            for step in read_steps(text):
                run_step(shell, with_own_values(step, own), commands, home)
            check_installed(home)
            check(home / files, bootstrap)
        except (CommandFailedError, AssertionError, EOFError) as error:
            failure = f"{type(error).__name__}: {error}"
    for log in home.glob("*.log"):
        shutil.copy(log, FOLDER / f"{name}-{log.name}")
    _write(name, commands, failure)
    return not failure


def _write(name: str, commands: list[Ran], failure: str) -> None:
    (FOLDER / f"{name}.md").write_text(as_page(name, commands) + (f"\n{failure}\n" if failure else ""))
    print(f"{name}: {failure or 'done'}; {sum(ran.seconds for ran in commands):.0f} s of commands")


def _empty_home() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kafka-groups-first-hour-", dir="/var/tmp")


def check_installed(home: Path) -> None:
    """Check that what was tried is the code of this repository."""
    (package,) = home.glob("kafka-groups/lib/python*/site-packages/airflow_kafka_groups")
    own = ROOT / "airflow_kafka_groups"
    modules = [path.relative_to(own) for path in own.rglob("*.py")]
    other = [str(name) for name in modules if (package / name).read_bytes() != (own / name).read_bytes()]
    assert modules
    assert other == [], f"the installed package is not this one: {other[:5]}"


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
