"""Click through it: ``python -m tests.ui`` (``make ui``).

Starts the demo's cluster and a whole Airflow with the shipped DAGs, says where it is and how to log in, and keeps both
running until Ctrl-C. Exits with 2 when something needed is missing.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time

from tests.lab.errors import LabError
from tests.ui.airflow_server import USERS
from tests.ui.scene import DAGS, FOLDER, KAFKA_PASSWORD, KAFKA_USER, MIN_IDLE_SECONDS, ui_scene

_started = time.monotonic()
_CHECK_S = 5.0


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - _started:6.1f} s] {text}", flush=True)


def main() -> int:
    """Run until Ctrl-C; give the exit code."""
    storage = FOLDER / "kafka-groups"
    shutil.rmtree(storage, ignore_errors=True)
    storage.mkdir(parents=True)
    with ui_scene(FOLDER / "airflow", storage, say) as scene:
        scene.airflow.run_dag(DAGS[1], {})
        print(
            f"""
  Airflow      {scene.airflow.url}
  log in as    admin, password {USERS["admin"]} (or viewer, password {USERS["viewer"]})
  brokers      {scene.cluster.bootstrap}
  with login   {scene.cluster.sasl_bootstrap}  (SASL_PLAINTEXT, PLAIN, {KAFKA_USER}, password {KAFKA_PASSWORD})
  files        {scene.storage}

  A dry run of cleanup_stale_groups is on its way: see the report in its tab "Consumer groups". Then press Trigger,
  untick "Dry run", and answer under Required Actions. A group is stale here after {MIN_IDLE_SECONDS} seconds.
  Ctrl-C ends everything.
""",
            flush=True,
        )
        while True:
            scene.workload.check()
            time.sleep(_CHECK_S)


def _end(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)  # a shell's background job would ignore it
    try:
        sys.exit(main())
    except LabError as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(0)
