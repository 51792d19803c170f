"""Ids are taken once each, in their order, however many they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.admin.client import arguments
from airflow_kafka_groups.admin.client.arguments import group_ids_of


@given(st.lists(st.sampled_from("abcdefgh")), st.booleans())
def test_duplicates_are_removed_from_long_lists_as_from_short_ones(group_ids: list[str], long: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_MANY", 0 if long else 1_000)
        assert group_ids_of(group_ids) == list(dict.fromkeys(group_ids))


def test_a_long_list_is_not_the_callers_own() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_MANY", 0)
        given_ids = ["a", "b"]
        assert group_ids_of(given_ids) is not given_ids
