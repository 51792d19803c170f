"""The command line as processes, on a real cluster: read, plan, explain, delete, restore; and no secret anywhere."""

import asyncio
import csv
import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.observe.snapshot.collect import SnapshotSummary, take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import load_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.dags.airflow_env import prepare_airflow
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, produce
from tests.records import history_before

prepare_airflow()  # before airflow is imported

from tests.unit.operators.scene import CLUSTER, judge  # noqa: E402

TOPIC = "command-line"
STALE = ["cli.stale.a", "cli.stale.b"]
GROUPS = [*STALE, "cli.live"]


class CommandLine:
    """The program with a connection and a storage."""

    def __init__(self, home: Path, bootstrap: str) -> None:
        self.storage = home / "storage"
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(home),
            "AIRFLOW_HOME": str(home / "airflow"),
            "AIRFLOW_CONN_LAB": json.dumps({"conn_type": "kafka_groups", "host": bootstrap}),
        }

    def stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run the commands in this process from now on: many starts of Airflow take minutes on a busy machine."""
        monkeypatch.setenv("AIRFLOW_CONN_LAB", self.environment["AIRFLOW_CONN_LAB"])
        monkeypatch.setattr(self, "run", self._run_here)

    def __call__(self, *words: str, code: int = 0) -> Any:
        """Run a command with the connection of Airflow; return what stdout has as JSON."""
        done = self.run(*words, "--conn-id", "lab", "--output", "json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def stored(self, *words: str, code: int = 0) -> Any:
        """Run a command that has files, too."""
        return self(*words, "--storage-path", str(self.storage), "--cluster", CLUSTER, code=code)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "airflow_kafka_groups", *words]
        return subprocess.run(program, capture_output=True, text=True, env=self.environment, check=False)

    def _run_here(self, *words: str) -> subprocess.CompletedProcess[str]:
        from airflow_kafka_groups.cli.main import main

        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = main(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def lab(kafka41: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Return the program on a cluster with three groups of its own."""
    create_topics(kafka41.bootstrap, {TOPIC: 2})
    produce(kafka41.bootstrap, {(TOPIC, 0): 10, (TOPIC, 1): 4})
    commit_offsets(kafka41.bootstrap, {name: {(TOPIC, 0): 3, (TOPIC, 1): 4} for name in GROUPS})
    return CommandLine(tmp_path_factory.mktemp("cli"), kafka41.bootstrap)


def test_doctor_finds_a_real_cluster_sound(lab: CommandLine, kafka41: KafkaCluster) -> None:
    commit_offsets(kafka41.bootstrap, {"a-commit-of-now": {(TOPIC, 0): 3}})  # an old one would say nothing of the clock
    checks = {row["check"]: row for row in lab("doctor", "--storage-path", str(lab.storage), code=3)}
    sound = {
        "brokers",
        "API versions",
        "groups",
        "clock",
        "all topics",
        "read offsets",
        "delete groups",
        "restore groups",
    }
    sound |= {"lease", "log of commits", "storage", "exclusive creation", "listing"}
    assert {name: checks[name]["status"] for name in sound} == dict.fromkeys(sound, "ok")
    assert "3 brokers, with the APIs of Kafka 4.1" in checks["brokers"]["text"]
    assert checks["Test button"]["status"] == "warning", "Airflow's default"


