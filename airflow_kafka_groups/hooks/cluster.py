"""The cluster that a connection leads to: what the hook, the operators and the commands do with it; without Airflow.

Airflow's timer of a task (``execution_timeout``) raises wherever the main thread happens to be. In a callback of the
event loop, asyncio takes that for a failure of this one callback, and the timer rings only once: so the call is
cancelled as well.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionObserver, DeletionRequest
    from airflow_kafka_groups.change.deletion.run import DeletionResult
    from airflow_kafka_groups.change.lease import LeaseGuard
    from airflow_kafka_groups.change.restore.change_offsets import ChangeRequest
    from airflow_kafka_groups.change.restore.earlier_tries import Tries
    from airflow_kafka_groups.hooks.connection import ConnectionSettings
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.storage.layout import Layout, Progress

    Deletion = Callable[[MaintenanceClient, DeletionRequest], Awaitable[DeletionResult]]

T = TypeVar("T")


class ConnectedCluster:
    """A cluster that is reached by a connection, under its restrictions. Subclasses have the settings."""

    @property
    def settings(self) -> ConnectionSettings:
        """The settings of the connection. Raises ``ConfigurationError`` naming what is wrong with them."""
        raise NotImplementedError

    def client_config(self) -> ClientConfig:
        """Build the client's configuration. Raises ``ConfigurationError`` naming the invalid field."""
        return self.settings.client_config()

    def get_conn(self) -> MaintenanceClient:
        """Build an ``AdminClient`` for ``async with``; it refuses what a read-only connection or protection forbids."""
        from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

        return MaintenanceClient(self.client_config(), self.settings)

    def run(self, function: Callable[[MaintenanceClient], Awaitable[T]]) -> T:
        """Run an async function with a connected client, and close the client.

        Also works inside a running event loop, in a separate thread while the caller waits.

        :param function: takes the client and returns an awaitable: ``hook.run(lambda admin: admin.list_groups())``.
        """
        client = self.get_conn()  # in the caller's thread, the only one that can read Airflow's connections
        found: list[T] = []  # not the task's result: asyncio.run formats all of that, a second for 60,000 groups

        async def call() -> None:
            if (task := asyncio.current_task()) is not None:
                calls.append((asyncio.get_running_loop(), task))
            async with client as admin:
                found.append(await function(admin))

        with _within_time_limit() as calls:
            if _in_running_loop():
                context = contextvars.copy_context()
                with ThreadPoolExecutor(1, thread_name_prefix="kafka-groups") as pool:
                    pool.submit(context.run, lambda: asyncio.run(call())).result()
            else:
                asyncio.run(call())
        return found[0]

    def lease(self, *, owner: str, wait_seconds: float) -> AbstractAsyncContextManager[LeaseGuard]:
        """Build the lease of this cluster for ``async with``: the right to delete, held by one run at a time.

        :param owner: the name of this run as shown to others, e.g. its run id.
        :param wait_seconds: how long a lease held by another run is waited for.

        Entering raises ``LeaseNotAcquiredError`` naming the holder.
        """
        from airflow_kafka_groups.change.lease import deletion_lease

        group_id = self.settings.lease_group_id
        return deletion_lease(self.client_config(), group_id=group_id, owner=owner, wait_seconds=wait_seconds)

    def change(
        self,
        request: ChangeRequest[T],
        *,
        storage_path: str,
        cluster: str | None = None,
        dry_run: bool = False,
        tries: Tries | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Change committed offsets, remove members or keep groups alive, with all checks and records.

        :param request: of ``airflow_kafka_groups.change``: a ``ResetRequest``, ``SetRequest`` or ``CopyRequest`` of
            ``restore.reset``, a ``RestoreRequest`` of ``restore.from_backup``, a ``DeleteOffsetsRequest`` of
            ``restore.forget``, a ``MigrateRequest`` of ``migrate``, whose ``source`` returns what another
            hook's ``get_conn`` has built before, a ``RemoveMembersRequest`` of ``remove_members``, or a
            ``KeepAliveRequest`` of ``keep_alive``.
        :param storage_path: folder above all clusters: an absolute path or a URL.
        :param cluster: name of the cluster's folder. Default: the connection's id.
        :param dry_run: only return what would be changed. Default false.
        :param tries: which earlier tries are continued. Default: none.
        :param progress: called with (stage, done, total). Default: never.

        The result has ``.summary()``. Raises ``ConfigurationError`` on a read-only connection and for another storage
        than the site's, whose files somebody else may write, and what the request's ``carry_out`` raises.
        """
        from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
        from airflow_kafka_groups.hooks.floors import site_floors
        from airflow_kafka_groups.hooks.storage import open_layout
        from airflow_kafka_groups.storage.layout import ignore_progress

        settings = self.settings
        site_floors(settings, storage_path)
        layout = open_layout(storage_path, cluster, settings.conn_id)
        if not dry_run:
            settings.require_writable()
        terms = ChangeTerms(
            dry_run=dry_run, protects=settings.protects, tries=tries, progress=progress or ignore_progress
        )
        return self.run(lambda admin: request.carry_out(admin, layout, terms))

    def delete(
        self,
        deletion: Deletion,
        *,
        request_id: str,
        dry_run: bool,
        actor: Mapping[str, str],
        owner: str | None,
        lease_wait_seconds: float,
        observer: DeletionObserver,
        limits: DeletionLimits,
    ) -> DeletionResult:
        """Delete groups, or the offsets of topics, with all checks and records; see ``DeletionRequest``.

        :param owner: the name of the run that takes the cluster's lease, which a dry run does not; ``None`` for none.

        Raises ``ConfigurationError`` on a read-only connection, unless it is a dry run, and what ``deletion`` raises.
        """
        from airflow_kafka_groups.change.deletion.request import DeletionRequest, no_lease

        settings = self.settings
        if not dry_run:
            settings.require_writable()
        unleased = owner is None or dry_run
        request = DeletionRequest(
            request_id=request_id,
            dry_run=dry_run,
            actor=actor,
            protects=settings.protects,
            lease=no_lease if unleased else partial(self.lease, owner=str(owner), wait_seconds=lease_wait_seconds),
            lease_group_id=settings.lease_group_id,
            observer=observer,
            limits=limits,
        )
        return self.run(lambda admin: deletion(admin, request))

    def deletion_by_name(self, layout: Layout, floors: SiteFloors, given: Any) -> Deletion:
        """Return what deletes groups by name: those of a task or parsed options, which say how, too."""
        from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name

        names = ("observe_seconds", "allow_hidden_topics", "ignore_missing", "ignore_signs_of_life")
        how: dict[str, Any] = {name: getattr(given, name) for name in names}
        how |= {"types": given.types or (), "protected": self.settings.kept_patterns, "floors": floors}
        return lambda admin, request: delete_by_name(admin, layout, given.group_ids, request, **how)


def deletion_by_plan(
    layout: Layout,
    floors: SiteFloors,
    plan_id: str,
    digest: str,
    approval: ApprovalTerms | None = None,
    *,
    prunes: bool = False,
) -> Deletion:
    """Return what deletes what a plan names, groups or topics (``prunes``); its policy file is read before."""
    from airflow_kafka_groups.change.deletion.run import delete_by_plan
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.ledger.deletion_plan import policy_of_plan

    policy = policy_reader(policy_of_plan(layout, plan_id, prunes=prunes))
    how: dict[str, Any] = {"prunes": prunes, "approval": approval, "floors": floors, "policy": policy}
    return lambda admin, request: delete_by_plan(admin, layout, plan_id, digest, request, **how)


def _in_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _within_time_limit() -> Iterator[list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]]:
    """Provide the list of the calls that the time limit of the task cancels; raise what its timer raised."""
    calls: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    handler = signal.getsignal(signal.SIGALRM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield calls  # no limit, or one of another thread
        return
    raised: list[BaseException] = []

    def ring(*signal_and_frame: Any) -> None:
        for loop, task in calls:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        try:
            handler(*signal_and_frame)
        except BaseException as exc:
            raised.append(exc)
            raise

    signal.signal(signal.SIGALRM, ring)
    try:
        yield calls
    finally:
        signal.signal(signal.SIGALRM, handler)
        if raised:
            raise raised[0] from None
