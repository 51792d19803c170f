"""The groups of a broker, their state and members, and how long it keeps their offsets.

DescribeGroups is for classic groups, and each newer type has an API of its own. Each answers GROUP_ID_NOT_FOUND (or
state Dead) for the others' groups, so a group is dead only when all say so: the client asks the next one about what the
one before did not find. From v6 on, DescribeGroups tells by its message whether there is a group of another type; if
there is none, that is the type ``UNKNOWN`` here, and nobody else is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.exceptions import KafkaGroupsError, SwitchedOffError
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult, KeyedHandler, KeyStatus
from airflow_kafka_groups.kafka.models import BrokerId, GroupDescription, GroupListing, GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.answers import DescribeGroupsAnswer, ListGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_CONFIGS, DESCRIBE_GROUPS, LIST_GROUPS, Api
from airflow_kafka_groups.kafka.protocol.apis import describe_configs, describe_groups, list_groups
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_NONE, _NOT_FOUND = ErrorCode.none, ErrorCode.group_id_not_found
_LISTING_TRIES, _RETENTION_TRIES = 5, 3

OFFSETS_RETENTION = "offsets.retention.minutes"
_new = tuple.__new__  # what a named tuple's own constructor calls, at half the time for many


@dataclass(frozen=True, slots=True)
class DescribeGroupsHandler(AdminHandler[str, GroupDescription]):
    """DescribeGroups, for classic groups, or the describe API of one of the newer group types."""

    include_authorized_operations: bool = False
    batch_size: int = 200
    api: Api = DESCRIBE_GROUPS

    def build(self, keys: Sequence[str], version: int) -> Message:
        return describe_groups.build(self.api, keys, self.include_authorized_operations, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: DescribeGroupsAnswer
    ) -> HandlerResult[str, GroupDescription]:
        """Sort the groups by status; one that is not there is completed, with the state ``DEAD``."""
        kind = describe_groups.GROUP_TYPES.get(self.api, GroupType.CLASSIC)
        completed: dict[str, GroupDescription] = {}
        result = HandlerResult(completed)
        for group_ids, group in response.groups:
            error, message, state, protocol_type, protocol, *facts = group
            if error is _NONE:
                completed |= {
                    group_id: _new(
                        GroupDescription, (group_id, state, kind, protocol_type, protocol, broker_id, *facts, False)
                    )
                    for group_id in group_ids
                }
            elif error is _NOT_FOUND:
                # KIP-1043 spells it so from v6 on; before, the state says Dead. One meaning, one form: DEAD.
                for group_id in group_ids:
                    of_none = self.api is DESCRIBE_GROUPS and describe_groups.is_of_no_type(group_id, message)
                    kind_ = GroupType.UNKNOWN if of_none else kind
                    completed[group_id] = GroupDescription(
                        group_id, GroupState.DEAD, kind_, protocol_type, protocol, broker_id
                    )
            else:
                for group_id in group_ids:
                    self._add_error(result, group_id, error, message, broker_id)
        # The last of two descriptions may lack the members of the first.
        named = sum([len(group_ids) for group_ids, _ in response.groups])
        if named > len(completed) + len(result.failed) + len(result.unmapped) + len(result.retry):
            every = (group_id for group_ids, _ in response.groups for group_id in group_ids)
            result.fail_repeated(every, broker_id, self.api)
        return result

    def _add_error(
        self,
        result: HandlerResult[str, GroupDescription],
        group_id: str,
        code: ErrorCode,
        message: str | None,
        broker_id: BrokerId,
    ) -> None:
        if code is ErrorCode.unsupported_version:
            # As 3.9 is shipped. The client asks a listing whether the broker has such groups all the same.
            result.failed[group_id] = SwitchedOffError(f"broker {broker_id} has {self.api.name} switched off")
        else:
            self.add_code(result, group_id, code, broker_id, message)


@dataclass(frozen=True, slots=True)
class ListGroupsHandler(AdminHandler[BrokerId, tuple[GroupListing, ...]]):
    """ListGroups of these types (all when empty; from v5 on). The keys are the brokers themselves, one a request."""

    types: tuple[GroupType, ...] = ()
    api: ClassVar[Api] = LIST_GROUPS
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {
        # The broker is still reading some of its partitions: its list is not complete yet.
        ErrorCode.coordinator_load_in_progress: KeyStatus.RETRY,
        ErrorCode.coordinator_not_available: KeyStatus.RETRY,
    }
    batch_size: ClassVar[int] = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a broker is left out: the listing is marked incomplete then."""
        return _LISTING_TRIES

    def build(self, keys: Sequence[BrokerId], version: int) -> Message:
        return list_groups.build(self.types, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[BrokerId], version: int, response: ListGroupsAnswer
    ) -> HandlerResult[BrokerId, tuple[GroupListing, ...]]:
        if response.error is ErrorCode.none:
            return HandlerResult({broker_id: tuple([GroupListing(*group, broker_id) for group in response.groups])})
        result: HandlerResult[BrokerId, tuple[GroupListing, ...]] = HandlerResult()
        self.add_code(result, broker_id, response.error, broker_id)
        return result

    def subject(self, key: BrokerId) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class DescribeRetentionHandler(KeyedHandler[BrokerId, dict[str, str | None]]):
    """DescribeConfigs. The keys are the brokers themselves, one a request."""

    api: ClassVar[Api] = DESCRIBE_CONFIGS
    batch_size: ClassVar[int] = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        return _RETENTION_TRIES

    def build(self, keys: Sequence[BrokerId], version: int) -> Message:
        return describe_configs.build(keys[0], [OFFSETS_RETENTION], version)

    def subject(self, key: BrokerId) -> str:
        return ""  # the error names the broker
