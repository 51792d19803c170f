"""An archive of the classes that a broker loads, so that the lab's JVMs do not read and check them at each start.

``python -m tests.lab.class_archive`` makes that of the version that most clusters run, or those of the versions that
are named. A JVM that cannot use an archive, because Java or the jars have changed, starts without it.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import jars
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.machine.process import class_archive
from tests.lab.machine.waiting import until

VERSION = "4.1.0"
"""Of the versions that tests start, the one with by far the most brokers, and the only one of the demos.

An archive costs 6 to 8 seconds of processor time, and saves 1.2 to 1.4 at each start of a broker."""
EXIT_TIMEOUT_S = 120.0


def make(version: str = VERSION) -> Path:
    """Return the archive of a version. Where there is none, a broker writes it when it ends.

    Raises LabError when the broker does not start, or writes none.
    """
    path = class_archive(jars.fetch(version))
    if not path.exists():
        unfinished = path.with_suffix(".new")
        with KafkaCluster(
            version=version, brokers=1, java_options=(f"-XX:ArchiveClassesAtExit={unfinished}",)
        ) as kafka:
            for pid in kafka.pids:
                os.kill(pid, signal.SIGTERM)
            failed = f"Kafka {version} wrote no archive of its classes. It logged:\n"
            until(lambda: not kafka.running, EXIT_TIMEOUT_S, lambda: failed + kafka.log_tail(1))
            if not unfinished.exists():
                raise LabError(failed + kafka.log_tail(1))
        unfinished.replace(path)
    return path


def main(versions: Sequence[str]) -> None:
    """Make the archives of these versions. Where there can be none, say so: brokers start without it, more slowly."""
    for version in versions:
        try:
            print(make(version))
        except LabError as exc:
            print(f"Brokers of Kafka {version} start without an archive of their classes: {exc}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:] or [VERSION])
