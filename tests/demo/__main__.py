"""The whole job on a real cluster: ``python -m tests.demo`` (``make demo``).

Starts three Kafka brokers and fills them with some 300 groups, live and dead; runs the shipped DAGs by a policy file on
a real Airflow with real Spark jobs: a snapshot, a clean-up that marks stale groups and notifies their owners by mail,
and, after the notice period, one that deletes. Beside that, a broker that forgets groups after a minute has two that
have slept since the set-up, of which one is kept alive. Then asks the brokers whether what had to stay is still there,
and opens the report. Exits with 1 when something is wrong, with 2 when something needed is missing.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.journal import record_of
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from airflow_kafka_groups.storage.layout import Layout
from tests.demo.airflow_orders import AirflowOrders
from tests.demo.airflow_runs import connections
from tests.demo.mailbox import Mailbox
from tests.demo.offsets import committed_offsets
from tests.demo.outcome import deleted_groups, policy_wrongs, pruned, summarise, summarise_policy, table, wrongs
from tests.demo.policy import IDLE_SECONDS, NOTICE_SECONDS, write_policy
from tests.demo.sleepers import CONTROL, KEPT, VERSION, Sleepers
from tests.demo.workload import LEFT_BY, LEFT_TOPIC, DemoWorkload
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.servers.chromium import MISSING, find_chromium, headless_browser
from tests.lab.workload.groups import list_groups
from tests.records import runs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "demo"
STORE = FOLDER / "storage"
CLEANUP = "cleanup_stale_groups"
_MARGIN_S = 0.5
_BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}", flush=True)


@dataclass
class Demo:
    """What is running, and the steps that use it, in their order."""

    airflow: AirflowOrders
    sleepers: Sleepers
    mailbox: Mailbox
    environment: dict[str, str] = field(default_factory=dict)

    def keep_alive(self) -> None:
        """Keep one of the two groups alive that sleep, once Airflow is ready."""
        self.airflow.wait_ready()
        connection = {"conn_type": "kafka_groups", "host": self.sleepers.bootstrap}
        environment = {"AIRFLOW_CONN_SLEEPERS": json.dumps(connection)}
        scope = {"storage_path": str(STORE), "cluster": "sleepers", "kafka_groups_conn_id": "sleepers"}
        say(f"Keeping {KEPT} alive, and {CONTROL} not.")
        self.airflow.run("keep_sleepers_alive", environment, {**scope, "include": [KEPT]})
        self.sleepers.forget()

    def connect(self, bootstrap: str) -> None:
        """Use a cluster in the runs that follow."""
        mail = {"AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(self.mailbox.connection)}
        self.environment = {**connections(bootstrap), **mail}

    def snapshot(self) -> float:
        """Take a snapshot; return when it was done."""
        self.airflow.run("snapshot_group_offsets", self.environment, _scope())
        return time.monotonic()

    def clean_up(self, policy: Path) -> float:
        """Clean up by the policy, without asking a person; return when it was done."""
        answers = {"policy_file": str(policy), "max_share": 0.9, "dry_run": False, "require_approval": False}
        self.airflow.run(CLEANUP, self.environment, {**_scope(), **answers})
        return time.monotonic()

    def prune_topics(self, policy: Path, bootstrap: str) -> int:
        """Prune topics by the policy; return how many offsets of the topic that a live group has left are gone."""
        before = committed_offsets(bootstrap, [LEFT_BY])[LEFT_BY]
        answers = {"policy_file": str(policy), "dry_run": False, "require_approval": False}
        self.airflow.run("prune_abandoned_topics", self.environment, {**_scope(), **answers})
        after = committed_offsets(bootstrap, [LEFT_BY])[LEFT_BY]
        return pruned(before, after, LEFT_TOPIC)


def _scope() -> dict[str, str]:
    return {"storage_path": str(STORE), "cluster": "demo"}


def wait_until(at: float) -> None:
    """Wait until a time of the monotonic clock."""
    time.sleep(max(at - time.monotonic(), 0))


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    STORE.mkdir(parents=True)
    policy = write_policy(FOLDER / "policy.yaml")
    say(f"Starting Kafka {VERSION} with three brokers, one more with a retention of a minute, Airflow, a mail server …")
    with ExitStack() as stack:
        demo = Demo(
            sleepers=stack.enter_context(Sleepers()),
            airflow=stack.enter_context(AirflowOrders(FOLDER, say)),
            mailbox=stack.enter_context(Mailbox()),
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(demo.sleepers.stop)  # after an error the pool waits for nothing
        stack.callback(demo.airflow.stop)
        kept = pool.submit(demo.keep_alive)
        cluster = stack.enter_context(KafkaCluster(version=VERSION, brokers=3))
        say("Filling it: topics with records, and some 300 groups, most of them dead …")
        workload = stack.enter_context(DemoWorkload(cluster))
        say(f"{len(workload.groups)} groups are there; {len(workload.live)} have members that keep committing.")
        kept.result()
        left, pruned_partitions = run_dags(demo, cluster, policy)
        workload.check()
        plan_id = record_of(runs(STORE)[-1])["plan_id"]
        shutil.copy(str(Layout(STORE, "demo").report(plan_id)), FOLDER / "report.html")
        open_report(FOLDER / "report.html", FOLDER / "report.png")
        demo.sleepers.wait_until_forgotten()
        kept_alive = demo.sleepers.kept_alive()
        not_ = "not " if kept_alive else ""
        say(f"{CONTROL} was forgotten after {demo.sleepers.slept:.0f} s, {KEPT} was {not_}forgotten.")
        return tell(workload, left, demo.mailbox, {"kept_alive": kept_alive, "pruned_partitions": pruned_partitions})


def run_dags(demo: Demo, cluster: KafkaCluster, policy: Path) -> tuple[frozenset[str], int]:
    """Run the DAGs; return the groups that are left, and how many partitions were pruned."""
    demo.connect(cluster.bootstrap)
    say("A snapshot: without history, nothing is stale.")
    at = demo.snapshot()
    wait_until(at + IDLE_SECONDS + _MARGIN_S)
    say("A clean-up by the policy. All its rules demand a notice, so it marks stale groups and mails their owners.")
    at = demo.clean_up(policy)
    say(f"{LEFT_BY} is alive, and has left {LEFT_TOPIC}: a rule of the policy prunes its offsets there.")
    pruned_partitions = demo.prune_topics(policy, cluster.bootstrap)
    for mail in demo.mailbox.mails:
        say(f"  mail to {', '.join(mail.recipients)}: {mail.subject}")
    wait_until(at + NOTICE_SECONDS + _MARGIN_S)
    say("The notice period is over: a clean-up that looks again, and deletes what is stale still.")
    demo.clean_up(policy)
    return frozenset(list_groups(cluster.bootstrap)), pruned_partitions


def tell(truth: DemoWorkload, left: frozenset[str], mailbox: Mailbox, others: Mapping[str, int]) -> int:
    """Write the summary, print the table, and hold it against the truth."""
    run = runs(STORE)[-1]
    audit: dict[str, Any] = record_of(run)
    layout = Layout(STORE, "demo")
    plan = load_plan(layout, audit["plan_id"])
    marks = Ledger(layout, plan.kafka_cluster_id).notices()
    summary = {
        **summarise(plan.to_json(), audit, truth, left),
        **summarise_policy(plan, deleted_groups(audit), run.intents, marks, mailbox.mails),
        **others,
    }
    (FOLDER / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(f"\n{table(summary)}\n\n  some of them, and why:")
    some: list[PlannedGroup | KeptGroup] = [*plan.groups[:3], *{kept.verdict: kept for kept in plan.kept}.values()]
    for group in some:
        print(f"    {group.group_id:<44} {group.reason}")
    print()
    for what, place in made_in(FOLDER, STORE).items():
        print(f"  {what:<10} {place.relative_to(ROOT)}")
    found = [*wrongs(summary, truth), *policy_wrongs(summary, truth)]
    for wrong in found:
        print(f"\n  WRONG: {wrong}.", file=sys.stderr)
    if not found:
        say("All is as it must be: what was alive still is, what was dead is gone, and its offsets are backed up.")
    return 1 if found else 0


def made_in(folder: Path, store: Path) -> dict[str, Path]:
    """Return the files to look at that were made: without Chromium, there is no picture."""
    places = {
        "report": folder / "report.html",
        "picture": folder / "report.png",
        "policy": folder / "policy.yaml",
        "summary": folder / "summary.json",
        "backup": store / "demo" / "backups",
        "snapshots": store / "demo" / "data",
        "log": folder / "airflow.log",
    }
    return {what: place for what, place in places.items() if place.exists()}


def open_report(report: Path, picture: Path) -> None:
    """Open the report in Chromium, and keep what it shows.

    Without Chromium, say so. Raises LabError where CI is set, and when the page has errors.
    """
    program = find_chromium()
    if program is None and os.environ.get("CI"):
        raise LabError(f"The report was not opened: {MISSING}.")
    if program is None:
        say(f"The report is not opened: {MISSING}.")
        return
    say("Opening the report in Chromium …")
    with headless_browser(program) as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(report.as_uri())
        page.locator("h1").first.wait_for()
        page.screenshot(path=picture)
    if failures:
        raise LabError(f"The report's page has errors: {failures}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
