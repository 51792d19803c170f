"""Every error this package raises, in one tree.

::

    KafkaGroupsError
    ├── ConfigurationError            bad input; names the field, the value and the remedy (also a ValueError)
    │   └── UnsupportedByClientError  the installed confluent-kafka lacks what the connection needs
    ├── LocalProtocolError            the request cannot be built
    │   └── UnsupportedVersionError   the broker is too old (or too new) for the request
    │       └── NoBatchedRequestError the broker accepts one key per request (handled by the fallback)
    │           ├── NoBatchedFindCoordinatorsError   KIP-699
    │           └── NoBatchedOffsetFetchError        KIP-709
    ├── ConnectionFailedError         no usable connection to one broker (also a ConnectionError)
    │   ├── AuthenticationFailedError SASL or TLS was refused: do not retry
    │   └── NoBrokerAvailableError    no bootstrap server could be used
    ├── RequestTimeoutError           one request had no response in time (also a TimeoutError)
    ├── DeadlineExceededError         the deadline of the call passed before this key was done (also a TimeoutError)
    │   └── NotSentError              a change did not leave in time: nothing happened
    ├── RemoteProtocolError           the response is invalid
    │   └── MissingAnswerError        the response lacks a requested key
    ├── BrokerError                   the broker returned an error code
    ├── OutcomeUnknownError           a change was sent, its response was lost: it may have happened
    ├── PartitionsFailedError         some partitions of a group failed; names them
    │   └── PartitionOffsetsError     some could not be read; carries the others
    ├── PartlyDeletedError            a group lost offsets but was not deleted
    ├── UnexpectedGroupTypeError      a group has a type that the call excludes
    ├── IncompleteListingError        a listing that must be complete lacks some groups
    ├── GroupsFailedError             raised by ``raise_for_errors()``: some groups of a call failed
    ├── MembershipError               a membership could not start, or has ended; names the group
    │   ├── InvalidAssignmentError    the leader's assignment lacks members, or has unknown ones
    │   ├── CallbackFailedError       a callback raised; its error is the cause
    │   ├── LeaseNotAcquiredError     another run holds the lease (also a TimeoutError)
    │   └── LeaseLostError            the lease is no longer confirmed: stop
    └── MaintenanceError              snapshot, plan, backup and deletion
        ├── SnapshotError             a snapshot is missing, empty or incomplete
        ├── PlanError                 a plan cannot be made or applied
        ├── BackupError               a backup is missing or not as it should be
        ├── JournalError              the journal of deletions is damaged, or another run wrote to it
        └── StorageError              a file could not be read, written or listed
            └── FileExistsAlreadyError  the file that was to be created exists

Errors name the broker, the API and the group. They never contain a configuration or a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_groups.models import GroupOffsets, TopicPartition


class KafkaGroupsError(Exception):
    """The base class of all errors of this package."""


class ConfigurationError(KafkaGroupsError, ValueError):
    """Bad input, detected before any change.

    :param field: the name of the field or argument, as typed by the user.
    :param value: the value; pass ``None`` for a secret, so that it is not shown.
    :param remedy: what to do about it, as a sentence.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = "" if value is None else f" (got {_shorten(value)})"
        super().__init__(f"{field}{shown}: {remedy}")
        self.field = field
        self.remedy = remedy


class UnsupportedByClientError(ConfigurationError):
    """The installed confluent-kafka lacks what the connection needs, such as Kerberos."""


class LocalProtocolError(KafkaGroupsError):
    """A request that cannot be built."""


class UnsupportedVersionError(LocalProtocolError):
    """No version of an API is supported by both the broker and this client."""


class NoBatchedRequestError(UnsupportedVersionError):
    """The broker's version accepts one key per request, but several were requested."""


class NoBatchedFindCoordinatorsError(NoBatchedRequestError):
    """The broker cannot look up coordinators in batches (FindCoordinator below v4, KIP-699)."""


class NoBatchedOffsetFetchError(NoBatchedRequestError):
    """The broker cannot fetch offsets of many groups at once (OffsetFetch below v8, KIP-709)."""


class ConnectionFailedError(KafkaGroupsError, ConnectionError):
    """A broker could not be reached, or closed the connection.

    :param address: ``host:port`` of the broker.
    :param reason: what happened, in a sentence for the user.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class AuthenticationFailedError(ConnectionFailedError):
    """The broker refused the credentials or the TLS handshake. Retrying does not help."""


class NoBrokerAvailableError(ConnectionFailedError):
    """No bootstrap server could be used.

    :param address: all bootstrap servers.
    :param reason: what happened with each of them.
    """

    def __init__(self, address: str, reason: str) -> None:
        KafkaGroupsError.__init__(self, reason)
        self.address = address
        self.reason = reason


class RequestTimeoutError(KafkaGroupsError, TimeoutError):
    """A request had no response within its timeout."""


class DeadlineExceededError(KafkaGroupsError, TimeoutError):
    """The deadline of a call passed before a key was done."""


class NotSentError(DeadlineExceededError):
    """A change did not leave within the time it was given, so nothing happened."""


class RemoteProtocolError(KafkaGroupsError):
    """A response that cannot be interpreted."""


class MissingAnswerError(RemoteProtocolError):
    """A response that lacks a requested key."""


class BrokerError(KafkaGroupsError):
    """An error code returned by a broker.

    :param code: Kafka's error code, e.g. 68.
    :param name: Kafka's name of the code, e.g. ``NON_EMPTY_GROUP``.
    :param description: what the code means, or the broker's own message if it sent one.
    :param api: the name of the API.
    :param broker_id: node id of the broker, ``None`` if unknown.
    :param subject: the group, partition or key that the error is about.
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
    """A change was sent, but its response was lost: it may have happened. Check before deciding anything."""


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


class IncompleteListingError(KafkaGroupsError):
    """A listing may lack groups: a broker did not answer, or a partition of ``__consumer_offsets`` has no leader."""

    def __init__(self, errors: Mapping[Any, KafkaGroupsError]) -> None:
        partitions = [where for where in errors if isinstance(where, tuple)]
        brokers = [f"broker {where}: {error}" for where, error in errors.items() if not isinstance(where, tuple)]
        reasons = [f"{len(brokers)} broker(s) did not answer: {'; '.join(sorted(brokers))}"] if brokers else []
        if partitions:
            listed = ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
            reasons.append(f"{len(partitions)} partition(s) have no leader, so no broker lists their groups: {listed}")
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


class GroupsFailedError(KafkaGroupsError):
    """Some groups of a call failed. The message names the first three, ``errors`` has all."""

    def __init__(self, errors: Mapping[str, KafkaGroupsError], total: int) -> None:
        first = "; ".join(f"{group_id!r}: {error}" for group_id, error in list(errors.items())[:3])
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        super().__init__(f"{len(errors)} of {total} failed: {first}{more}")
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


class MaintenanceError(KafkaGroupsError):
    """The base class of errors of snapshots, plans, backups and deletions."""


class SnapshotError(MaintenanceError):
    """A snapshot is missing, empty or incomplete."""


class PlanError(MaintenanceError):
    """A plan cannot be made or must not be applied."""


class BackupError(MaintenanceError):
    """A backup is missing or not as it should be."""


class JournalError(MaintenanceError):
    """The journal of deletions is damaged or cannot be continued."""


class StorageError(MaintenanceError):
    """A file could not be read, written or listed; the message names the path."""


class FileExistsAlreadyError(StorageError):
    """The file that was to be created exists, with other content."""


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
