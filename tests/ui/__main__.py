"""Click through it: ``python -m tests.ui`` (``make ui``).

Starts the demo's cluster and a whole Airflow with the shipped DAGs, says where it is and how to log in, and keeps both
running until Ctrl-C. Exits with 2 when something needed is missing.
"""

import shutil
import signal
import sys
import time
from urllib.parse import quote

from tests.demo.policy import SECONDS_A_DAY
from tests.demo.workload import LEFT_BY, LEFT_TOPIC
from tests.lab.errors import LabError
from tests.ui.airflow_server import USERS
from tests.ui.fleet import DOWN, STAGING
from tests.ui.scene import CLEANUP, CLEANUP_FLEET, FOLDER, KAFKA_PASSWORD, KAFKA_USER, MAILS, Scene, ui_scene

_started = time.monotonic()
_CHECK_S = 5.0


def say(text: str) -> None:
    print(f"[{time.monotonic() - _started:6.1f} s] {text}", flush=True)


def main() -> int:
    storage = FOLDER / "kafka-groups"
    shutil.rmtree(storage, ignore_errors=True)
    storage.mkdir(parents=True)
    with ui_scene(FOLDER / "airflow", storage, say) as scene:
        print(guide(scene), flush=True)
        while True:
            scene.workload.check()
            time.sleep(_CHECK_S)


def guide(scene: Scene) -> str:
    """Return where everything is, and what to click, one step after the other."""
    url, mails = scene.airflow.url, len(scene.mailbox.mails)
    return f"""
  Airflow      {url}
  log in as    admin, password {USERS["admin"]} (or viewer, password {USERS["viewer"]})
  brokers      {scene.cluster.bootstrap}
  with login   {scene.cluster.sasl_bootstrap}  (SASL_PLAINTEXT, PLAIN, {KAFKA_USER}, password {KAFKA_PASSWORD})
  files        {scene.storage}
  policy       {scene.policy}  (a day is {SECONDS_A_DAY} seconds; an edit counts in the next run)
  mails        {MAILS}

  1. LOOK. A first clean-up has run, and deleted nothing: its rules demand that owners are notified. Its report has
     families and owners:
       {url}/dags/{CLEANUP}/runs/{quote(scene.notice_run)}/plugin/kafka-groups-report
  2. OWNERS. {mails} owners have mail: open the files above in a browser. An owner who objects adds a rule at the
     beginning of the policy's rules, such as
       - {{name: mine, match: {{groups: "report-*"}}, action: keep}}
  3. PRUNE. {LEFT_BY} is alive, and has left the topic {LEFT_TOPIC}: its offsets there stay, and lag for ever.
       {url}/dags/prune_abandoned_topics
     Trigger it with "Dry run" unticked. The run waits: answer under "Required Actions" (1 topic), and approve.
  4. DELETE. The notice period is over.
       {url}/dags/{CLEANUP}
     Trigger it with "Dry run" unticked. Answer under "Required Actions": type the number of groups, and keep one
     group or one whole family if you like.
  5. UNDO. The tab "Consumer groups" of that run has what was deleted and pruned, and the commands that restore it.
     Or trigger restore_group_offsets with the plan's id:
       {url}/dags/restore_group_offsets
  6. KEEP ALIVE. settlement-* sleep for longer than brokers remember groups.
       {url}/dags/keep_sleepers_alive
     Trigger it: they are not forgotten.
  7. FLEET. The policy names three clusters: demo, {STAGING} and {DOWN}, which is down.
       {url}/dags/{CLEANUP_FLEET}
     Trigger it as it is, as a dry run. {DOWN} fails and holds no other up; the tab "Consumer groups" of the run has one
     line for each cluster, and leads to the report of each.
  8. GROUPS. Browse, Kafka groups: clusters, their groups, and what is on record of one.
       {url}/plugin/kafka-groups
  9. CONNECT. Under Admin, Connections, add one of type "Kafka consumer groups" with the brokers above, and press Test.
  Ctrl-C ends everything.
"""


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
