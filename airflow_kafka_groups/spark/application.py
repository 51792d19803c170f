"""The application of every job: ``spark-submit application.py JOB …``.

``python -m airflow_kafka_groups.spark JOB …`` is the same in a session of this Python. ``--help`` shows the jobs,
``JOB --help`` the arguments of one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

if find_spec("airflow_kafka_groups") is None:  # neither installed nor in --py-files: submitted from a checkout
    sys.path.extend(str(root) for root in Path(__file__).resolve().parents if (root / "airflow_kafka_groups").is_dir())

JOBS = {
    "judge_staleness": "judge which groups of a cluster are stale",
    "commit_history": "find the last commit of each group in __consumer_offsets",
    "process_group_backlog": "process exactly the unread records of a group, then commit",
    "archive_backlog": "archive unread records of groups to be deleted",
    "roll_up": "roll up the verdicts of all clusters by day",
    "lag_report": "report how far groups lag, in messages and seconds",
    "translate_offsets": "translate offsets into those of mirrors, by payload",
}
_EXIT_CODES = """
Exit codes: 0 done; 1 failed; 2 a wrong argument; 3 processed, and not committed; 4 committed, and
not verified (process_group_backlog); 5 failed for some of many clusters; 130 interrupted."""
INTERRUPTED = 130  # as shells show it


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job and return its exit code. An unknown job ends the program with exit code 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="python -m airflow_kafka_groups.spark",
        usage="%(prog)s JOB [ARGUMENT ...]",
        description="Run a Spark job. JOB --help shows its arguments.",
        epilog="\n".join(["jobs:", *(f"  {name:<23}{what}" for name, what in JOBS.items()), _EXIT_CODES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", metavar="JOB", choices=JOBS, help=argparse.SUPPRESS)
    job = parser.parse_args(given[:1]).job
    from airflow_kafka_groups.exceptions import JobError
    from airflow_kafka_groups.spark.requirements import require_pyspark

    try:
        require_pyspark()
        return int(import_module(f"airflow_kafka_groups.spark.jobs.{job}").main(given[1:]))
    except JobError as exc:
        print(f"{job}: error: {exc}", file=sys.stderr)
        return exc.exit_code
    except KeyboardInterrupt:  # here and not in the job's own main, which a notebook calls
        print(f"{job}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
