"""What happened to the groups of a run, compared with what its journal, plans, approvals and backups say.

The truth is in ``__consumer_offsets``, in what workers traced before they acted, and in nothing else.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.change.backup.file import open_backup
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.run_records import RunRecord
from tests.campaign.real.clients import LIVE
from tests.campaign.real.offsets_log import Deleted, GroupTruth, Value, moves
from tests.campaign.real.run import RealRun
from tests.campaign.real.worker import MIN_IDLE
from tests.records import complete_history

WINDOW_S = 15.0
TOLERANCE_S = 0.3
"""Brokers, workers and this process share one clock; records of brokers are stamped in whole milliseconds."""
Offsets = dict[tuple[str, int], Value]


@dataclass(slots=True)
class RealJudge:
    """Judges one run when it has ended."""

    run: RealRun
    found: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    deletions: list[Deleted] = field(default_factory=list)
    _trace: list[dict[str, Any]] = field(default_factory=list)
    _backups: dict[str, dict[str, Offsets]] = field(default_factory=dict)

    def judge(self) -> None:
        """Compare everything, then restore what is deleted and compare that too."""
        run = self.run
        run.cluster.log.sync()
        self._trace = run.trace()
        for line in self._trace:
            if line["what"] == "crashed":
                self._violated("crashed", str(line))
        truths = {**run.cluster.log.groups(run.prefix), **run.cluster.log.groups(LIVE)}
        try:
            history = asyncio.run(self._history())
        except KafkaGroupsError as error:
            self._violated("journal_lies", f"the journal cannot be read: {error}")
            return
        by_group: dict[str, list[tuple[Deleted, RunRecord]]] = {}
        for group_id, truth in truths.items():
            for deleted in truth.deletions:
                by = _run_of(history, deleted)
                if by is None:
                    if not group_id.startswith(LIVE):  # another run's, which judges it
                        self._violated("journal_lies", f"{_shown(deleted)} without an intent")
                        self.deletions.append(deleted)
                    continue
                self.deletions.append(deleted)
                self._judge(deleted, by, truth, by_group.setdefault(group_id, []))
        self._check_outcomes(history, truths)
        self._check_backups(history)
        gone = {id_: by[-1] for id_, by in by_group.items() if not id_.startswith(LIVE) and not truths[id_].has}
        asyncio.run(self._restore(gone))

    def _violated(self, what: str, text: str) -> None:
        self.found[what] += 1
        self.problems.append(f"{what}: {text}")

    async def _history(self) -> DeletionHistory:
        async with self._admin() as admin:
            cluster_id = await admin.cluster_id()
        return await asyncio.to_thread(complete_history, self.run.layout.base, cluster_id)

    def _admin(self) -> MaintenanceClient:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": self.run.cluster.bootstrap})
        return MaintenanceClient(config, ConnectionSettings(conn_id="lab", properties={}))

    def _judge(
        self, deleted: Deleted, by: RunRecord, truth: GroupTruth, earlier: list[tuple[Deleted, RunRecord]]
    ) -> None:
        if deleted.group_id not in by.possibly_deleted():
            self._violated("journal_lies", f"{_shown(deleted)}: {by.outcomes[deleted.group_id]}")
        for before, run in earlier:
            if run.request_id == by.request_id or deleted.at - before.at < MIN_IDLE - TOLERANCE_S:
                self._violated("deleted_twice", f"{_shown(before)} and at {deleted.at:.3f}, by {by.request_id}")
        earlier.append((deleted, by))
        plan = self.run.plans().get(by.request_id)
        worker = int(by.begun["actor"]["worker"])
        read_at = self._read_at(worker, deleted)
        if plan is None or read_at is None or deleted.group_id not in plan["judged_at"]:
            self._violated("live_deleted", f"{_shown(deleted)}: it was never judged, or not read by {by.begun}")
            return
        self._judge_life(deleted, truth, plan["judged_at"][deleted.group_id], plan["at"], read_at)
        if self.run.story.asks and not self._is_approved(deleted, by):
            self._violated("unapproved_deleted", f"{_shown(deleted)} by {by.request_id}")
        self._judge_backup(deleted, by, truth, read_at)

    def _read_at(self, worker: int, deleted: Deleted) -> float | None:
        """Return when the reading by which a group was deleted began."""
        mine = [line for line in self._trace if line["worker"] == worker and deleted.group_id in line.get("groups", ())]
        sent = max((line["at"] for line in mine if line["what"] == "delete" and line["at"] <= deleted.at), default=None)
        if sent is None:
            return None
        # Description and offsets are read at the same time: the earlier of the two counts.
        reads = [line["at"] for line in mine if line["what"] == "read" and line["at"] <= sent]
        began = min((at for at in reads if at > reads[-1] - 1.0), default=None)
        if began is not None and sent - began > WINDOW_S:
            self._violated("live_deleted", f"{_shown(deleted)} by a reading of {began:.3f}")
        return began

    def _judge_life(
        self, deleted: Deleted, truth: GroupTruth, judged_at: float, planned_at: float, read: float
    ) -> None:
        """Check that nobody used the group from the beginning of its idle time until it was read for the last time."""
        since = judged_at - MIN_IDLE + TOLERANCE_S
        seen = [at for at in moves(truth, also_same=False) if since < at < read]
        if self.run.story.reads_commits:  # the log was read when the plan was made
            seen += [at for at in moves(truth, also_same=True) if since < at < min(planned_at, judged_at)]
        if seen:
            self._violated("live_deleted", f"{_shown(deleted)}: used at {seen[-1]:.3f}, judged for {judged_at:.3f}")
        if deleted.group_id in self.run.cluster.clients.live_groups():
            self._violated("live_deleted", f"{_shown(deleted)} had a member")

    def _is_approved(self, deleted: Deleted, by: RunRecord) -> bool:
        """Return whether a person approved it in time, and nobody was asked again before the run began."""
        begun = min((line["at"] for line in self._trace if _is_first_read(line, by)), default=deleted.at)
        approved = False
        for line in self._trace:
            if line.get("plan_id") != by.request_id or line["at"] > begun:
                continue
            if line["what"] == "answered":
                approved = deleted.group_id in line["approved"]
            elif line["what"] == "asked":
                approved = False
        return approved

    def _judge_backup(self, deleted: Deleted, by: RunRecord, truth: GroupTruth, read_at: float) -> None:
        entry = self._backup(by).get(deleted.group_id)
        if entry is None:
            self._violated("deleted_without_backup", f"{_shown(deleted)} by {by.request_id}")
        elif entry != deleted.had and not any(read_at < at <= deleted.at for at in moves(truth, also_same=False)):
            self._violated("restores_different", f"{_shown(deleted)}: it had {deleted.had}, the backup has {entry}")

    def _backup(self, by: RunRecord) -> dict[str, Offsets]:
        plan_id = by.request_id
        if plan_id not in self._backups:
            try:
                groups = list(open_backup(self.run.layout, plan_id)[1])
            except KafkaGroupsError as error:
                self._violated("deleted_without_backup", f"the backup of {plan_id} cannot be read: {error}")
                groups = []
            self._backups[plan_id] = {group.entry.group_id: _values(group.offsets) for group in groups}
        return self._backups[plan_id]

    def _check_outcomes(self, history: DeletionHistory, truths: dict[str, GroupTruth]) -> None:
        for by in history.runs:
            for group_id, outcome in by.outcomes.items():
                if outcome.outcome is not Outcome.DELETED:
                    continue
                since = by.intents[group_id].timestamp() if group_id in by.intents else float("inf")
                truth = truths.get(group_id, GroupTruth())
                times = [deleted.at for deleted in truth.deletions]
                if any(at >= since - TOLERANCE_S or outcome.code == "confirmed" for at in times):
                    continue
                # The broker did confirm it, and what came back is as good as never deleted: nothing is lost.
                if self.run.cluster.may_lose(since) and truth.has == self._backup(by).get(group_id):
                    self.found["confirmed_then_lost"] += 1
                else:
                    self._violated("journal_lies", f"{group_id} is said to be deleted by run {by.number}: {outcome}")

    def _check_backups(self, history: DeletionHistory) -> None:
        for by in history.runs:
            if (groups := by.possibly_deleted()) and (missing := groups.keys() - self._backup(by).keys()):
                self._violated("deleted_without_backup", f"{min(missing)} may be deleted and is not in the backup")

    async def _restore(self, gone: dict[str, tuple[Deleted, RunRecord]]) -> None:
        """Restore what is gone by the backup of the run that deleted it, and compare what the brokers have then."""
        by_plan: dict[str, list[str]] = {}
        for group_id, (_, by) in gone.items():
            if group_id in self._backup(by):
                by_plan.setdefault(by.request_id, []).append(group_id)
        async with self._admin() as admin:
            for plan_id, ids in by_plan.items():
                changes = await RestoreRequest(plan_id=plan_id, group_ids=ids).propose(admin, self.run.layout)
                for result in await apply_changes(admin, changes, dry_run=False, may_be_absent=True):
                    self.run.log.append(f"restored {result}")
        await asyncio.to_thread(self.run.cluster.log.sync)
        now = self.run.cluster.log.groups(self.run.prefix)
        for ids in by_plan.values():
            for group_id in ids:
                self.found["restores_compared"] += 1
                deleted, by = gone[group_id]
                if now[group_id].has != self._backup(by)[group_id]:
                    text = f"{_shown(deleted)}: {deleted.had} was restored as {now[group_id].has}"
                    self._violated("restores_different", text)


def _run_of(history: DeletionHistory, deleted: Deleted) -> RunRecord | None:
    """Return the run with the latest intent before a deletion that it may have sent.

    Of two runs at once, the later intent may be that of the run which then sent nothing. A run is taken for that of a
    consumer's own group only if it is near.
    """
    runs = [(run.intents[deleted.group_id].timestamp(), run) for run in history.runs if deleted.group_id in run.intents]
    earlier = [(at, run) for at, run in runs if at <= deleted.at + TOLERANCE_S]
    if not earlier:
        return None
    sent = [(at, run) for at, run in earlier if deleted.group_id in run.possibly_deleted()]
    at, run = max(sent or earlier, key=lambda item: item[0])
    return None if deleted.group_id.startswith(LIVE) and deleted.at - at > 2 * WINDOW_S else run


def _is_first_read(line: dict[str, Any], by: RunRecord) -> bool:
    return (line["what"], line["worker"]) == ("read", int(by.begun["actor"]["worker"]))


def _values(offsets: Any) -> Offsets:
    return {
        (where.topic, where.partition): Value(
            value.offset, -1 if value.leader_epoch is None else value.leader_epoch, value.metadata
        )
        for where, value in offsets.items()
        if value is not None
    }


def _shown(deleted: Deleted) -> str:
    return f"{deleted.group_id} at {deleted.at:.3f}"
