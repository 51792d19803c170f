"""The status of a key under every error code there is, for every handler; so that no code reads as "nothing there"."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    MissingAnswerError,
    PartitionOffsetsError,
    PartitionsFailedError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.engine.handler import HandlerResult
from airflow_kafka_groups.kafka.admin.handlers.change_groups import (
    AlterGroupOffsetsHandler,
    DeleteGroupOffsetsHandler,
)
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.find_coordinator import FindCoordinatorHandler
from airflow_kafka_groups.kafka.admin.handlers.groups import DescribeGroupsHandler, ListGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_offsets import ListOffsetsHandler
from airflow_kafka_groups.kafka.models import (
    GroupOffsets,
    GroupState,
    ListConsumerGroupOffsetsSpec,
    MemberDescription,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.answers import ALL_CODES, NONE, decoded
from tests.tables import rows

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMPLETED, FAILED, UNMAPPED, RETRY = "completed", "failed", "unmapped", "retry"

COORDINATOR_TABLE = {
    ErrorCode.none: COMPLETED,
    ErrorCode.not_coordinator: UNMAPPED,
    ErrorCode.coordinator_not_available: UNMAPPED,
    ErrorCode.coordinator_load_in_progress: RETRY,
}
DESCRIBE_TABLE = {**COORDINATOR_TABLE, ErrorCode.group_id_not_found: COMPLETED}
LOOKUP_TABLE = {
    ErrorCode.none: COMPLETED,
    ErrorCode.not_coordinator: RETRY,
    ErrorCode.coordinator_not_available: RETRY,
    ErrorCode.coordinator_load_in_progress: RETRY,
}
LISTING_TABLE = {
    ErrorCode.none: COMPLETED,
    ErrorCode.coordinator_not_available: RETRY,
    ErrorCode.coordinator_load_in_progress: RETRY,
}
OFFSETS_TABLE = {
    ErrorCode.none: COMPLETED,
    ErrorCode.not_leader_or_follower: UNMAPPED,
    ErrorCode.leader_not_available: UNMAPPED,
    ErrorCode.replica_not_available: UNMAPPED,
    ErrorCode.fenced_leader_epoch: UNMAPPED,
    ErrorCode.unknown_leader_epoch: UNMAPPED,
    ErrorCode.kafka_storage_error: UNMAPPED,
    ErrorCode.offset_not_available: RETRY,
    ErrorCode.request_timed_out: RETRY,
}


def fate_of(result: HandlerResult[Any, Any], key: Any) -> str:
    """Return which part of the result a key is in; exactly one."""
    parts = ((COMPLETED, result.completed), (FAILED, result.failed))
    others = ((UNMAPPED, result.unmapped), (RETRY, result.retry))
    (status,) = [name for name, part in (*parts, *others) if key in part]
    return status


def check(result: HandlerResult[Any, Any], key: Any, code: ErrorCode, table: dict[ErrorCode, str]) -> None:
    status = fate_of(result, key)
    assert status == table.get(code, FAILED)
    if status != COMPLETED:
        error = getattr(result, status)[key]
        assert isinstance(error, BrokerError)
        assert error.code == code
        assert "broker 3" in str(error)


@pytest.mark.parametrize("version", [7, 8, 9])
@rows("code", ALL_CODES)
def test_offset_fetch_group_errors(code: ErrorCode, version: int) -> None:
    response = decoded(answers.offset_fetch(version, {"g": code}))
    result = ListGroupOffsetsHandler({}).parse(3, ["g"], version, response)
    check(result, "g", code, COORDINATOR_TABLE)


@pytest.mark.parametrize("version", [7, 8])
@rows("code", [code for code in ALL_CODES if code is not NONE])
def test_offset_fetch_partition_errors_are_never_read_as_no_offsets(code: ErrorCode, version: int) -> None:
    partitions = {("t", 0): (5, NONE), ("t", 1): (-1, code)}
    response = decoded(answers.offset_fetch(version, {"g": NONE}, partitions))
    result = ListGroupOffsetsHandler({}).parse(3, ["g"], version, response)
    status = RETRY if code is ErrorCode.unstable_offset_commit else FAILED
    assert fate_of(result, "g") == status
    error = getattr(result, status)["g"]
    assert isinstance(error, PartitionOffsetsError)
    assert set(error.partition_errors) == {T1}
    assert dict(error.partial) == {T0: OffsetAndMetadata(5, "m", 5)}


def test_a_partition_without_a_commit_is_present_and_none_where_it_was_asked_for() -> None:
    handler = ListGroupOffsetsHandler({"g": ListConsumerGroupOffsetsSpec((T0, T1))})
    response = decoded(answers.offset_fetch(8, {"g": NONE}, {("t", 0): (5, NONE), ("t", 1): (-1, NONE)}))
    offsets = handler.parse(3, ["g"], 8, response).completed["g"]
    assert isinstance(offsets, GroupOffsets)
    assert offsets[T1] is None
    assert list(offsets) == [T0, T1]


def test_a_partition_the_broker_left_out_fails_its_group() -> None:
    handler = ListGroupOffsetsHandler({"g": ListConsumerGroupOffsetsSpec((T0, T1))})
    response = decoded(answers.offset_fetch(8, {"g": NONE}, {("t", 0): (5, NONE)}))
    error = handler.parse(3, ["g"], 8, response).failed["g"]
    assert isinstance(error, PartitionOffsetsError)
    assert isinstance(error.partition_errors[T1], MissingAnswerError)


@pytest.mark.safety
def test_a_group_that_is_described_twice_has_failed_however_it_is_described_last() -> None:
    member = MemberDescription(member_id="m", client_id="c", host="h")
    states = ((GroupState.STABLE, (member,)), (GroupState.EMPTY, ()))
    stable, empty = (DescribedGroup(NONE, None, state, "consumer", "", members, None) for state, members in states)
    answer = DescribeGroupsAnswer(NO_THROTTLE, [(["g"], stable), (["h", "g"], empty)])
    for handler in (DescribeGroupsHandler(), *(DescribeGroupsHandler(api=api) for api in GROUP_TYPES)):
        result = handler.parse(3, ["g", "h"], 5, answer)
        assert isinstance(result.failed["g"], RemoteProtocolError)
        assert (set(result.failed), result.completed["h"].state) == ({"g"}, GroupState.EMPTY)


def test_group_errors_in_one_answer_are_never_mixed() -> None:
    codes = {"ok": NONE, "moved": ErrorCode.not_coordinator, "denied": ErrorCode.group_authorization_failed}
    result = ListGroupOffsetsHandler({}).parse(3, list(codes), 8, decoded(answers.offset_fetch(8, codes)))
    assert [fate_of(result, key) for key in codes] == [COMPLETED, UNMAPPED, FAILED]


@pytest.mark.parametrize("version", [0, 1, 2])
@rows("code", ALL_CODES)
def test_delete_groups(code: ErrorCode, version: int) -> None:
    result = DeleteGroupsHandler().parse(3, ["g"], version, decoded(answers.delete_groups(version, {"g": code})))
    check(result, "g", code, COORDINATOR_TABLE)


@pytest.mark.parametrize("version", [0, 3, 5, 6])
@rows("code", ALL_CODES)
def test_describe_groups(code: ErrorCode, version: int) -> None:
    response = decoded(answers.describe_groups(version, {"g": code}, state="Empty"))
    result = DescribeGroupsHandler().parse(3, ["g"], version, response)
    if code is ErrorCode.unsupported_version:
        assert isinstance(result.failed["g"], UnsupportedVersionError)
        return
    check(result, "g", code, DESCRIBE_TABLE)
    if code is ErrorCode.group_id_not_found:
        assert result.completed["g"].state is GroupState.DEAD, "whatever else the answer says"


@pytest.mark.parametrize("api", GROUP_TYPES, ids=repr)
@rows("code", ALL_CODES)
def test_newer_describes(code: ErrorCode, api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        response = decoded(answers.modern_group_describe(api, version, {"g": code}))
        result = DescribeGroupsHandler(api=api).parse(3, ["g"], version, response)
        if code is ErrorCode.unsupported_version:
            assert isinstance(result.failed["g"], UnsupportedVersionError), "switched off: there are no such groups"
            continue
        check(result, "g", code, DESCRIBE_TABLE)
        if code is ErrorCode.group_id_not_found:
            assert result.completed["g"].state is GroupState.DEAD
        if code is NONE:
            assert result.completed["g"].type is GROUP_TYPES[api]


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@rows("code", ALL_CODES)
def test_find_coordinator(code: ErrorCode, version: int) -> None:
    response = decoded(answers.find_coordinator(version, {"g": code}))
    check(FindCoordinatorHandler().parse(3, ["g"], version, response), "g", code, LOOKUP_TABLE)


@pytest.mark.parametrize("version", [3, 4, 5])
@rows("code", ALL_CODES)
def test_list_groups_never_takes_an_error_for_an_empty_list(code: ErrorCode, version: int) -> None:
    response = decoded(answers.list_groups(version, code, ("g",) if code is NONE else ()))
    check(ListGroupsHandler().parse(3, [3], version, response), 3, code, LISTING_TABLE)


@pytest.mark.parametrize("version", [1, 4, 7, 9])
@rows("code", ALL_CODES)
def test_list_offsets(code: ErrorCode, version: int) -> None:
    response = decoded(answers.list_offsets(version, {("t", 0): (7, code)}))
    handler = ListOffsetsHandler({T0: OffsetSpec.latest()})
    check(handler.parse(3, [T0], version, response), T0, code, OFFSETS_TABLE)


@pytest.mark.parametrize("version", [2, 5, 8, 9])
@rows("code", ALL_CODES)
def test_alter_offsets(code: ErrorCode, version: int) -> None:
    """OffsetCommit has no error for the group: a coordinator in trouble says so for each partition."""
    handler = AlterGroupOffsetsHandler({"g": {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}})
    result = handler.parse(3, ["g"], version, decoded(answers.offset_commit(version, {("t", 0): code, ("t", 1): code})))
    status = fate_of(result, "g")
    assert status == COORDINATOR_TABLE.get(code, FAILED)
    if status == FAILED:
        error = result.failed["g"]
        assert isinstance(error, PartitionsFailedError)
        assert set(error.partition_errors) == {T0, T1}


@rows("code", [code for code in ALL_CODES if code is not NONE])
def test_a_commit_that_was_half_done_is_never_sent_again(code: ErrorCode) -> None:
    handler = AlterGroupOffsetsHandler({"g": {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}})
    error = handler.parse(3, ["g"], 8, decoded(answers.offset_commit(8, {("t", 0): NONE, ("t", 1): code}))).failed["g"]
    assert isinstance(error, PartitionsFailedError)
    assert set(error.partition_errors) == {T1}


def test_a_partition_left_out_of_a_commits_answer_is_an_error() -> None:
    handler = AlterGroupOffsetsHandler({"g": {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}})
    error = handler.parse(3, ["g"], 8, decoded(answers.offset_commit(8, {("t", 0): NONE}))).failed["g"]
    assert isinstance(error, PartitionsFailedError)
    assert isinstance(error.partition_errors[T1], MissingAnswerError)


@rows("code", ALL_CODES)
def test_delete_offsets_group_errors(code: ErrorCode) -> None:
    handler = DeleteGroupOffsetsHandler({"g": [T0]})
    partitions = {("t", 0): NONE} if code is NONE else {}
    check(handler.parse(3, ["g"], 0, decoded(answers.offset_delete(code, partitions))), "g", code, COORDINATOR_TABLE)


@pytest.mark.parametrize("code", [ErrorCode.group_subscribed_to_topic, ErrorCode.unknown_topic_or_partition])
def test_delete_offsets_partition_errors(code: ErrorCode) -> None:
    handler = DeleteGroupOffsetsHandler({"g": [T0, T1]})
    response = decoded(answers.offset_delete(NONE, {("t", 0): NONE, ("t", 1): code}))
    error = handler.parse(3, ["g"], 0, response).failed["g"]
    assert isinstance(error, PartitionsFailedError)
    assert set(error.partition_errors) == {T1}
