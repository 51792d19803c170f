"""Look again after a deletion: gone is what a complete listing lacks and its coordinator does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, is_not_found
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState
from airflow_kafka_groups.ledger.outcomes import CONFIRMED, PARTLY_DELETED, DeletionReport, GroupOutcome, Outcome
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.observe.readings import committed_of, read_groups
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_seen

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of looking for groups that should be gone.

    :param gone: proven to be gone.
    :param present: groups that are there, with what is known of them.
    :param unclear: groups of which nobody could say, with the reason.
    :param errors: what brokers answered in place of a listing or a description.
    :param changed: those of ``present`` that are not known to have the offsets still that they were judged by.
    """

    gone: tuple[str, ...]
    present: Mapping[str, str]
    unclear: Mapping[str, str]
    errors: tuple[Exception, ...] = ()
    changed: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether every group is proven to be gone."""
        return not self.present and not self.unclear

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"gone": len(self.gone), "present": dict(self.present), "unclear": dict(self.unclear)}


async def verify_deleted(admin: AdminClient, group_ids: Iterable[str]) -> Verification:
    """Look for groups that should be gone. Raises only if the cluster cannot be reached at all."""
    ids = check_group_ids(group_ids, allow_empty=True)
    gone: list[str] = []
    present: dict[str, str] = {}
    unclear: dict[str, str] = {}
    if not ids:
        return Verification(gone=(), present={}, unclear={})
    listings = await admin.list_groups()
    errors: list[Exception] = list(listings.errors.values())
    for start in range(0, len(ids), _AT_ONCE):
        chunk = ids[start : start + _AT_ONCE]
        described = await admin.describe_consumer_groups(chunk)
        errors += described.failed.values()
        for group_id in chunk:
            there, doubt = _look(group_id, listings, described.get(group_id))
            if there is not None:
                present[group_id] = there
            elif doubt is not None:
                unclear[group_id] = doubt
            else:
                gone.append(group_id)
    return Verification(gone=tuple(gone), present=present, unclear=unclear, errors=tuple(errors))


async def verify_targets(admin: AdminClient, targets: Sequence[Target]) -> Verification:
    """Look for what should be gone: groups, or what groups have committed of topics.

    Groups that are there and changed are named: their team may have recreated them. Raises ``KafkaGroupsError``.
    """
    if any(target.topic is not None for target in targets):
        return await _verify_topics(admin, targets)
    found = await verify_deleted(admin, [target.name for target in targets])
    then = {target.name: target.fingerprint for target in targets if target.name in found.present}
    read = await committed_of(admin, list(then)) if then else {}
    now = {group_id: result.value for group_id, result in read.items()}
    changed = (group_id for group_id, value in now.items() if value is None or fingerprint(value) != then[group_id])
    return replace(found, changed=frozenset(changed))


async def _verify_topics(admin: AdminClient, targets: Sequence[Target]) -> Verification:
    readings = await read_groups(admin, list(dict.fromkeys(target.group_id for target in targets)))
    gone, present, unclear, changed = list[str](), dict[str, str](), dict[str, str](), set[str]()
    for target in targets:
        reading, name = readings[target.group_id], target.name
        group, committed = reading.group, reading.committed
        if committed is None:
            unclear[name] = str(None if reading.offsets is None else reading.offsets.error)
        elif left := committed_partitions(part := target.part_of(committed)):
            present[name] = f"{left} partition(s) have a committed offset"
            if fingerprint(part) != target.fingerprint:
                changed.add(name)
        elif group is not None and target.topic in topics_seen(group):
            unclear[name] = (
                "its offsets are gone, and a member subscribes to it by now, which may have started at another place"
            )
        else:
            gone.append(name)
    return Verification(gone=tuple(gone), present=present, unclear=unclear, changed=frozenset(changed))


def settle(report: DeletionReport, verification: Verification, what: str = "group(s)") -> DeletionReport:
    """Correct a report by what was found: unknown outcomes become known, and what is back becomes a warning."""
    gone = frozenset(verification.gone)
    outcomes = tuple(_settled(item, gone, verification) for item in report.outcomes)
    warnings = list(report.warnings)
    back = [item.group_id for item in report.outcomes if item.outcome is Outcome.DELETED]
    back = [group_id for group_id in back if group_id in verification.present]
    if back:
        warnings.append(
            f"{len(back)} deleted {what} are there again, first {back[0]!r} ({verification.present[back[0]]}): "
            "somebody uses them, and their offsets are in the backup"
        )
    if verification.unclear:
        group_id, doubt = next(iter(verification.unclear.items()))
        warnings.append(f"{len(verification.unclear)} {what} could not be verified, first {group_id!r}: {doubt}")
    return replace(report, outcomes=outcomes, warnings=tuple(warnings))


def _settled(item: GroupOutcome, gone: frozenset[str], verification: Verification) -> GroupOutcome:
    if item.outcome is not Outcome.UNKNOWN:
        return item
    if item.group_id in gone:
        return replace(item, **CONFIRMED)
    if item.group_id in verification.present:
        state = verification.present[item.group_id]
        if item.code == PARTLY_DELETED:
            return item  # it is there without its offsets: to call that "not deleted" would hide the loss
        if item.group_id in verification.changed:  # it may have been deleted, and recreated by its team
            reason = f"it is there ({state}), and not known to have the offsets that it had: {item.reason}"
            return replace(item, reason=reason)
        reason = f"not deleted ({state}): {item.reason}"
        return replace(item, outcome=Outcome.FAILED, code="still_there", reason=reason)
    return item


def _look(
    group_id: str, listings: GroupListings, described: GroupResult[GroupDescription] | None
) -> tuple[str | None, str | None]:
    """Return (what exists, what is in doubt); neither means "gone"."""
    listing = listings.get(group_id)
    if listing is not None:
        return f"listed as {listing.type.value}, state {listing.state.value}", None
    if described is None or (described.error is None and described.value is None):
        return None, "its coordinator said nothing about it"
    if described.error is not None and not is_not_found(described.error):
        return None, str(described.error)
    if described.value is not None and described.value.state is not GroupState.DEAD:
        return f"state {described.value.state.value}, {len(described.value.members)} member(s)", None
    if not listings.complete:
        return None, "the listing is not complete"
    return None, None
