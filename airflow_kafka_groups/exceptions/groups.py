"""Errors about groups: their partitions, listings, results and memberships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions.client import KafkaGroupsError

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition


class PartitionsFailedError(KafkaGroupsError):
    """Some partitions of a group failed; all others succeeded.

    :param group_id: the group.
    :param partition_errors: the error of each failed partition.
    :param what: the participle for the message "could not be …".
    """

    def __init__(
        self, group_id: str, partition_errors: Mapping[TopicPartition, KafkaGroupsError], what: str = "changed"
    ) -> None:
        first, error = next(iter(partition_errors.items()))
        super().__init__(
            f"group {group_id!r}: {len(partition_errors)} partition(s) could not be {what}, first "
            f"{first.topic}[{first.partition}]: {error}"
        )
        self.group_id = group_id
        self.partition_errors = dict(partition_errors)


class PartitionOffsetsError(PartitionsFailedError):
    """Some partitions of a group could not be read, so its offsets are incomplete.

    :param partial: the offsets that could be read. Never treat them as all offsets of the group.
    """

    def __init__(
        self, group_id: str, partition_errors: Mapping[TopicPartition, KafkaGroupsError], partial: GroupOffsets
    ) -> None:
        super().__init__(group_id, partition_errors, "read")
        self.partial = partial


class PartlyDeletedError(KafkaGroupsError):
    """Committed offsets of a group were, or may have been, deleted, but the group was not.

    :param group_id: the group.
    :param error: the error that stopped the deletion.
    """

    def __init__(self, group_id: str, error: KafkaGroupsError) -> None:
        super().__init__(f"group {group_id!r} lost committed offsets but was not deleted: {error}")
        self.group_id = group_id
        self.error = error


class EmptyGroupsNotListedError(KafkaGroupsError):
    """A product lists groups with members only, so its listings are never complete.

    :param product: its name.
    """

    def __init__(self, product: str) -> None:
        super().__init__(
            f"{product} lists groups with members only, so none can be found stale or be selected by a pattern: "
            "name the groups"
        )


class IncompleteListingError(KafkaGroupsError):
    """A listing may lack groups.

    A broker did not answer, a partition of ``__consumer_offsets`` has no leader, has just moved or could not be
    loaded by its leader, or the product lists no empty groups.
    """

    def __init__(self, errors: Mapping[Any, KafkaGroupsError]) -> None:
        partitions = [where for where in errors if isinstance(where, tuple)]
        of_product = {str(error) for error in errors.values() if isinstance(error, EmptyGroupsNotListedError)}
        brokers = [
            f"broker {where}: {error}"
            for where, error in errors.items()
            if not isinstance(where, tuple) and not isinstance(error, EmptyGroupsNotListedError)
        ]
        reasons = [*of_product]
        reasons += [f"{len(brokers)} broker(s) did not answer: {'; '.join(sorted(brokers))}"] if brokers else []
        named = {where: getattr(errors[where], "name", "") for where in partitions}
        moved = [where for where in partitions if named[where] == "NOT_LEADER_OR_FOLLOWER"]
        leaderless = [where for where in partitions if named[where] == "LEADER_NOT_AVAILABLE"]
        not_loaded = [where for where in partitions if where not in (*moved, *leaderless)]
        for some, what in (
            (leaderless, "partition(s) have no leader, so no broker lists their groups"),
            (moved, "partition(s) moved to another broker while groups were listed"),
            (not_loaded, "partition(s) are coordinated by no broker: look for their names in the log of their leader"),
        ):
            if some:
                reasons.append(f"{len(some)} {what}: {', '.join(f'{topic}-{number}' for topic, number in some)}")
        super().__init__(f"groups may be missing; {'; '.join(reasons)}")
        self.errors: dict[int | TopicPartition, KafkaGroupsError] = dict(errors)


class UnexpectedGroupTypeError(KafkaGroupsError):
    """A group has a type that the call excludes; it was not changed.

    :param group_id: the group.
    :param group_type: its type.
    """

    def __init__(self, group_id: str, group_type: str) -> None:
        super().__init__(f"{group_id!r} is a {group_type} group; add its type to 'types' to delete it")
        self.group_id = group_id
        self.group_type = group_type


def _cut(text: str, most: int = 200) -> str:
    """Return a long text without its middle: a group id can have 32,767 characters, and errors begin with it."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


class GroupsFailedError(KafkaGroupsError):
    """Some groups of a call failed. The message names the first three, ``errors`` has all that the caller knows.

    :param failed: how many failed, where ``errors`` has the first ones only. Default: as many as it has.
    """

    def __init__(self, errors: Mapping[str, KafkaGroupsError], total: int, failed: int | None = None) -> None:
        some = list(errors.items())[:3]
        first = "; ".join(f"{_cut(group_id)!r}: {_cut(str(error), 1_000)}" for group_id, error in some)
        count = len(errors) if failed is None else failed
        more = f"; and {count - 3} more" if count > 3 else ""
        super().__init__(f"{count} of {total} failed: {first}{more}")
        self.errors = dict(errors)


class MembershipError(KafkaGroupsError):
    """The process is not, or no longer, a member of a group.

    :param group_id: the group.
    :param reason: what happened, as a sentence.
    """

    def __init__(self, group_id: str, reason: str) -> None:
        super().__init__(f"group {group_id!r}: {reason}")
        self.group_id = group_id
        self.reason = reason


class InvalidAssignmentError(MembershipError):
    """An assignment lacks members or names unknown ones; none of it was sent.

    :param missing: members without an entry, not even an empty one.
    :param invented: member ids that are not in the group.
    """

    def __init__(self, group_id: str, missing: Iterable[str], invented: Iterable[str]) -> None:
        self.missing = tuple(sorted(missing))
        self.invented = tuple(sorted(invented))
        wrong = [f"lacks {', '.join(self.missing)}"] if self.missing else []
        wrong += [f"has unknown members {', '.join(self.invented)}"] if self.invented else []
        super().__init__(group_id, f"perform_assignment() {' and '.join(wrong)}; return exactly one entry per member")


class CallbackFailedError(MembershipError):
    """A callback of a member raised; its error is the cause."""


class LeaseNotAcquiredError(MembershipError, TimeoutError):
    """The lease could not be acquired in time; names the holder if it is known."""


class LeaseLostError(MembershipError):
    """The lease is no longer confirmed; the work it protects must stop."""
