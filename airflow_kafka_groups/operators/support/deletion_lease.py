"""On which terms a deletion takes the cluster's lease, and the name by which the others know it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_kafka_groups.operators.support.deleting import DeletingOperator

IF_HELD = ("skip", "fail")
MAX_WAIT_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The terms on which the lease is taken.

    :param wait_seconds: how long a lease that another run holds is waited for.
    :param skip: skip the task when it is held still; else fail it.
    """

    wait_seconds: float
    skip: bool


def read_terms(operator: DeletingOperator, dry_run: bool) -> LeaseTerms | None:
    """Return the terms; ``None`` when no lease is taken: it is switched off, or the run is a dry one."""
    if dry_run or not operator.lease:
        return None
    return LeaseTerms(wait_seconds=operator.lease_wait_seconds, skip=operator.if_lease_held == "skip")


def owner_name(actor: Mapping[str, str], client_id: str) -> str:
    """Name a run so that whoever waits for it can find it: DAG, task, run, host and client id."""
    task = ".".join(actor[name] for name in ("dag_id", "task_id") if name in actor) or "a run outside of Airflow"
    run = f", run {actor['run_id']}" if "run_id" in actor else ""
    return f"{task}{run}, on {socket.gethostname()}, client id {client_id}"
