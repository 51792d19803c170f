"""The names of the files that a job writes, by which it finds those of another job that writes there at once.

Of two jobs that write one folder at the same time, Spark commits some of the other one's files as well.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from airflow_kafka_groups.exceptions import JobError

_OF_A_JOB = re.compile(r"part-\d{15}-")
"""How the names of a job's files begin: with 15 digits of its own. Spark's are those of a task, and shorter."""


class JobFiles:
    """The files of one write. A committer with file names of its own names nobody."""

    def __init__(self) -> None:
        self.prefix = f"part-{secrets.randbelow(10**15):015}"
        """How their names begin."""

    def name(self, number: int) -> str:
        """Return the name of a file that the job writes by itself."""
        return f"{self.prefix}-{number:05}.parquet"

    def require_own(self, output: str, files: Iterable[str], did: str) -> None:
        """Raise ``JobError`` if there are files of another job.

        :param files: the paths of the files below the output.
        :param did: what the other job did, for the message.
        """
        for path in files:
            name = path.rpartition("/")[2]
            if _OF_A_JOB.match(name) and not name.startswith(f"{self.prefix}-"):
                raise JobError(f"{output} has {path} of another job, which {did} at the same time. Run it again")
