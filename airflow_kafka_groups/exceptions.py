"""Every error this package raises, in one tree.

::

    KafkaGroupsError
    ├── ConfigurationError            bad input; names the field, the value and the remedy (also a ValueError)
    ├── AirflowUnavailableError       Airflow or a secrets backend could not be asked for a connection
    ├── FinalTriggerError             a trigger failed, and a retry would fail too
    ├── LocalProtocolError            the request cannot be built
    │   └── UnsupportedVersionError   the broker is too old (or too new) for the request
    │       ├── SwitchedOffError      the broker has the protocol of these groups switched off
    │       └── NoBatchedRequestError the broker accepts one key per request (handled by the fallback)
    │           ├── NoBatchedFindCoordinatorsError   KIP-699
    │           └── NoBatchedOffsetFetchError        KIP-709
    ├── ConnectionFailedError         no usable connection to one broker (also a ConnectionError)
    │   ├── AuthenticationFailedError SASL or TLS was refused: do not retry
    │   ├── ClientClosedError         the client was closed during the call
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
    ├── UnexpectedGroupTypeError      a group has a type that the call excludes
    ├── EmptyGroupsNotListedError     a product that lists groups with members only
    ├── IncompleteListingError        a listing that must be complete lacks some groups
    ├── GroupsFailedError             raised by ``raise_for_errors()``: some groups of a call failed
    ├── MembershipError               a membership could not start, or has ended; names the group
    │   ├── InvalidAssignmentError    the leader's assignment lacks members, or has unknown ones
    │   ├── CallbackFailedError       a callback raised; its error is the cause
    │   ├── LeaseNotAcquiredError     another run holds the lease (also a TimeoutError)
    │   └── LeaseLostError            the lease is no longer confirmed: stop
    └── MaintenanceError              snapshot, plan, backup and deletion
        ├── JobError                  a job cannot go on; the message has the remedy
        │   ├── ArgumentError         a job's argument is invalid (also a ValueError)
        │   ├── SnapshotError         a snapshot is missing, empty or incomplete
        │   └── StorageError          a file could not be read, written or listed
        │       └── FileExistsAlreadyError  the file that was to be created exists
        ├── PlanError                 a plan cannot be made or applied
        │   └── QuietTimeError        the policy's quiet hours or holidays forbid a deletion now
        ├── PolicyError               a policy file is missing or says what cannot be meant; names the line
        ├── BackupError               a backup is missing or not as it should be
        └── JournalError              the journal of deletions is damaged, or another run wrote to it

Errors name the broker, the API and the group. They never contain a configuration or a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition


class KafkaGroupsError(Exception):
    """The base class of all errors of this package.

    Errors can be pickled and copied, as results are that hold them: a pool of processes hangs when one cannot.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Not with the arguments of each class, as Python does it: an error keeps the message made of them.
        return _restore, (type(self), self.args, self.__dict__)


class ConfigurationError(KafkaGroupsError, ValueError):
    """Bad input, detected before any change.

    :param field: the name of the field or argument, as typed by the user.
    :param value: the value; pass ``None`` for a secret, so that it is not shown.
    :param remedy: what to do about it, as a sentence.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self._shown = "" if value is None else f" (got {_shorten(value)})"
        self.remedy = remedy
        self.rename(field)

    def rename(self, field: str) -> None:
        """Name another field: the one that the user filled, and from which this one was made."""
        self.field = field
        self.args = (f"{field}{self._shown}: {self.remedy}",)


class AirflowUnavailableError(KafkaGroupsError):
    """Airflow, or one of its secrets backends, could not be asked for a connection. It may exist; try again."""


class LocalProtocolError(KafkaGroupsError):
    """A request that cannot be built."""


class UnsupportedVersionError(LocalProtocolError):
    """No version of an API is supported by both the broker and this client."""


class SwitchedOffError(UnsupportedVersionError):
    """The broker has the protocol of these groups switched off; it may have groups of it from before."""


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


class ClientClosedError(ConnectionFailedError):
    """The client was closed while a call used it, so nothing more is sent."""

    def __init__(self) -> None:
        super().__init__("cluster", "the client is closed; leave its `async with` block after the last call is done")


class AuthenticationFailedError(ConnectionFailedError):
    """The broker refused the credentials or the TLS handshake. Retrying does not help."""


class FinalTriggerError(KafkaGroupsError):
    """A trigger failed for a reason that a retry of its task would meet again, such as a refused password."""


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


def _restore(kind: type[KafkaGroupsError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> KafkaGroupsError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of more than 4,300 digits
        text = "an integer of thousands of digits"
    return text if len(text) <= 120 else f"{text[:117]}..."


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


class MaintenanceError(KafkaGroupsError):
    """The base class of errors of snapshots, plans, backups and deletions."""


class JobError(MaintenanceError):
    """The base class of errors that a job explains itself, and ends with their exit code."""

    exit_code = 1


class ArgumentError(JobError, ValueError):
    """An invalid argument, detected before anything is read or written; its exit code is 2.

    :param argument: its name, as typed by the user.
    :param remedy: what to do about it, as a sentence.
    """

    exit_code = 2

    def __init__(self, argument: str, value: object, remedy: str) -> None:
        super().__init__(f"{argument} (got {value!r}): {remedy}")


class SnapshotError(JobError):
    """A snapshot is missing, empty or incomplete."""


class PlanError(MaintenanceError):
    """A plan cannot be made or must not be applied."""


class QuietTimeError(PlanError):
    """The quiet hours or holidays of a policy forbid a deletion now.

    :param message: what forbids it.
    :param until: when they end; ``None``: the plan will have expired.
    """

    def __init__(self, message: str, until: datetime | None) -> None:
        super().__init__(message)
        self.until = until


class PolicyError(MaintenanceError):
    """A policy file is missing, or says something that cannot be meant; the message names file, line and remedy."""


class BackupError(MaintenanceError):
    """A backup is missing or not as it should be."""


class JournalError(MaintenanceError):
    """The journal of deletions is damaged or cannot be continued."""


class StorageError(JobError):
    """A file could not be read, written or listed; the message names the path."""


class FileExistsAlreadyError(StorageError):
    """The file that was to be created exists, with other content."""
