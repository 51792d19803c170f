"""The short form of the real campaign: a few runs on real brokers and a real S3 server."""

import struct
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.campaign.real.campaign import RealSummary, run_real, site
from tests.campaign.real.judging import _run_of
from tests.campaign.real.offsets_log import Commit, Deleted, GroupTruth, Value, decode
from tests.campaign.real.records import RealRecord, code_digest, read_records, write_record
from tests.campaign.real.story import STORAGES, VERSIONS, RealStory, real_story

RUNS = 4
"""Enough for both versions of Kafka and both storages."""


@pytest.mark.timeout(900)
@pytest.mark.kafka(" and ".join(VERSIONS))
def test_no_real_run_breaks_an_invariant() -> None:
    with site() as place:
        summary = run_real(range(RUNS), place, told=print)
        assert summary.broken == {}, f"python -m tests.campaign.real --runs 1 --seed {min(summary.failing, default=0)}"
        assert (summary.runs, summary.not_run) == (RUNS, {})
        assert set(summary.by) == {*STORAGES, *(f"kafka {version}" for version in VERSIONS)}
        assert summary.deleted > 10 * RUNS, "a campaign that deletes nothing shows nothing"
        assert summary.found["restores_compared"] > RUNS
        assert summary.injected["kill"] > 0


def test_what_could_not_be_run_is_tried_again_and_named() -> None:
    def record(seed: int) -> RealRecord:
        return RealRecord(seed, "new", "4.4.0", "disk", 3, 1.5, Counter(restores_compared=2), Counter(kill=1))

    first, second = RealSummary(), RealSummary()
    first.add(record(1))
    first.not_run[2] = "ConnectionResetError: reset"
    assert first.to_json()["not_run"] == {"2": "ConnectionResetError: reset"}
    second.add(record(2))
    first.merge(second)
    whole = first.to_json()
    assert (whole["runs"], whole["deleted"], whole["restores_compared"], whole["not_run"]) == (2, 6, 4, {})


def test_runs_of_this_code_are_counted_after_an_interruption(tmp_path: Path) -> None:
    file, found = tmp_path / "real-runs.jsonl", Counter(restores_compared=2)
    for seed, code, deleted in ((1, "old", 9), (1, "new", 3), (2, "new", 4), (2, "new", 5), (7, "new", 8)):
        write_record(file, RealRecord(seed, code, "4.4.0", "disk", deleted, 1.5, found, Counter(kill=1)))
    summary = RealSummary()
    for record in read_records(file, "new", range(5)):
        summary.add(record)
    assert (summary.runs, summary.deleted, summary.seconds) == (2, 8, 3.0)
    assert summary.found["restores_compared"] == 4
    assert summary.to_json()["runs_by"] == {"disk": 2, "kafka 4.4.0": 2}
    assert list(read_records(tmp_path / "none", "new", range(5))) == []
    assert len(code_digest()) == 16


def test_a_deletion_is_that_of_the_run_which_sent_it() -> None:
    """Two runs at once: the one with the later intent found that it was overtaken, and sent nothing."""

    def run(at: float, *, sent: bool) -> Any:
        when = {"g": datetime.fromtimestamp(at, UTC)}
        return SimpleNamespace(intents=when, possibly_deleted=lambda: when if sent else {})

    sent, overtaken, later = run(10.0, sent=True), run(10.1, sent=False), run(20.0, sent=True)
    deleted = Deleted("g", 10.2, {})
    for runs, expected in (
        ([overtaken, sent, later], sent),
        ([sent, overtaken], sent),
        ([overtaken, later], overtaken),  # that is a lie of its journal
        ([later], None),
    ):
        assert _run_of(SimpleNamespace(runs=runs), deleted) is expected  # type: ignore[arg-type]


def test_a_story_is_the_same_each_time_and_has_every_kind_of_fault() -> None:
    stories = [real_story(seed) for seed in range(200)]
    assert stories == [real_story(seed) for seed in range(200)]
    steps = [step for story in stories for top in story.steps for step in (top, *(other for _, other in top.beside))]
    assert {step.action for step in steps} >= {"broker", "election", "server", "life", "restore", "delete", "answer"}
    assert {step.kill.call for step in steps if step.kill} >= {"created", "delete", "describe", "alter"}
    assert any(step.workers > 1 for step in steps)
    assert [sum(_uses(story, name) for story in stories) for name in (*STORAGES, *VERSIONS)] == [100] * 4


def _uses(story: RealStory, name: str) -> bool:
    return name in (story.storage, story.version)


def test_commits_and_deletions_are_read_from_the_brokers_records() -> None:
    truth, one, two = GroupTruth(), ("t", 0), ("t", 1)
    for at, where, value in (
        (1.0, one, Value(5, -1, "")),
        (2.0, two, Value(6, 3, "m")),
        (3.0, one, Value(5, -1, "")),  # the same again
        (4.0, one, None),
        (4.0, two, None),
        (5.0, one, Value(5, -1, "")),  # restored
        (6.0, one, None),
    ):
        truth.add("g", at, where, value)
    assert truth.commits == [Commit(1.0, True), Commit(2.0, True), Commit(3.0, False), Commit(5.0, True)]
    assert [(deleted.at, len(deleted.had)) for deleted in truth.deletions] == [(4.0, 2), (6.0, 1)]
    assert truth.has == {}


def test_both_forms_of_a_commit_s_record_are_read() -> None:
    third = struct.pack(">hqih", 3, 7, 2, 4) + b"meta" + struct.pack(">q", 1)
    fourth = struct.pack(">hqi", 4, 7, 2) + b"\x05meta" + struct.pack(">q", 1) + b"\0"
    assert decode(third) == decode(fourth) == Value(7, 2, "meta")
    long = struct.pack(">hqi", 4, 7, 2) + b"\xc9\x01" + b"x" * 200 + struct.pack(">q", 1) + b"\0"
    assert decode(long).metadata == "x" * 200
