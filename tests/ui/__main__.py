"""Click through it: ``python -m tests.ui`` (``make ui``).

Starts the demo's cluster and a whole Airflow with the shipped DAGs, says where it is and how to log in, and keeps both
running until Ctrl-C. Exits with 2 when something needed is missing.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from urllib.parse import quote

from tests.demo.policy import SECONDS_A_DAY
from tests.lab.errors import LabError
from tests.ui.airflow_server import USERS
from tests.ui.scene import DAGS, FOLDER, KAFKA_PASSWORD, KAFKA_USER, MAILS, ui_scene

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
        dag, notice = DAGS[1], scene.notice_run
        print(
            f"""
  Airflow      {scene.airflow.url}
  log in as    admin, password {USERS["admin"]} (or viewer, password {USERS["viewer"]})
  brokers      {scene.cluster.bootstrap}
  with login   {scene.cluster.sasl_bootstrap}  (SASL_PLAINTEXT, PLAIN, {KAFKA_USER}, password {KAFKA_PASSWORD})
  files        {scene.storage}
  policy       {scene.policy}  (a day is {SECONDS_A_DAY} seconds; an edit counts in the next run)
  mails        {MAILS}

  1. The first clean-up has run, and deleted nothing: the rules of the policy demand a notice. See its report, with
     families and owners: {scene.airflow.url}/dags/{dag}/runs/{quote(notice)}/plugin/kafka-groups-report
  2. {len(scene.mailbox.mails)} owners have mail: open one of the files above. An owner who objects adds a rule, such as
     {{name: mine, match: {{groups: "report-*"}}, action: keep}}, at the beginning of the rules.
  3. The notice period is over. Open {scene.airflow.url}/dags/{dag}, press Trigger, untick "Dry run",
     trigger, and answer under Required Actions: families first, and one can be kept.
  4. See what was deleted in the tab "Consumer groups" of that run, and the command that undoes it.
  5. Trigger keep_groups_alive: groups that sleep (settlement-*) are not forgotten.
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
