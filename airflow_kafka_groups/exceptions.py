"""Every error this package raises, in one tree.

::

    KafkaGroupsError
    ├── ConfigurationError            bad input: names the field, the value and the remedy (also a ValueError)
    ├── LocalProtocolError            we asked for something that cannot be asked
    │   └── UnsupportedVersionError   the broker is too old (or too new) for the request
    │       └── NoBatchedRequestError a request for many keys, at a version that takes one (caught by the fallback)
    │           ├── NoBatchedFindCoordinatorsError   KIP-699
    │           └── NoBatchedOffsetFetchError        KIP-709
    ├── ConnectionFailedError         no usable connection to one broker (also a ConnectionError)
    │   ├── AuthenticationFailedError SASL or TLS refused us: retrying does not help
    │   └── NoBrokerAvailableError    none of the bootstrap servers could be used
    ├── RequestTimeoutError           one request was not answered in time (also a TimeoutError)
    ├── DeadlineExceededError         the whole call ran out of time before this key was done (also a TimeoutError)
    ├── RemoteProtocolError           the broker's answer does not make sense
    │   └── MissingAnswerError        the broker left out a key it was asked for
    ├── BrokerError                   the broker answered with an error code
    ├── OutcomeUnknownError           a change was sent and its answer was lost: it may or may not have happened
    ├── PartitionsFailedError         some partitions of a group failed; it says which, and why
    │   └── PartitionOffsetsError     some of them could not be read; it carries the others
    ├── PartlyDeletedError            a group lost offsets and was not deleted; the cause says why
    ├── UnexpectedGroupTypeError      a group is of a type that the call was not asked to touch
    ├── IncompleteListingError        some brokers did not answer a listing that has to be complete
    ├── GroupsFailedError             raised by ``raise_for_errors()``: some groups of a call failed
    ├── MembershipError               a membership could not begin, or has come to its end; names the group
    │   ├── InvalidAssignmentError    as leader, this member left members out, or invented some
    │   ├── CallbackFailedError       the member's own code raised; its error is the cause
    │   ├── LeaseNotAcquiredError     another holds the lease (also a TimeoutError)
    │   └── LeaseLostError            the lease is not certainly held any more: stop
    └── MaintenanceError              snapshot, plan, backup and deletion
        ├── SnapshotError             a snapshot is missing, empty or half written
        ├── PlanError                 a plan is not fit to be applied
        ├── BackupError               a backup is missing or does not hold what it should
        ├── JournalError              the journal of deletions is damaged, or was written by somebody else meanwhile
        └── StorageError              a file could not be read, written or listed
            └── FileExistsAlreadyError  the file that was to be created exists

Errors never carry a configuration or a secret; they carry the broker, the API and the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_kafka_groups.models import GroupOffsets, TopicPartition


class KafkaGroupsError(Exception):
    """Be the base of every error of this package."""


class ConfigurationError(KafkaGroupsError, ValueError):
    """Refuse bad input before anything is touched.

    :param field: name of the field or argument, as the user typed it.
    :param value: what was given; pass ``None`` for a secret, so that it is not shown.
    :param remedy: what to do about it, as a sentence.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = "" if value is None else f" (got {_shorten(value)})"
        super().__init__(f"{field}{shown}: {remedy}")
        self.field = field
        self.remedy = remedy


class LocalProtocolError(KafkaGroupsError):
    """Say that a request cannot be made as asked."""


class UnsupportedVersionError(LocalProtocolError):
    """Say that the broker and this client share no usable version of an API."""


class NoBatchedRequestError(UnsupportedVersionError):
    """Say that several keys cannot share one request at the broker's version; ask one by one instead."""


class NoBatchedFindCoordinatorsError(NoBatchedRequestError):
    """Say that the broker cannot look up coordinators in batches (FindCoordinator below v4, KIP-699)."""


class NoBatchedOffsetFetchError(NoBatchedRequestError):
    """Say that the broker cannot fetch offsets of many groups at once (OffsetFetch below v8, KIP-709)."""


class ConnectionFailedError(KafkaGroupsError, ConnectionError):
    """Say that a broker could not be reached or hung up.

    :param address: ``host:port`` of the broker.
    :param reason: what happened, in a sentence a user understands.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class AuthenticationFailedError(ConnectionFailedError):
    """Say that the broker refused the credentials or the TLS handshake; retrying does not help."""


class NoBrokerAvailableError(ConnectionFailedError):
    """Say that none of the bootstrap servers could be used, with the reason for each.

    :param address: all of them.
    :param reason: what happened; it names them.
    """

    def __init__(self, address: str, reason: str) -> None:
        KafkaGroupsError.__init__(self, reason)
        self.address = address
        self.reason = reason


class RequestTimeoutError(KafkaGroupsError, TimeoutError):
    """Say that one request was not answered within its timeout."""


class DeadlineExceededError(KafkaGroupsError, TimeoutError):
    """Say that a call's deadline passed before this key was done, and what it was waiting for."""


class RemoteProtocolError(KafkaGroupsError):
    """Say that a broker's answer cannot be understood."""


class MissingAnswerError(RemoteProtocolError):
    """Say that the broker's answer leaves out a key it was asked for."""


