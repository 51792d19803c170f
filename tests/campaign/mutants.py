"""Guards taken out one at a time: each mutant removes one, and the campaign has to notice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from airflow_kafka_groups.change import lease
from airflow_kafka_groups.change.deletion import chunk_loop, recheck, run, verify
from airflow_kafka_groups.change.deletion.guards import exclusions
from airflow_kafka_groups.change.deletion.verify import Verification
from airflow_kafka_groups.change.plan import abandoned_topics, objections
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.ledger import history, journal, outcomes, plan_rows, run_records
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.settled_runs import SettledRuns
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.manifest import BrokerClocks
from airflow_kafka_groups.storage.object_store import OBJECTS
from tests.campaign import actions

Patch = tuple[object, str, Any]


def _always(value: Any) -> Callable[..., Any]:
    return lambda *arguments, **more: value


_nothing, _no, _yes = _always(None), _always(False), _always(True)
_no_text, _none = _always(""), _always(())


def _no_runs(self: Any) -> SettledRuns:
    self.settled, self.ended = SettledRuns(), []
    return SettledRuns()


def _no_mapping(*arguments: Any, **more: Any) -> dict[str, Any]:
    return {}


def _read_by_luck(path: Any, start: int | None = None, end: int | None = None) -> bytes | None:
    """Read a file as code does that takes every error for absence."""
    try:
        return bytes(path.fs.cat_file(path.path, start, end))
    except Exception:  # noqa: BLE001  # this is what is removed
        return None


def _replace_object(path: Any, data: bytes, **how: bool) -> None:
    path.fs.pipe_file(path.path, data, mode="overwrite")


async def _at_once(*arguments: Any) -> None:
    return None


async def _work(self: Any, work: Callable[[], Any]) -> Any:
    return await work()


async def _all_gone(admin: Any, group_ids: Any) -> Verification:
    return Verification(gone=tuple(group_ids), present={}, unclear={})


def _certain(outcome: Any) -> bool:
    return outcome.outcome is Outcome.DELETED


def _no_resets(self: Any, request_id: str | None = None) -> dict[str, Any]:
    return {} if request_id is None else _RESETS(self, request_id)


def _only_other_plans(self: Any, request_id: str | None = None) -> dict[str, Any]:
    return _RESETS(self) if request_id is None else {}


_RESETS = history.DeletionHistory.idle_resets
_OF_DELETION = outcomes.of_deletion
_KEEP_BY_VERDICT = objections.keep_by_verdict


def _optimistic(group_id: str, error: Any) -> Any:
    return _OF_DELETION(group_id, error if error is None or hasattr(error, "name") else None)


def _trusting(verdict: Any, ruling: Any, patterns: Any) -> Any:
    return _KEEP_BY_VERDICT(verdict, ruling, patterns) if verdict.verdict != "stale" else None


MUTANTS: dict[str, tuple[Patch, ...]] = {
    "the journal's intents count for nothing": ((run_records, "_may_be_deleted", _certain),),
    "no intent is written": ((journal.RunJournal, "intend", _nothing),),
    "the folded log forgets runs": ((history.FoldedRuns, "settle", _no_runs),),
    "proof of life is forgotten": ((run_records.RunRecord, "lives", _none),),
    "fingerprints are not compared": ((recheck, "_by_offsets", _nothing),),
    "group epochs are not compared": ((plan_rows.Target, "has_moved_on", _no),),
    "members are not looked at": ((recheck, "_by_life", _nothing),),
    "the backup is not looked into": ((recheck, "_by_backup", _nothing),),
    "every error is taken for absence": ((FILES, "read", _read_by_luck),),
    "files are not created exclusively": ((OBJECTS, "create", _replace_object), (FILES, "is_exclusive", _yes)),
    "the approval is not read": ((run, "require_approval", _nothing),),
    "the approver's exceptions are dropped": ((run, "exclude", _no_mapping),),
    "idle times are not reset": ((history.DeletionHistory, "idle_resets", _no_resets),),
    "a plan may delete a group again": ((history.DeletionHistory, "idle_resets", _only_other_plans),),
    "a reading never grows old": ((actions, "LIMITS", replace(actions.LIMITS, max_read_age_seconds=1e9)),),
    "later runs are not looked for": ((journal.RunJournal, "overtaken", _no),),
    "no run notices another": (
        (journal.RunJournal, "overtaken", _no),
        (lease.LeaseGuard, "why_lost", _at_once),
        (lease.LeaseGuard, "prove", _at_once),
        (lease.LeaseGuard, "run_while_held", _work),
    ),
    "the coordinator is not asked before a request": ((lease.LeaseGuard, "prove", _at_once),),
    "signs of life do not keep what is named": ((exclusions.NamedSigns, "alive", _no_mapping),),
    "every listing is complete": ((GroupListings, "complete", property(lambda self: True)),),
    "all types may be deleted": ((recheck, "_by_kind", _nothing),),
    "nothing is verified": ((verify, "verify_deleted", _all_gone),),
    "lost answers are believed": ((chunk_loop, "of_deletion", _optimistic),),
    "the plan trusts the judge": ((objections, "keep_by_verdict", _trusting),),
    "the plan does not look at the snapshot": ((objections, "doubt", _nothing),),
    "clocks of brokers are not compared": ((BrokerClocks, "why_off", _no_text),),
}


PRUNING_MUTANTS: dict[str, tuple[Patch, ...]] = {
    "pruning: subscriptions are not looked at": ((recheck, "_by_subscription", _nothing),),
    "pruning: fingerprints are not compared": ((recheck, "_by_offsets", _nothing),),
    "pruning: the backup is not looked into": ((recheck, "_by_backup", _nothing),),
    "pruning: newer snapshots are not read": ((run, "in_use_since", _no_mapping),),
    "pruning: the journal counts for nothing": ((run, "kept_by_records", _no_mapping),),
    "pruning: snapshots show no life": ((abandoned_topics, "sign_of_life", _nothing),),
    "pruning: a reading never grows old": ((actions, "LIMITS", replace(actions.LIMITS, max_read_age_seconds=1e9)),),
    "pruning: no intent is written": ((journal.RunJournal, "intend", _nothing),),
}
"""Guards of prunings, which only histories that prune can find."""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Remove one guard."""
    patches = [patch.object(target, attribute, new) for target, attribute, new in (MUTANTS | PRUNING_MUTANTS)[name]]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
