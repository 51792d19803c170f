"""Planning a clean-up from what is in the storage: the verdicts on a snapshot, the journal and the site's floors."""

from __future__ import annotations

from airflow_kafka_groups.change.lease import RECENT, other_leases
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.notice import without_notifier
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS
from airflow_kafka_groups.judge.policy.plan_policy import ARGUMENTS_RULE, PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.retention import against_retention
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.audit import read_history
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.notices import read_notices
from airflow_kafka_groups.ledger.records import KeepAliveRecords
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.storage.layout import Layout, StoragePath, utc_now


@collection_paused()
def plan_snapshot(
    layout: Layout,
    policy: PlanPolicy,
    floors: SiteFloors,
    *,
    snapshot_id: str | None,
    lease_group_id: str,
    file: PolicyFile | None = None,
    offsets_retention_minutes: int | None = None,
    trial: bool = False,
    notifies: bool = False,
) -> tuple[DeletionPlan, StoragePath]:
    """Make a plan within the site's floors, and write it; return it with its path.

    :param policy: the limits that were asked for.
    :param floors: what the site demands; it counts for a policy file, too.
    :param snapshot_id: the judged snapshot; ``None`` for the newest complete one.
    :param lease_group_id: the lease of the connection; others on the cluster are a warning.
    :param file: the policy file whose rules decide. Default: none, so that the policy's own idle time counts.
    :param offsets_retention_minutes: the brokers' setting. Default: what the snapshot has of it.
    :param trial: whether it is none of the cluster's runs until it is applied. Default false.
    :param notifies: whether owners are notified, whatever the policy has. Default: by ``PlanPolicy.notify`` only.

    Raises ``PlanError``, ``PolicyError`` for a policy file of other clusters, ``SnapshotError``, ``JournalError``,
    ``StorageError``, or ``MaintenanceError`` for a damaged record of a keep-alive run; no plan is written then.
    """
    bounded, bound = floors.within(policy, file, layout.cluster)
    judged = snapshot_id or latest_manifest(layout, to_judge=True).snapshot_id
    snapshot = SnapshotReader(layout, judged)
    retention = offsets_retention_minutes or snapshot.manifest.offsets_retention_minutes
    notes = [
        *bound,
        *floors.warnings(),
        *_against_retention(bounded, retention, file),
        *(file.warnings if file else ()),
        *([] if notifies else without_notifier(bounded.rules, bounded.notify)),
    ]
    cluster_id = snapshot.manifest.kafka_cluster_id
    history = read_history(layout, cluster_id) if cluster_id else None  # without an id nothing is planned
    kept_alive = KeepAliveRecords(layout, cluster_id).read()  # first: a pruning spares them for the judgement's sake
    verdicts = load_verdicts(layout, judged)
    now = utc_now()
    leases = history.leases(now - RECENT) if history is not None else ()
    others = other_leases([*verdicts.group_ids, *leases], lease_group_id)
    plan = make_plan(
        verdicts,
        snapshot,
        bounded,
        now,
        history=history,
        notes=(*notes, *others),
        owners=NO_OWNERS if file is None else file.owners,
        kept_alive=kept_alive,
        notices=read_notices(layout, cluster_id, bounded.rules),
        trial=trial,
    )
    return plan, save_plan(layout, plan)


def _against_retention(policy: PlanPolicy, retention_minutes: int | None, file: PolicyFile | None) -> list[str]:
    """Return what the brokers' offsets retention means for the policy. Raises ``PlanError`` for what cannot be."""
    places = {ARGUMENTS_RULE: "min_idle_seconds"}
    if file is not None:
        places = {name: f"{place}: rule {name!r}" for name, place in file.places.items()}
    errors, warnings = against_retention(policy.every_rule, retention_minutes, places)
    if errors:
        raise PlanError("\n".join(errors))
    return warnings
