"""Tasks share out the parts of a job on real brokers: each part once, also when one of them dies."""

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_kafka_groups.kafka import KafkaGroupMember
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster

PARTS = 24


kafka = each_of("kafka41", "kafka28")


class Job:
    """A job whose parts leave a file each, and that records who worked on which."""

    def __init__(self, kafka: KafkaCluster, group_id: str, folder: Path) -> None:
        self.kafka = kafka
        self.group_id = group_id
        self.folder = folder
        self.begun: list[tuple[str, int]] = []
        self.met = threading.Barrier(2, timeout=60)

    def member(self) -> KafkaGroupMember:
        return KafkaGroupMember(
            config_of(self.kafka), group_id=self.group_id, parts=PARTS, is_done=self.is_done, session_timeout=6
        )

    def is_done(self, part: int) -> bool:
        return (self.folder / str(part)).exists()

    def work(self, name: str, seconds: float = 0.01, together: int = 0) -> None:
        """Take part; finish no part before so many tasks have begun one."""
        deadline = time.monotonic() + 60
        with self.member() as member:
            for part in member.assigned_parts():
                self.begun.append((name, part))
                time.sleep(seconds)
                while together and len({worker for worker, _ in self.begun}) < together and time.monotonic() < deadline:
                    time.sleep(0.05)
                (self.folder / str(part)).touch()


def test_each_part_is_done_once_and_all_have_a_share(kafka: KafkaCluster, tmp_path: Path) -> None:
    job = Job(kafka, "shares-three", tmp_path)
    with ThreadPoolExecutor(3) as pool:
        for run in [pool.submit(job.work, name, together=3) for name in "abc"]:
            run.result()
    assert Counter(part for _, part in job.begun) == Counter(range(PARTS)), "no part twice, none left out"
    assert {name for name, _ in job.begun} == set("abc")
    job.work("late")  # as when there is one slot for all: it finds everything done
    assert len(job.begun) == PARTS


def test_what_a_task_that_died_was_at_is_done_by_another(kafka: KafkaCluster, tmp_path: Path) -> None:
    job = Job(kafka, "shares-death", tmp_path)

    def die() -> None:
        with job.member() as member:
            for part in member.assigned_parts():
                job.begun.append(("dead", part))
                job.met.wait()
                break  # in the midst of its part
            assert member._session is not None
            assert member._loop is not None
            # Gone without a word, as a process that was killed is.
            asyncio.run_coroutine_threadsafe(member._session.aclose(leave=False), member._loop).result(30)

    with ThreadPoolExecutor(2) as pool:
        dead = pool.submit(die)
        job.met.wait()
        pool.submit(job.work, "heir").result()
        dead.result()
    ((_, lost),) = [one for one in job.begun if one[0] == "dead"]
    assert ("heir", lost) in job.begun
    assert Counter(part for name, part in job.begun if name == "heir") == Counter(range(PARTS))


def test_a_task_that_runs_out_of_parts_takes_over_what_the_leader_has_not_begun(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    job = Job(kafka, "shares-idle", tmp_path)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(job.work, "slow", 1.0)
        while not job.begun:  # the first one leads, and goes on leading
            time.sleep(0.05)
        pool.submit(job.work, "fast", 0.0).result()
        slow.result()
    assert Counter(part for _, part in job.begun) == Counter(range(PARTS))
    done = Counter(name for name, _ in job.begun)
    assert done["fast"] > 13, f"half of what was free at first, and then half of what is left, again and again: {done}"
