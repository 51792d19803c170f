"""Every error this package raises, in one tree.

::

    KafkaGroupsError
    ├── ConfigurationError            bad input; names the field, the value and the remedy (also a ValueError)
    │   └── UnsupportedByClientError  the installed confluent-kafka lacks what the connection needs
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
    ├── PartlyDeletedError            a group lost offsets but was not deleted
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

from airflow_kafka_groups.exceptions.client import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    FinalTriggerError,
    KafkaGroupsError,
    LocalProtocolError,
    MissingAnswerError,
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    NoBatchedRequestError,
    NoBrokerAvailableError,
    NotSentError,
    OutcomeUnknownError,
    RemoteProtocolError,
    RequestTimeoutError,
    SwitchedOffError,
    UnsupportedByClientError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.exceptions.groups import (
    CallbackFailedError,
    EmptyGroupsNotListedError,
    GroupsFailedError,
    IncompleteListingError,
    InvalidAssignmentError,
    LeaseLostError,
    LeaseNotAcquiredError,
    MembershipError,
    PartitionOffsetsError,
    PartitionsFailedError,
    PartlyDeletedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.exceptions.maintenance import (
    ArgumentError,
    BackupError,
    FileExistsAlreadyError,
    JobError,
    JournalError,
    MaintenanceError,
    PlanError,
    PolicyError,
    QuietTimeError,
    SnapshotError,
    StorageError,
    first_line,
)

__all__ = [
    "KafkaGroupsError",
    "ClientClosedError",
    "ConfigurationError",
    "UnsupportedByClientError",
    "AirflowUnavailableError",
    "FinalTriggerError",
    "LocalProtocolError",
    "SwitchedOffError",
    "UnsupportedVersionError",
    "NoBatchedRequestError",
    "NoBatchedFindCoordinatorsError",
    "NoBatchedOffsetFetchError",
    "ConnectionFailedError",
    "AuthenticationFailedError",
    "NoBrokerAvailableError",
    "RequestTimeoutError",
    "DeadlineExceededError",
    "NotSentError",
    "RemoteProtocolError",
    "MissingAnswerError",
    "BrokerError",
    "OutcomeUnknownError",
    "PartitionsFailedError",
    "PartitionOffsetsError",
    "PartlyDeletedError",
    "EmptyGroupsNotListedError",
    "IncompleteListingError",
    "UnexpectedGroupTypeError",
    "GroupsFailedError",
    "MembershipError",
    "InvalidAssignmentError",
    "CallbackFailedError",
    "LeaseNotAcquiredError",
    "LeaseLostError",
    "MaintenanceError",
    "SnapshotError",
    "JobError",
    "ArgumentError",
    "first_line",
    "PlanError",
    "PolicyError",
    "QuietTimeError",
    "BackupError",
    "JournalError",
    "StorageError",
    "FileExistsAlreadyError",
]
