"""What kio reads of one group is used for the next ones that are followed by the same bytes, and for no others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.kafka.protocol.answers import DescribedGroup
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES, decode
from airflow_kafka_groups.kafka.protocol.codec import encode_body, response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, operations
from tests.fakes.answers import _fits

VERSIONS = [
    (CONSUMER_GROUP_DESCRIBE, 0),
    (CONSUMER_GROUP_DESCRIBE, 1),
    (SHARE_GROUP_DESCRIBE, 1),
    (STREAMS_GROUP_DESCRIBE, 0),
]
HEADER = b"\x00\x00\x00\x07\x00"
groups = st.lists(
    st.fixed_dictionaries(
        {
            "error_code": st.sampled_from([ErrorCode.none, ErrorCode.group_id_not_found, ErrorCode.not_coordinator]),
            "error_message": st.sampled_from([None, "", "Group g not found.", "x" * 200]),
            "group_id": st.sampled_from(["g", "ünï", "x" * 200, "a\0\0\0b"]),
            "group_state": st.sampled_from(["", "Empty", "Stable"]),
            "group_epoch": st.integers(0, 1),
            "assignment_epoch": st.integers(0, 1),
            "assignor_name": st.sampled_from(["", "uniform", "x" * 200]),
            "authorized_operations": st.sampled_from([-(2**31), 0, 256]),
        }
    ),
    max_size=8,
)


def frame_of(api: Api, version: int, drawn: list[dict[str, Any]]) -> bytes:
    schema = response_schema(api, version)
    described = tuple(_fits(schema.DescribedGroup, **group, topology=None, members=()) for group in drawn)
    response = getattr(schema, f"{api.name}Response")(throttle_time=timedelta(seconds=1), groups=described)
    return HEADER + encode_body(response)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@given(drawn=groups)
def test_groups_are_read_alike_one_by_one_and_together(api: Api, version: int, drawn: list[dict[str, Any]]) -> None:
    together = decode(api, frame_of(api, version, drawn), version)
    assert together.throttle_time == timedelta(seconds=1)
    found = [(group_id, group) for group_ids, group in together.groups for group_id in group_ids]
    alone = [decode(api, frame_of(api, version, [group]), version).groups[0] for group in drawn]
    assert sorted(found, key=repr) == sorted(((group_id, group) for (group_id,), group in alone), key=repr)
    assert [group for _, group in alone] == [expected(api, group) for group in drawn]


def expected(api: Api, group: dict[str, Any]) -> DescribedGroup:
    return DescribedGroup(
        group["error_code"],
        group["error_message"],
        GroupState.parse(group["group_state"]),
        GROUP_TYPES[api].value,
        "" if api is STREAMS_GROUP_DESCRIBE else group["assignor_name"],
        (),
        operations(group["authorized_operations"]),
    )


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_what_follows_the_last_group_is_an_error(api: Api, version: int) -> None:
    with pytest.raises(ValueError, match="2 bytes too many"):
        decode(api, frame_of(api, version, []) + b"ab", version)