class BrokerError(KafkaGroupsError):
    """Carry an error code a broker answered with.

    :param code: Kafka's error code, e.g. 68.
    :param name: Kafka's name of it, e.g. ``NON_EMPTY_GROUP``.
    :param description: what the code means, or the broker's own message where it sent one.
    :param api: name of the API that was asked.
    :param broker_id: node id of the broker that answered, ``None`` if not known.
    :param subject: the group, partition or key it is about.
    """

    def __init__(
        self, code: int, name: str, description: str, *, api: str, broker_id: int | None = None, subject: str = ""
    ) -> None:
        where = "" if broker_id is None else f" from broker {broker_id}"
        about = f" for {subject}" if subject else ""
        super().__init__(f"{api}{about}: {name} ({code}){where}: {description}")
        self.code = code
        self.name = name
        self.description = description
        self.api = api
        self.broker_id = broker_id
        self.subject = subject


class OutcomeUnknownError(KafkaGroupsError):
    """Say that a change was sent but its answer was lost: look again before you decide anything."""


class PartitionsFailedError(KafkaGroupsError):
    """Say which partitions of a group failed; those that are not named succeeded.

    :param group_id: the group.
    :param partition_errors: the error of each partition that failed.
    :param what: what was to be done with them, as the end of "could not be".
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
    """Say that some partitions of a group could not be read, so its offsets are not complete.

    :param partial: the offsets that could be read. Never take them for the whole group.
    """

    def __init__(
        self, group_id: str, partition_errors: Mapping[TopicPartition, KafkaGroupsError], partial: GroupOffsets
    ) -> None:
        super().__init__(group_id, partition_errors, "read")
        self.partial = partial


class PartlyDeletedError(KafkaGroupsError):
    """Say that committed offsets of a group were, or may have been, deleted, and the group itself was not.

    :param group_id: the group.
    :param error: what ended it.
    """

    def __init__(self, group_id: str, error: KafkaGroupsError) -> None:
        super().__init__(f"group {group_id!r} has lost committed offsets, and was not deleted: {error}")
        self.group_id = group_id
        self.error = error


class IncompleteListingError(KafkaGroupsError):
    """Say that some brokers did not answer, so that groups may be missing from a listing."""

    def __init__(self, errors: Mapping[int, KafkaGroupsError]) -> None:
        listed = "; ".join(f"broker {broker_id}: {error}" for broker_id, error in sorted(errors.items()))
        super().__init__(f"{len(errors)} broker(s) did not answer, so groups may be missing: {listed}")
        self.errors = dict(errors)


class UnexpectedGroupTypeError(KafkaGroupsError):
    """Say that a group is of a type that was not to be touched; nothing was done to it.

    :param group_id: the group.
    :param group_type: its type.
    """

    def __init__(self, group_id: str, group_type: str) -> None:
        super().__init__(f"{group_id!r} is a {group_type} group; to delete such groups, name their type in 'types'")
        self.group_id = group_id
        self.group_type = group_type


class GroupsFailedError(KafkaGroupsError):
    """Say which groups of a call failed; the first few are in the message, all are in ``errors``."""

    def __init__(self, errors: Mapping[str, KafkaGroupsError], total: int) -> None:
        first = "; ".join(f"{group_id!r}: {error}" for group_id, error in list(errors.items())[:3])
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        super().__init__(f"{len(errors)} of {total} failed: {first}{more}")
        self.errors = dict(errors)


class MembershipError(KafkaGroupsError):
    """Say that this process is not a member of a group (any more), and why.

    :param group_id: the group.
    :param reason: what happened, as a sentence.
    """

    def __init__(self, group_id: str, reason: str) -> None:
        super().__init__(f"group {group_id!r}: {reason}")
        self.group_id = group_id
        self.reason = reason


class InvalidAssignmentError(MembershipError):
    """Say which members an assignment misses, and which it invents; nothing of it was sent.

    :param missing: members of the group that were given nothing, not even an empty assignment.
    :param invented: member ids that are not in the group.
    """

    def __init__(self, group_id: str, missing: Iterable[str], invented: Iterable[str]) -> None:
        self.missing = tuple(sorted(missing))
        self.invented = tuple(sorted(invented))
        wrong = [f"misses {', '.join(self.missing)}"] if self.missing else []
        wrong += [f"invents {', '.join(self.invented)}"] if self.invented else []
        super().__init__(group_id, f"perform_assignment() {' and '.join(wrong)}; give each member exactly one entry")


class CallbackFailedError(MembershipError):
    """Say which callback of a member raised; what it raised is the cause."""


class LeaseNotAcquiredError(MembershipError, TimeoutError):
    """Say that the lease was not to be had in time, and who holds it as far as the group knows."""


class LeaseLostError(MembershipError):
    """Say that the lease is not certainly held any more; whatever it guarded has to stop."""


class MaintenanceError(KafkaGroupsError):
    """Be the base of the errors of snapshots, plans, backups and deletion."""


class SnapshotError(MaintenanceError):
    """Say that a snapshot is missing, empty or half written."""


class PlanError(MaintenanceError):
    """Say that a plan cannot be made or must not be applied."""


class BackupError(MaintenanceError):
    """Say that a backup is missing or does not hold what it should."""


class JournalError(MaintenanceError):
    """The journal of deletions is damaged or cannot be continued."""


class StorageError(MaintenanceError):
    """A file could not be read, written or listed; the message names the path."""


class FileExistsAlreadyError(StorageError):
    """The file that was to be created exists, with other content."""


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
