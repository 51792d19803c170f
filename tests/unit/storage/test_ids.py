"""Ids, names, times and digests of the stored files."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_kafka_groups.checks import is_digest
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.storage.formats import canonical_json, digest_of
from airflow_kafka_groups.storage.layout import Layout, check_cluster, cluster_folder
from airflow_kafka_groups.storage.paths import (
    ID_EXAMPLE,
    is_cluster_name,
    is_id,
    new_id,
    parse_time,
    time_of,
    time_prefix,
)

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_an_id_has_its_time_in_utc_and_sorts_by_it() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5)))
    assert is_id(new_id(elsewhere))
    assert time_of(new_id(elsewhere)) == MOMENT
    assert new_id(MOMENT) < new_id(MOMENT + timedelta(seconds=1))
    assert new_id(MOMENT) != new_id(MOMENT)
    assert time_prefix(elsewhere) == "20260301T120000Z"
    assert is_id(ID_EXAMPLE)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "x",
            "20260101T000000Z",
            f"{ID_EXAMPLE}x",
            f"{ID_EXAMPLE}\n",
            f"../{ID_EXAMPLE}",
            f"{ID_EXAMPLE}/..",
            "../../etc/passwd",
            "\uff12\uff10\uff12\uff160101T000000Z-0123abcd",  # digits, and after all others when sorted
            7,
            None,
        ),
        *("20261301T000000Z-0123abcd", "20260230T000000Z-0123abcd", "20260101T250000Z-0123abcd"),
    ],
)
def test_what_new_id_cannot_have_made_is_no_id_and_leaves_no_folder(value: object, tmp_path: Path) -> None:
    assert not is_id(value)
    with pytest.raises(ConfigurationError, match="plan_id"):
        Layout(tmp_path, "prod").plan(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "_a", ".a", "a b", "ä", "x" * 101, None, "a\n", 7])
def test_a_name_that_a_storage_cannot_take_is_no_cluster_name(name: object) -> None:
    assert not is_cluster_name(name)
    with pytest.raises(ConfigurationError, match="letters, digits"):
        check_cluster(name)


@pytest.mark.parametrize(
    ("text", "folder"),
    [("Prod: EU/1", "Prod_EU_1"), ("__x", "x"), ("a" * 200, "a" * 100), ("9", "9"), ("a.b-c_d", "a.b-c_d")],
)
def test_a_cluster_name_is_made_from_a_connection_id(text: str, folder: str) -> None:
    assert cluster_folder(text) == folder


def test_a_time_needs_a_zone() -> None:
    assert parse_time("2026-03-01T13:00:00+01:00") == MOMENT
    with pytest.raises(ValueError, match="no zone"):
        parse_time("2026-03-01T12:00:00")


def test_the_order_of_keys_and_the_digest_itself_do_not_count() -> None:
    one = digest_of({"b": 1, "a": [1.5, "é"]})
    assert one == digest_of({"a": [1.5, "é"], "b": 1, "digest": "whatever"})
    assert one != digest_of({"a": ["é", 1.5], "b": 1})
    assert is_digest(one)


def test_the_canonical_form_is_the_one_that_earlier_versions_wrote() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == b'{"a":[1.5,"\\u00e9"],"b":1}'
    assert digest_of({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()


@pytest.mark.parametrize("content", [{"a": float("nan")}, {"a": object()}])
def test_what_is_no_json_has_no_digest(content: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        digest_of(content)


@pytest.mark.parametrize("value", ["", "a" * 63, "A" * 64, "a" * 64 + "\n", None, 7])
def test_a_digest_is_64_hexadecimal_digits(value: object) -> None:
    assert not is_digest(value)
