"""What a deletion is asked for, by whom, within which limits, and whom it reports to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.checks import check_integer, check_number, check_seconds
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.ledger.outcomes import GroupOutcome
from airflow_kafka_groups.storage.layout import Clock, Progress, ignore_progress, utc_now

CHUNK_SIZE = 2_000
MAX_READ_AGE_SECONDS = 15.0
MAX_DELETE_SECONDS = 30.0


def _ignore(_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionObserver:
    """Receives what a deletion has to say while it runs. By default, all of it is ignored.

    :param progress: receives how far a stage is.
    :param concluded: receives the outcomes of a chunk, as soon as they are known.
    :param warning: receives what went wrong with the run as a whole.
    :param not_recorded: receives the record of a run that the storage refused: keep it, for what was deleted must be
        known.
    :param notice: receives what is worth a line in the log, such as a pause.
    :param why_stop: returns why the groups that are left are to be kept, ``None`` to go on. Asked before each chunk is
        read, before each intent, and each second of a pause.
    """

    progress: Progress = ignore_progress
    concluded: Callable[[Sequence[GroupOutcome]], None] = _ignore
    warning: Callable[[str], None] = _ignore
    not_recorded: Callable[[Mapping[str, Any]], None] = _ignore
    notice: Callable[[str], None] = _ignore
    why_stop: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionLimits:
    """Bounds of a deletion.

    :param chunk_size: the most groups that are read and deleted together, at least 1; fewer where they have many
        offsets or brokers are slow. Each chunk costs two entries of the journal. Default 2,000.
    :param max_read_age_seconds: age of a group's reading, in seconds, after which no request to delete it leaves: the
        check of types, retries and the journal's entry included. Default 15.
    :param max_delete_seconds: how long one delete request is waited for, in seconds. Default 30.
    :param groups_per_second: the most groups deleted a second, on average. Default: no limit.
    :param bytes_per_second: the most bytes a second that brokers write for it, on average and before replication,
        estimated from the number of offsets. Default: no limit.
    """

    chunk_size: int = CHUNK_SIZE
    max_read_age_seconds: float = MAX_READ_AGE_SECONDS
    max_delete_seconds: float = MAX_DELETE_SECONDS
    groups_per_second: float | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        check_integer("chunk_size", self.chunk_size, 1, "give a whole number of groups, at least 1")
        check_seconds("max_read_age_seconds", self.max_read_age_seconds)
        check_seconds("max_delete_seconds", self.max_delete_seconds)
        for name in ("groups_per_second", "bytes_per_second"):
            rate = getattr(self, name)
            if rate is not None and check_number(name, rate) <= 0:
                raise ConfigurationError(name, rate, "give a number above 0, or leave it out for no limit")


def protect_none(group_id: str) -> bool:
    """Protect no group: the default where no connection says otherwise."""
    return False


def no_lease() -> AbstractAsyncContextManager[LeaseGuard | None]:
    """Take no lease: another run may delete at the same time."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """One try of a deletion.

    :param request_id: what all tries of this deletion have in common, such as the DAG run and task. A group that one of
        them deleted, possibly deleted or found in use is kept by the others. A plan's deletion goes by the plan's id.
    :param dry_run: make the checks of each group and delete nothing.
    :param actor: who: DAG run, task, user. Strings only; recorded.
    :param protects: whether the connection protects a group.
    :param lease: takes the cluster's lease, from ``deletion_lease()``. Default: none.
    :param lease_group_id: the group of that lease; others like it on the cluster are a warning. Default: not compared.
    :param observer: receives progress, outcomes and warnings.
    :param now: returns the time of day.
    :param monotonic: returns seconds that only grow, also while the machine sleeps: what was read before is old then.
    """

    request_id: str
    dry_run: bool
    actor: Mapping[str, str] = field(default_factory=dict)
    protects: Callable[[str], bool] = protect_none
    lease: Callable[[], AbstractAsyncContextManager[LeaseGuard | None]] = no_lease
    lease_group_id: str | None = None
    observer: DeletionObserver = field(default_factory=DeletionObserver)
    limits: DeletionLimits = field(default_factory=DeletionLimits)
    now: Clock = utc_now
    monotonic: Callable[[], float] = clock.now
