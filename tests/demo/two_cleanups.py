"""Two cleanups at once on one cluster: ``python -m tests.demo.two_cleanups`` (``make demo-lease``).

Each is ``DeleteGroupsOperator`` in a process of its own, as if two deployments of Airflow looked after one cluster.
Both are told to delete the same groups at the same moment; Kafka elects the one that may. First the other is skipped at
once, and says who is at it; then, in a second round, it waits its turn and finds the work done. Exits with 1 when
anything else happens.
"""

import asyncio
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.dags.airflow_env import ROOT, prepare_airflow
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

CONN_ID = "KAFKA_GROUPS_TWO_CLEANUPS"
GROUPS = 30
OBSERVE_SECONDS = 4.0
_started = time.monotonic()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The result of one cleanup: ``deleted`` and ``gone`` groups, or why it was ``skipped``."""

    name: str
    deleted: int = 0
    gone: int = 0
    skipped: str = ""
    lease: dict[str, Any] | None = None


def connect(bootstrap: str, client_id: str, **extra: str) -> None:
    """Make the connection that the cleanups of this process use."""
    connection = {"conn_type": "kafka_groups", "host": bootstrap, "extra": {"client_id": client_id, **extra}}
    os.environ[f"AIRFLOW_CONN_{CONN_ID}"] = json.dumps(connection)


def clean_up(
    name: str, group_ids: Sequence[str], storage: Path, *, wait_seconds: float, observe_seconds: float = OBSERVE_SECONDS
) -> Ended:
    """Run one cleanup in this process, through the connection ``CONN_ID``; it holds the lease while it observes."""
    from airflow.sdk.exceptions import AirflowSkipException

    from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator

    operator = DeleteGroupsOperator(
        task_id="delete",
        kafka_groups_conn_id=CONN_ID.lower(),
        storage_path=str(storage),
        cluster=name,
        group_ids=list(group_ids),
        ignore_missing=True,
        observe_seconds=observe_seconds,
        lease_wait_seconds=wait_seconds,
    )
    context: Any = {"ti": SimpleNamespace(dag_id="cleanup", task_id="delete", try_number=1), "run_id": name}
    try:
        done = operator.execute(context)
    except AirflowSkipException as skip:
        return Ended(name=name, skipped=str(skip))
    return Ended(name=name, deleted=done["counts"]["deleted"], gone=done["counts"]["gone"], lease=done["lease"])


def wrong(ended: Sequence[Ended], groups: int, *, waits: bool) -> str | None:
    """Return the deviation from the expected outcome of two concurrent runs; ``None`` if there is none."""
    winners = [one for one in ended if one.deleted]
    others = [one for one in ended if not one.deleted]
    if [one.deleted for one in winners] != [groups] or len(others) != 1:
        return f"one of them, and only one, should have deleted all {groups} groups: {list(ended)}"
    (winner,), (other,) = winners, others
    if waits:
        return None if other.gone == groups else f"the other should have found all {groups} groups gone: {other}"
    if f"run {winner.name}" not in other.skipped:
        return f"the other should have been skipped, naming {winner.name}: {other}"
    return None


# A process for each cleanup


def one_process(name: str) -> int:
    """Get ready, then do what each line of stdin says: be one of the two cleanups."""
    prepare_airflow()
    importlib.import_module("airflow_kafka_groups.operators.deletion")  # takes seconds, so it comes before the race
    print("READY", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        connect(order["bootstrap"], name)
        ended = clean_up(name, order["groups"], Path(order["storage"]), wait_seconds=order["wait_seconds"])
        print("ENDED " + json.dumps(vars(ended)), flush=True)
    return 0


class Cleanup:
    """One of the two processes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.demo.two_cleanups", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self, word: str) -> str:
        """Read on to the line that begins with this word; give the rest of it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise LabError(f"Cleanup {self.name} ended with exit code {self._process.wait()} before it said {word}.")

    def order(self, **what: Any) -> None:
        """Start it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - _started:5.1f} s] {text}", flush=True)


def at_once(cleanups: Sequence[Cleanup], bootstrap: str, **what: Any) -> list[Ended]:
    """Let both begin at the same moment, look at the lease's group meanwhile, and give what became of them."""
    for cleanup in cleanups:
        cleanup.order(bootstrap=bootstrap, **what)
    time.sleep(OBSERVE_SECONDS / 2)
    show_lease(bootstrap)
    found = []
    for cleanup in cleanups:
        ended = Ended(**json.loads(cleanup.wait("ENDED")))
        found.append(ended)
        what_happened = f"skipped. {ended.skipped}" if ended.skipped else f"deleted {ended.deleted}, gone {ended.gone}"
        generation = "" if ended.lease is None else f", by generation {ended.lease['generations']} of the lease"
        say(f"  {ended.name}: {what_happened}{generation}")
    return found


def show_lease(bootstrap: str) -> None:
    """Return what the brokers know of the lease's group."""
    from airflow_kafka_groups.kafka import AdminClient, ClientConfig
    from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID as GROUP_ID

    async def ask() -> None:
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
            group = (await admin.describe_consumer_groups([GROUP_ID]))[GROUP_ID].unwrap()
            members = ", ".join(sorted(member.client_id for member in group.members)) or "nobody"
            say(f"  meanwhile, group {GROUP_ID} ({group.protocol_type}) is {group.state.value}, members: {members}")

    asyncio.run(ask())


def main() -> int:
    """Run the demo; give the exit code."""
    groups = [f"old-{number:02d}" for number in range(GROUPS)]
    say("Starting Kafka, and two cleanups …")
    with KafkaCluster(version="4.1.0", brokers=1) as kafka, tempfile.TemporaryDirectory() as folder:
        create_topics(kafka.bootstrap, {"t": 1})
        produce(kafka.bootstrap, {("t", 0): 10})
        cleanups = [Cleanup(name) for name in ("north", "south")]
        try:
            for cleanup in cleanups:
                cleanup.wait("READY")
            for wait_seconds in (0.0, 60.0):
                seed_groups(kafka.bootstrap, groups, {("t", 0): 5})
                say(f"{GROUPS} stale groups; both begin at once, and wait {wait_seconds:g} s for the lease.")
                order = {"groups": groups, "storage": folder, "wait_seconds": wait_seconds}
                ended = at_once(cleanups, kafka.bootstrap, **order)
                if (problem := wrong(ended, GROUPS, waits=wait_seconds > 0)) is not None:
                    print(f"\n  WRONG: {problem}.", file=sys.stderr)
                    return 1
        finally:
            for cleanup in cleanups:
                cleanup.close()
    say("All is as it must be: one deleted, the other was skipped and said why, or waited and found the work done.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(one_process(sys.argv[1]) if len(sys.argv) > 1 else main())
    except LabError as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