def test_doctor_says_which_server_does_not_answer(lab: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.stay(monkeypatch)
    done = lab.run("doctor", "--bootstrap-servers", "127.0.0.1:9", "--output", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found[0]["check"], found[0]["status"]) == (1, "connection", "failed")
    assert "127.0.0.1:9" in found[0]["text"]


def test_the_groups_are_read(lab: CommandLine, kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done = lab.run("offsets", *STALE, "--bootstrap-servers", kafka41.bootstrap, "-o", "csv")
    assert done.stderr == ""
    offsets = {(name, partition, offset) for name, _, partition, offset in csv.reader(StringIO(done.stdout))}
    assert offsets == {(name, partition, offset) for name in STALE for partition, offset in (("0", "3"), ("1", "4"))}
    lab.stay(monkeypatch)
    listed = lab("list", "--include", "cli.*")
    assert [group["group_id"] for group in listed] == sorted(GROUPS)
    (described,) = lab("describe", "cli.live")
    assert (described["state"], described["type"]) == ("Empty", "classic")
    lags = lab("lag", "--include", "cli.*")
    assert {row["group_id"]: row["lag"] for row in lags} == dict.fromkeys(GROUPS, 7)
    assert lab("lag", "--include", "cli.*", "--max-lag", "6", code=3) == lags


def test_reading_imports_no_airflow(lab: CommandLine, kafka41: KafkaCluster) -> None:
    code = (
        "import sys; from airflow_kafka_groups.cli.main import main\n"
        f"for name in ('list', 'offsets', 'lag'): main([name, '--bootstrap-servers', {kafka41.bootstrap!r}])\n"
        "print([name for name in ('airflow', 'pyarrow', 'confluent_kafka', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=lab.environment, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_offsets_expire_as_the_brokers_say(lab: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.stay(monkeypatch)
    snapshot_id = lab.stored("snapshot")["snapshot_id"]
    lab.stored("judge")
    verdicts = lab.storage / CLUSTER / "tables" / "verdicts" / f"snapshot_id={snapshot_id}"
    rows = [row for row in pq.read_table(verdicts).to_pylist() if row["group_id"] in GROUPS]
    assert [row["offsets_expire_by"] - row["idle_since"] for row in rows] == [timedelta(days=7)] * len(GROUPS)


@pytest.mark.safety
def test_a_clean_up_from_plan_to_restore(
    lab: CommandLine, kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.stay(monkeypatch)
    # A folder of its own: while coordinators move, a snapshot lacks groups, and the next one takes them for come back.
    monkeypatch.setattr(lab, "storage", tmp_path / "storage")
    layout = Layout(lab.storage, CLUSTER)
    while len(lab("list", "--include", "cli.*")) < len(GROUPS):
        time.sleep(0.5)

    async def snapshot_of_all() -> SnapshotSummary:
        async with connection_client(config_of(kafka41)) as admin:
            return await take_snapshot(admin, layout)

    snapshot = asyncio.run(snapshot_of_all())
    judge(lab.storage, snapshot.snapshot_id, stale=STALE)
    plan = lab.stored("plan", "--include", "cli.*", "--max-share", "1")
    assert sorted(group["group_id"] for group in plan["groups"]) == STALE, plan
    lab.stored("backup", "--plan-id", plan["plan_id"], "--digest", plan["digest"])
    assert lab.stored("explain", STALE[0])["would_be_deleted"] is True
    assert lab.stored("explain", "cli.live")["kept_by"] == ["plan"]

    dry = lab.stored("apply", plan["plan_id"])
    assert (dry["dry_run"], dry["counts"]["would_delete"]) == (True, 2)
    assert len(lab("list", "--include", "cli.*")) == 3

    done = lab.stored("apply", plan["plan_id"], "--digest", plan["digest"], "--yes")
    assert (done["counts"]["deleted"], done["verification"]["gone"]) == (2, 2)
    assert done["lease"]["lost"] is None
    assert [group["group_id"] for group in lab("list", "--include", "cli.*")] == ["cli.live"]
    journal = Journal(layout.base, load_manifest(layout, snapshot.snapshot_id).kafka_cluster_id)
    runs = [(run.begun["dry_run"], sorted(run.intents)) for run in history_before(journal).runs]
    assert runs == [(True, []), (False, STALE)]
    assert lab.stored("explain", STALE[0])["kept_by"] == ["recheck", "journal"]

    assert lab.stored("restore", plan["plan_id"])["counts"]["would_change"] == 2
    assert len(lab("list", "--include", "cli.*")) == 1
    assert lab.stored("restore", plan["plan_id"], "--yes")["counts"]["changed"] == 2
    restored = lab("offsets", *STALE)
    assert {(row["group_id"], row["offset"]) for row in restored} == {(name, at) for name in STALE for at in (3, 4)}
    kept = lab.stored("apply", plan["plan_id"], "--digest", plan["digest"], "--yes", code=3)
    assert kept["kept_reasons"] == {"deleted_before": 2}

    monkeypatch.setenv("AIRFLOW__KAFKA_GROUPS__DRY_RUN_ONLY", "True")
    assert lab.stored("apply", plan["plan_id"], "--digest", plan["digest"], "--yes", code=1) is None


def test_a_connection_of_airflows_database_is_found(lab: CommandLine, kafka41: KafkaCluster) -> None:
    airflow = [str(Path(sys.executable).with_name("airflow"))]
    add = ["connections", "add", "stored", "--conn-type", "kafka_groups", "--conn-host", kafka41.bootstrap]
    for words in (["db", "migrate"], add):
        subprocess.run([*airflow, *words], env=lab.environment, check=True, capture_output=True)
    done = lab.run("list", "--conn-id", "stored", "--include", "cli.live", "-o", "csv")
    assert done.stdout.startswith("group_id,state,type,protocol_type,coordinator\ncli.live,Empty,classic,")
    missing = lab.run("list", "--conn-id", "no_such")
    assert (missing.returncode, missing.stdout) == (2, "")


def test_a_password_is_in_no_output_and_no_process_list(tmp_path: Path) -> None:
    secret = "s3cr3t-of-the-command-line"
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users={"ada": secret}) as cluster:
        lab = CommandLine(tmp_path, cluster.bootstrap)
        config = tmp_path / "client.properties"
        fields = ("bootstrap.servers={}", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN")
        text = "\n".join([*fields, "sasl.username=ada", "sasl.password={}"])
        config.touch(mode=0o600)
        config.write_text(text.format(cluster.sasl_bootstrap, secret))
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow_kafka_groups", "list", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=lab.environment,
        )
        lines = []
        while process.poll() is None:
            lines.append(Path(f"/proc/{process.pid}/cmdline").read_text())
            time.sleep(0.02)
        printed = process.communicate()[0]
        assert process.returncode == 0
        assert any("--config" in line for line in lines)
        config.write_text(text.format(cluster.sasl_bootstrap, f"{secret}-wrong"))
        refused = lab.run("list", "--config", str(config))
        assert refused.returncode == 1
        assert "error: " in refused.stderr
    assert secret not in "".join([*lines, printed, refused.stdout, refused.stderr])
